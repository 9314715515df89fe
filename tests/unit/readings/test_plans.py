"""How a plan stands, read from its log: at the beginning, under way, and after every kind of end."""

from typing import Any

import pytest
from tests.support.engine.golden_logs import SCENES
from tests.support.engine.machine import RUN
from tests.support.engine.plan_machine import PlanRun, ask, block, step

from towpath_contracts import facts
from towpath_readings.plans import PlanView, project_plan
from towpath_readings.run_spans import run_spans


def view(run: PlanRun) -> PlanView:
    found = project_plan(RUN, run.entries)
    assert found is not None
    return found


def standing(found: PlanView) -> dict[str, str]:
    rows = [one for step in found.steps for one in (step, *(step.agents if step.type == "parallel" else ()))]
    return {one.id: one.status for one in rows}


def three_steps(**task: Any) -> PlanRun:
    fan = block(ask("bob"), ask("cid", result_key="said"), merge_strategy="collect", id="fan")
    return PlanRun(step("ann", id="first"), fan, step("eve", id="last"), task=task)


def test_a_plan_under_way_shows_which_child_does_what() -> None:
    run = three_steps()
    assert (view(run).state, view(run).current_step, view(run).status) == ("awaiting_results", "first", "running")
    run.end(after=2)
    run.end(1, final={"n": 1}, after=1)
    found = view(run)
    assert standing(found) == {
        "first": "success",
        "fan": "running",
        "fan[0]": "running",
        "fan[1]": "success",
        "last": "pending",
    }
    assert [one.run_id for one in found.steps[1].agents] == [one.child_id for one in run.children[1:]]
    first, (bob, cid) = found.steps[0], found.steps[1].agents
    assert first.duration_ms is not None and first.duration_ms >= 2_000
    assert (cid.outputs, cid.result_key, bob.ended_at, found.success) == ({"n": 1}, "said", None, None)


def waits(run: PlanRun, place: int) -> None:
    """Let the child at *place* of the step say that it waits for people."""
    child = run.state.children[place].child_id
    run.feed(facts.ChildReportedFact(run_id=RUN, child_id=child, child_seq=2, status="waiting", news=True))


def test_a_step_waits_while_all_its_agents_that_go_on_do_and_no_longer() -> None:
    fan = block(ask("bob"), ask("cid"), ask("dan"), max_concurrency=2, merge_strategy="collect", id="fan")
    run = PlanRun(fan, step("eve", id="last"))
    waits(run, 0)
    assert (view(run).status, standing(view(run))["fan"]) == ("running", "running")
    waits(run, 1)
    assert (view(run).status, standing(view(run))["fan"]) == ("waiting", "waiting")
    run.end(1)
    agents = {"fan[0]": "waiting", "fan[1]": "success", "fan[2]": "running"}
    assert (view(run).status, standing(view(run))) == ("running", {"fan": "running", **agents, "last": "pending"})
    run.end(2)
    assert (view(run).status, standing(view(run))["fan"]) == ("waiting", "waiting")
    run.end(0)
    assert (view(run).status, standing(view(run))["last"]) == ("running", "running"), "it ended without going on first"


def test_every_step_has_its_end_once_the_run_has() -> None:
    run = three_steps()
    run.end(after=1)
    run.end(1, final={"n": 1}, after=1)
    run.end(0, status="failed", reason="loop_detected", after=1)
    found = view(run)
    assert standing(found) == run.statuses | {"last": "skipped"}
    assert (found.status, found.reason, found.state, found.success) == ("failed", "plan_failed", "failed", False)
    assert found.errors == tuple(run.output["errors"]) and found.bindings == run.output["bindings"]
    bob = found.steps[1].agents[0]
    assert (bob.status, bob.reason, bob.error and bob.error["code"]) == ("failed", "loop_detected", "loop_detected")
    assert (found.steps[2].started_at, found.steps[2].agents[0].status) == (None, "skipped")


def test_what_a_step_could_not_begin_was_skipped_in_it() -> None:
    fan = block(ask("bob", "{{ result.first.nothing }}"), ask("cid"), id="fan")
    run = PlanRun(step("ann", id="first"), fan)
    run.end()
    found = view(run)
    assert standing(found) == {"first": "success", "fan": "failed", "fan[0]": "skipped", "fan[1]": "skipped"}
    assert found.steps[1].error is not None and found.steps[1].error["code"] == "reference_undefined"


def test_a_cancelled_plan_and_a_workflow_are_read_the_same_way() -> None:
    swarm = {"mode": "workflow", "members": ["ann", "bob", "cid"], "stages": [["ann"], ["bob", "cid"]]}
    run = PlanRun(kind="swarm", swarm={"swarm": swarm}, user_message="Locks.")
    run.end(final={"message": "A draft."}, after=1)
    assert (view(run).kind, view(run).origin, view(run).steps[1].type) == ("swarm", "flow", "parallel")
    run.cancel(after=1)
    assert view(run).status == "cancelling"


def test_only_what_carries_out_steps_is_a_plan() -> None:
    handoff = {"mode": "handoff", "members": ["ann", "bob"], "stages": [["ann"]], "handoffs": {"ann": ("bob",)}}
    assert project_plan(RUN, PlanRun(kind="swarm", swarm={"swarm": handoff}, user_message="Hi.").entries) is None


@pytest.mark.parametrize("scene", ["planned", "flowing"])
def test_a_plan_can_be_read_after_any_of_its_events(scene: str) -> None:
    """However far a log goes, what it says of a plan is whole: no step is lost, nothing is over before it ended."""
    entries = SCENES[scene]().entries
    for length in range(1, len(entries) + 1):
        found = project_plan(RUN, entries[:length])
        assert found is not None and found.seq == length
        assert (found.success is None) == (found.state not in {"completed", "failed"} or length < len(entries))
        for one in found.steps:
            assert (one.ended_at is not None) <= (one.status not in {"pending", "running"})
            assert all(agent.run_id is None for agent in one.agents if agent.status == "pending")
        spans = {span.key for span in run_spans(RUN, entries[:length])}
        assert {f"plan:{place}" for place, one in enumerate(found.steps) if one.started_at is not None} <= spans


def test_a_plan_that_was_never_made_tells_why() -> None:
    run = PlanRun(prompt="Write about locks.")
    assert (view(run).state, view(run).steps) == ("planner_active", ())
    for _ in range(2):
        run.decide({"steps": []}, after=1)
    found = view(run)
    assert (found.reason, found.success, found.steps) == ("plan_invalid", False, ())
    assert found.errors[0]["error"]["code"] == "plan_invalid"

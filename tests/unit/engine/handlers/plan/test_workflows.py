"""Workflows: the stages of a swarm as a chained plan."""

from typing import Any

from tests.support.engine.machine import RUN
from tests.support.engine.plan_machine import NETWORK, PlanRun

from towpath_contracts.events import log as ev
from towpath_engine.handlers.children import new_child_run
from towpath_engine.handlers.plan.phases import flow_plan


def swarm(*stages: tuple[str, ...], **more: Any) -> dict[str, Any]:
    members = [name for stage in stages for name in stage]
    return {"mode": "workflow", "members": members, "stages": stages, **more}


def workflow(*stages: tuple[str, ...], nested: dict[str, Any] | None = None, **more: Any) -> PlanRun:
    compiled = swarm(*stages, swarms=nested or {})
    return PlanRun(kind="swarm", swarm={"swarm": compiled}, user_message="Write about locks.", **more)


def test_b9_stages_run_in_order_and_parallel_ones_at_the_same_time() -> None:
    """Row B9: swarm `workflow`: groups truly parallel, joined in name order."""
    run = workflow(("ann",), ("bob", "cid", "dan"), ("eve",))
    assert run.asked == [("ann", "Write about locks.")]
    run.end(final={"message": "A draft."})
    assert run.asked[1:] == [("bob", "A draft."), ("cid", "A draft."), ("dan", "A draft.")]
    run.end(2, final={"message": "from dan"})
    run.end(0, final={"note": "from bob"})
    run.end(1, final={"message": "from cid"})
    assert run.asked[-1] == ("eve", '{"note":"from bob"}\n\nfrom cid\n\nfrom dan')
    run.end(final={"title": "Locks"})
    assert (run.finished.status, run.output) == ("completed", {"title": "Locks"})
    assert run.triggers[-1] == "all_done" and run.state.step == 3
    log = [(one.event.type, getattr(one.event, "step", 0)) for one in run.entries]
    assert max(n for n, one in enumerate(log) if one == ("child_started", 2)) < log.index(("child_ended", 2))


def test_b9_long_answers_reach_the_next_stage_whole_while_an_agent_can_be_asked_them() -> None:
    run = workflow(("ann",), ("bob", "cid", "dan"), ("eve",))
    long = {"message": "words " * 5_000}
    run.end(final=long)
    assert run.asked[-1] == ("dan", long["message"])
    for place in range(3):
        run.end(place, final={"message": "chapter " * 7_000})
    asked = run.asked[-1][1]
    assert len(asked) < 10_000 and asked.count("(56014 bytes in all, stored as sha256:") == 3
    run.end(final=long)
    assert run.output == long


def test_b9_joining_follows_names_and_not_the_order_of_the_flow() -> None:
    """Row B9: joined in name order."""
    run = workflow(("dan", "ann", "cid"))
    for place, found in enumerate(("D", "A", "C")):
        run.end(place, final={"message": found})
    assert run.output == {"message": "A\n\nC\n\nD"}


def test_b9_a_member_that_fails_ends_the_workflow_and_stops_those_beside_it() -> None:
    run = workflow(("ann", "bob"), ("cid",))
    run.end(0, status="failed", reason="max_steps_exceeded", final={"message": "no answer within 10 steps"})
    assert len(run.events(ev.ChildStopRequested)) == 1
    run.end(1, status="cancelled")
    assert (run.finished.status, run.finished.reason) == ("failed", "plan_failed")
    assert run.statuses == {
        "stage_01": "failed", "stage_01[0]": "failed", "stage_01[1]": "skipped", "stage_02": "skipped",
    }  # fmt: skip
    assert run.output["errors"][0]["error"]["code"] == "max_steps_exceeded"


def test_b9_more_members_than_may_run_at_once_wait_for_their_turn() -> None:
    run = workflow(("lead", "ann", "bob", "cid", "dan", "eve"))
    assert len(run.children) == 4
    run.end(3)
    assert len(run.children) == 5
    narrow = PlanRun(kind="swarm", swarm={"swarm": swarm(("ann", "bob", "cid"), max_parallel=1)})
    assert len(narrow.children) == 1


def test_b9_a_swarm_is_a_member_like_an_agent() -> None:
    """Row B9, B11: a nested swarm is a child run of its own."""
    inner = {"editors": swarm(("bob", "cid"), ("dan",))}
    run = workflow(("ann",), ("editors",), nested=inner)
    run.end(final={"message": "A draft."})
    started = run.children[-1]
    assert started.task.swarm is not None and started.task.agent_key == "bob"
    assert (started.task.swarm.name, started.task.swarm.path) == ("editors", ("editors",))
    birth = new_child_run(run.state, started)
    assert birth.task.kind == "swarm"
    child = PlanRun(
        network=NETWORK, kind="swarm", swarm=birth.task.swarm, user_message=birth.task.user_message,
        parent={"run_id": RUN, "root_id": RUN, "step": 2, "index": 0, "depth": 1},
    )  # fmt: skip
    assert child.asked == [("bob", "A draft."), ("cid", "A draft.")]
    run.end(final={"message": "edited"})
    assert run.output == {"message": "edited"}


def test_b9_a_plan_may_ask_the_swarms_of_its_network() -> None:
    network = NETWORK.model_copy(
        update={"swarm": workflow(("ann",), nested={"editors": swarm(("bob",))}).state.created.swarm.swarm}  # type: ignore[union-attr] - it has one
    )
    run = PlanRun({"type": "agent", "agent": {"agent_key": "editors", "prompt": "go"}}, network=network)
    assert run.children[0].task.swarm is not None and run.children[0].task.swarm.name == "editors"


def test_the_flow_of_a_swarm_is_a_plan_whose_inputs_are_chained() -> None:
    compiled = workflow(("ann",), ("bob", "cid")).state.created.swarm
    assert compiled is not None
    plan = flow_plan(compiled.swarm)
    assert plan.chain and [(step.id, step.type) for step in plan.steps] == [
        ("stage_01", "agent"),
        ("stage_02", "parallel"),
    ]
    block = plan.steps[1].parallel
    assert block is not None and block.merge_strategy == "fail_fast"

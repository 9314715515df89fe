"""Plans in the run machine: order, concurrency, policies, limits, results."""

from typing import Any
from uuid import UUID

import pytest
from tests.support.engine.invariants import InvariantChecker
from tests.support.engine.machine import RUN, Machine, respond, types
from tests.support.engine.plan_machine import NETWORK, PlanRun, ask, block, step

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.events import log as ev
from towpath_contracts.networks.goal import GoalSettings
from towpath_contracts.runs.children import AskChildStatus
from towpath_engine.handlers.children import can_spawn, new_child_run, report_for_parent
from towpath_engine.replay import create
from towpath_engine.requests.effects import TextToStore
from towpath_engine.rules.plan_results import RESULTS_BYTES
from towpath_engine.state.replace import replace
from towpath_engine.state.run import dump_state, initial, load_state

FAN = ("ann", "bob", "cid", "dan", "eve", "lead")


def fan(policy: str = "collect", *, many: int = 6, **more: Any) -> dict[str, Any]:
    return block(*(ask(key) for key in FAN[:many]), id="fan", merge_strategy=policy, **more)


def running(run: PlanRun) -> int:
    return sum(not child.ended for child in run.state.children)


def test_e1_the_output_says_success_steps_bindings_and_errors() -> None:
    """Row E1: output success, steps, bindings, errors."""
    run = PlanRun(step("ann", result_key="found"), step("bob"))
    run.end(final={"n": 1})
    run.end(final={"message": "done"})
    assert (run.finished.status, run.finished.reason) == ("completed", "plan_completed")
    assert list(run.output) == ["success", "steps", "bindings", "errors"]
    assert run.output["success"] is True and run.output["errors"] == []
    assert run.output["bindings"] == {"found": {"n": 1}, "step_02": {"message": "done"}}
    first = run.output["steps"][0]
    assert (first["id"], first["type"], first["status"], first["agent_key"]) == ("step_01", "agent", "success", "ann")
    assert first["outputs"] == {"n": 1} and first["exec_id"] == str(run.children[0].child_id)
    assert run.state.step == 2, "one step of the run for each of the plan"
    lost = PlanRun(step("ann", id="only"))
    lost.end(status="abandoned", reason="abandoned", final={"message": "no way"})
    assert lost.output["success"] is False and lost.output["bindings"] == {}
    assert lost.output["errors"] == [{"step_id": "only", "error": {"code": "abandoned", "message": "no way"}}]


def test_e4_steps_run_in_order_and_are_asked_what_earlier_ones_found() -> None:
    """Row E4: sequential steps with templates over earlier results."""
    run = PlanRun(
        step("ann", "Find {{ bindings.what }}.", result_key="found"),
        step("bob", "Check.", **{"with": {"n": "{{ result.found.list[1] }}", "all": "{{ result.found }}"}}),
        task={"bindings": {"what": "gold"}},
    )
    assert run.asked == [("ann", "Find gold.")]
    run.end(final={"list": [1, 2]})
    assert run.asked[1:] == [("bob", 'Check.\n\n{"all":{"list":[1,2]},"n":2}')]


def test_e4_bindings_of_the_request_go_before_those_of_the_plan() -> None:
    plan = {"steps": [step("ann", "{{ bindings.a }}{{ bindings.b }}")], "bindings": {"a": "plan", "b": "plan"}}
    run = PlanRun(kind="plan", plan={"plan": plan, "bindings": {"a": "task"}}, swarm=None)
    assert run.asked == [("ann", "taskplan")]


def test_e4_what_a_step_asks_is_bounded_in_bytes_too() -> None:
    """Row E4: rendered over state — a character may take six bytes in JSON, and an event is one message."""
    crowd = block(*(ask("ann", "{{ bindings.x }}") for _ in range(2)))
    run = PlanRun(crowd, task={"bindings": {"x": "\x01" * 40_000}})
    assert len(run.children) == 2
    run = PlanRun(crowd, task={"bindings": {"x": "\x01" * 44_000}})
    assert run.output["errors"][0]["error"]["code"] == "input_too_large" and not run.children


def test_e4_a_field_that_is_not_there_fails_its_step_before_anything_of_it_starts() -> None:
    """Row E4: undefined reference is a clear failure."""
    parts = block(ask("bob"), ask("cid", "{{ result.found.author }}"), id="two")
    run = PlanRun(step("ann", result_key="found"), parts, step("dan"))
    run.end(final={"n": 1})
    assert len(run.children) == 1, "nobody of the step was started"
    assert run.triggers[-2:] == ["next_step", "step_failed"]
    assert run.statuses == {"step_01": "success", "two": "failed", "step_03": "skipped"}
    (error,) = run.output["errors"]
    assert error["error"]["code"] == "reference_undefined" and "result.found.author" in error["error"]["message"]


@pytest.mark.parametrize(
    ("step_cap", "task_cap", "agents", "expected"),
    [(None, None, 6, 4), (2, None, 6, 2), (9, None, 6, 4), (None, 3, 6, 3), (2, 1, 6, 1), (None, None, 2, 2)],
)
def test_e5_agents_run_at_the_same_time_up_to_the_least_of_all_caps(
    step_cap: int | None, task_cap: int | None, agents: int, expected: int
) -> None:
    """Row E5: concurrency = min(step, cap, children); row E7: parallel ≤ 4, callers can only lower."""
    more = {} if step_cap is None else {"max_concurrency": step_cap}
    task = {} if task_cap is None else {"max_parallel": task_cap}
    run = PlanRun(fan(many=agents, **more), task=task)
    peak = running(run)
    for place in range(agents):
        assert running(run) == min(expected, agents - place)
        run.end(place)
        peak = max(peak, running(run))
    assert peak == expected and run.output["success"]
    assert [key for key, _said in run.asked] == list(FAN[:agents]), "begun in the order of the plan"


def test_e5_collect_waits_for_all_and_is_partial_where_some_failed() -> None:
    """Row E5: errgroup policy `collect`; partial; later steps `skipped`."""
    run = PlanRun(fan(), step("ann"))
    for place in range(6):
        run.end(place, **({"status": "failed", "reason": "boom"} if place in (1, 4) else {}))
    assert run.statuses == {
        "fan": "partial",
        **{f"fan[{place}]": "failed" if place in (1, 4) else "success" for place in range(6)},
        "step_02": "skipped",
    }
    assert (run.finished.status, run.finished.reason) == ("failed", "plan_failed")
    assert [one["step_id"] for one in run.output["errors"]] == ["fan[1]", "fan[4]"]
    assert sorted(run.output["bindings"]["fan"]) == ["0", "2", "3", "5"], "what succeeded is kept"


def test_e5_fail_fast_stops_the_others_at_the_first_failure() -> None:
    """Row E5: errgroup policy `fail_fast`."""
    run = PlanRun(fan("fail_fast"), step("ann"))
    run.end(2)
    events = run.end(0, status="timed_out", reason="deadline_exceeded", final={"message": "too slow"})
    assert [one.child_id for one in events if isinstance(one, ev.ChildStopRequested)] == [
        run.state.children[place].child_id for place in (1, 3, 4)
    ]
    asks = [effect.message for effect in run.sent if isinstance(effect.message, AskChildStatus)]
    assert len(asks) == 3 and all(one.cancel and "has failed" in one.reason for one in asks)
    assert not run.state.is_final, "it ends once those it stopped have ended"
    run.end(1, status="cancelled")
    run.end(4)
    assert len(run.state.children) == 5, "nobody is started any more"
    run.end(3, status="cancelled")
    assert run.statuses == {
        "fan": "partial", "fan[0]": "failed", "fan[1]": "skipped", "fan[2]": "success", "fan[3]": "skipped",
        "fan[4]": "success", "fan[5]": "skipped", "step_02": "skipped",
    }  # fmt: skip
    assert run.output["errors"] == [
        {"step_id": "fan[0]", "error": {"code": "deadline_exceeded", "message": "too slow"}}
    ]


def test_e5_first_success_stops_the_others_and_is_a_success() -> None:
    """Row E5: errgroup policy `first_success`."""
    run = PlanRun(fan("first_success", many=4), step("eve", "{{ result.fan[1] }}"))
    run.end(3, status="failed", reason="boom")
    assert not run.events(ev.ChildStopRequested)
    run.end(1, final={"message": "mine"})
    assert len(run.events(ev.ChildStopRequested)) == 2
    run.end(0, status="cancelled")
    run.end(2, status="cancelled")
    assert run.asked[-1] == ("eve", "mine")
    run.end()
    assert run.output["success"] and run.statuses["fan"] == "success"
    assert [run.statuses[f"fan[{place}]"] for place in range(4)] == ["skipped", "success", "skipped", "failed"]
    assert run.output["errors"] == [], "nothing of the plan went wrong"
    assert run.output["steps"][0]["children"][3]["error"]["code"] == "boom"


def test_e5_first_success_fails_where_nobody_succeeds() -> None:
    run = PlanRun(fan("first_success", many=2))
    run.end(0, status="failed", reason="boom")
    run.end(1, status="abandoned", reason="abandoned")
    assert (run.statuses["fan"], run.finished.reason) == ("failed", "plan_failed")


def test_e5_results_stand_under_their_keys_and_without_one_under_the_step() -> None:
    run = PlanRun(block(ask("ann", result_key="a"), ask("bob"), ask("cid", result_key="c"), ask("ann"), id="mix"))
    for place in range(4):
        run.end(place, final={"n": place})
    assert run.output["bindings"] == {"a": {"n": 0}, "c": {"n": 2}, "mix": {"1": {"n": 1}, "3": {"n": 3}}}


@pytest.mark.parametrize("deep", [1, 3])
def test_e7_the_agents_of_a_plan_that_an_agent_asked_for_stand_beside_it(deep: int) -> None:
    """Row E7: depth ≤ 3, so that orchestrations nest three deep; the agents of a submitted plan stand below it."""
    ordered = PlanRun(step("ann"), parent={"run_id": RUN, "root_id": RUN, "step": 1, "index": 0, "depth": deep})
    for plan, depth in ((ordered, deep), (PlanRun(step("ann")), 1)):
        (child,) = plan.children
        begun = new_child_run(plan.state, child).task.parent
        assert begun is not None and begun.depth == depth


@pytest.mark.parametrize(
    ("own", "steps", "agents", "expected"),
    [
        (60_000, None, None, 60_000),
        (60_000, 9_000, None, 9_000),
        (60_000, 9_000, 4_000, 4_000),
        (5_000, 9_000, 8_000, 5_000),
    ],
)
def test_e7_an_agent_has_the_least_of_its_own_time_its_steps_and_its_runs(
    own: int, steps: int | None, agents: int | None, expected: int
) -> None:
    """Row E7: timeouts min(own, parent)."""
    timed = step("ann", timeout_ms=steps)
    timed["agent"] |= {} if agents is None else {"timeout_ms": agents}
    run = PlanRun(timed, timeout_ms=own)
    assert run.children[0].task.timeout_ms == expected


def test_e7_who_starts_late_in_a_step_has_what_is_left_of_it() -> None:
    run = PlanRun(fan(many=5) | {"timeout_ms": 10_000}, timeout_ms=60_000)
    run.end(0, after=7)
    assert run.children[4].task.timeout_ms == 3_000


def test_e7_a_plan_needs_no_more_steps_than_its_own() -> None:
    """Row E7: steps ≤ 12; the steps of a run bound the agents, not the plan."""
    run = PlanRun(*[step("ann") for _ in range(12)], max_steps=2)
    assert run.children[0].task.max_steps == 2
    for _ in range(12):
        run.end()
    assert run.output["success"] and run.state.step == 12


def test_a_plan_that_came_past_the_door_is_checked_all_the_same() -> None:
    run = PlanRun(*[step("ghost") for _ in range(13)])
    assert (run.finished.reason, run.triggers) == ("plan_invalid", ["start_plan", "validation_failed"])
    (error,) = run.output["errors"]
    assert len(error["error"]["faults"]) == 14 and run.children == []


def test_e11_a_cancel_reaches_every_child_and_waits_for_it() -> None:
    """Row E11: cancellation reaches every child."""
    run = PlanRun(fan())
    run.end(1)
    run.cancel()
    asks = [effect.message for effect in run.sent if isinstance(effect.message, AskChildStatus)]
    assert len(asks) == 4 and all(one.cancel for one in asks)
    for place in (0, 2, 3):
        run.end(place, status="cancelled")
        assert not run.state.is_final
    assert types(run.end(4, status="cancelled"))[-1] == "run_finished"
    assert (run.finished.status, run.statuses["fan"], run.statuses["fan[5]"]) == ("cancelled", "partial", "skipped")
    assert len(run.children) == 5, "nobody is started after the cancel"


def test_a_large_answer_travels_as_a_reference_and_is_stored_by_who_gave_it() -> None:
    run = PlanRun(step("ann"))
    (begun,) = run.children
    birth = new_child_run(run.state, begun)
    child = Machine(NETWORK, start=False)
    child.state, first = create(RUN, NETWORK, birth.task, run.now)
    child.watch = InvariantChecker(NETWORK, first)
    child.admit()
    answer = {"text": "x" * 70_000}
    child.decide(respond(answer))
    (stored,) = [effect.message for effect in child.sent if isinstance(effect.message, TextToStore)]
    assert stored.text == canonical_json(answer) and stored.digest == digest_text(stored.text)
    report = report_for_parent(child.state)
    assert report is not None and report.final is not None
    assert (report.final["blob"], report.final["bytes"]) == (stored.digest, len(stored.text))
    assert len(report.final["preview"]) == 2_000


def test_the_results_of_a_plan_are_bounded_and_what_does_not_fit_is_stored() -> None:
    run = PlanRun(*[fan(many=6) | {"id": f"s{n}"} for n in range(4)])
    stored: dict[str, str] = {}
    answers = {}
    for n in range(4):
        for place in range(6):
            answers[n, place] = {"text": f"{n}{place}" * 8_000}
            run.end(place, final=answers[n, place])
            stored |= {e.message.digest: e.message.text for e in run.sent if isinstance(e.message, TextToStore)}
    results = run.output["bindings"]
    assert len(canonical_json(results)) < RESULTS_BYTES + 24 * 300
    kept = [results[f"s{n}"][str(place)] for n in range(4) for place in range(6)]
    assert kept[0] == answers[0, 0]
    for value, answer in zip(kept, answers.values(), strict=True):
        assert value == answer or stored[value["blob"]] == canonical_json(answer)
    assert any("blob" in value for value in kept)


@pytest.mark.parametrize(
    "forged",
    [
        {"blob": "x" * 60_000, "bytes": 1, "preview": ""},
        {"blob": digest_text(""), "bytes": 1, "preview": "x" * 60_000},
        {"blob": digest_text(""), "bytes": 10**4_000, "preview": "y" * 60_000},
        {"blob": digest_text(""), "bytes": ["z" * 60_000], "preview": ""},
        {"blob": digest_text(""), "bytes": 1, "preview": {"x": "y" * 60_000}},
    ],
)
def test_an_answer_that_looks_like_a_reference_is_bounded_like_any_other(forged: dict[str, Any]) -> None:
    run = PlanRun(*(block(*(ask("ann", result_key=f"k{n}_{m}") for m in range(8))) for n in range(4)))
    while not run.state.is_final:
        run.end(next(place for place, child in enumerate(run.state.children) if not child.ended), final=forged)
    assert run.finished.status == "completed"
    kept = run.output["bindings"].values()
    assert len(kept) == 32 and all(value["blob"] == digest_text(canonical_json(forged)) for value in kept)
    assert len(canonical_json(run.output["bindings"])) <= RESULTS_BYTES


def test_a_plan_resumes_at_the_step_it_was_in() -> None:
    """Row E1: durable; what a crash leaves is the log, and its next fact goes on from there."""
    run = PlanRun(step("ann", result_key="a"), fan(many=5), step("bob", "{{ result.a.n }}"))
    run.end(final={"n": 1})
    run.end(2)
    run.state = load_state(dump_state(run.state), run.state.created, NETWORK)
    for place in (0, 1, 3, 4):
        run.end(place)
    assert run.asked[-1] == ("bob", "1")
    run.end()
    assert run.output["success"] and len(run.children) == 7, "no child is started twice"


def test_e7_a_run_keeps_the_lower_caps_that_held_when_it_was_submitted() -> None:
    """Row E7: caps can only be lowered; they come with the run, and go down to its children."""
    caps = {"max_depth": 1, "plan_steps": 2, "max_parallel": 1}
    run = PlanRun(block(ask("ann"), ask("bob")), step("cid"), caps=caps)
    assert len(run.children) == 1, "one at a time"
    child = new_child_run(run.state, run.children[0]).task
    assert child.caps == run.state.caps
    below = initial(UUID(int=9), run.network)
    assert not can_spawn(replace(below, task=child))
    run.end(0)
    run.end(1)
    run.end(0)
    assert run.finished.status == "completed"
    long = PlanRun(step("ann"), step("bob"), step("cid"), caps=caps)
    assert long.finished.reason == "plan_invalid"


def test_an_agent_with_criteria_works_in_a_goal_run() -> None:
    criteria = [{"when": "results.exists(r, r.status == 'succeeded')"}]
    run = PlanRun(step("ann", "Do it.", acceptance_criteria=criteria), block(ask("bob"), ask("cid")))
    child = new_child_run(run.state, run.children[0]).task
    assert child.goal is not None and (child.kind, child.goal.goal, child.user_message) == ("goal", "Do it.", "Do it.")
    assert (child.goal_settings.allow_words, child.goal_settings.require_evidence) == (False, True)
    run.end(0)
    assert [new_child_run(run.state, one).task.kind for one in run.children[1:]] == ["network", "network"]
    wrong = PlanRun(step("ann", acceptance_criteria=[{"when": "now() > 1"}]))
    assert wrong.finished.reason == "plan_invalid" and "acceptance_criteria/0/when" in wrong.finished.final["message"]


def test_an_agent_that_is_asked_nothing_has_its_criteria_for_a_goal() -> None:
    criteria = [{"text": "It is done."}]
    run = PlanRun(step("ann", result_key="a"), step("bob", "{{ result.a }}", acceptance_criteria=criteria))
    run.end(final={"message": ""})
    child = new_child_run(run.state, run.children[1]).task
    assert child.goal is not None and (child.goal.goal, child.user_message) == ("Meet the acceptance criteria.", "")


def test_the_goal_of_an_agent_has_the_settings_of_its_network_and_the_judge_that_a_script_leaves_it() -> None:
    criteria = [{"text": "It is done."}]
    network = NETWORK.model_copy(
        update={"goal": GoalSettings(judge_model="local:judge", allow_words=True, max_steps=3)}
    )
    judges = []
    for script in ("sha256:aa", None):
        run = PlanRun(step("ann", acceptance_criteria=criteria), network=network, script_digest=script)
        born = new_child_run(run.state, run.children[0]).task
        settings = born.goal_settings
        assert born.max_steps == 3
        assert (settings.allow_words, settings.require_evidence) == (True, False)
        judges.append(settings.judge_model)
    assert judges == [None, "local:judge"]

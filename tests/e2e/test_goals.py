"""Rows C1 to C13 on the running platform: goals that are checked, doubts that reach a person, and the sample."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
import pytest_asyncio
from tests.support.gateway.typed_stream import check_brief_stream, check_typed_stream
from tests.support.platform.goal_platform import (
    ASKS,
    EXAMPLE,
    PASSES,
    TESTED,
    Place,
    check_state_fields,
    goal_place,
    respond,
    use,
)

from towpath import Goal, RefusedError

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    async with goal_place() as found:
        yield found


async def test_c1_another_attempt_repairs_the_sample_and_passing_tests_end_the_run(place: Place) -> None:
    """Row C1: goal, acceptance criteria, constraints; plan → execute → validate every step; never single-shot."""
    script = json.loads((EXAMPLE / "script.json").read_text())
    goal = Goal("Make the tests pass.", criteria=["tests.failed == 0"], constraints={"tests": "stay as they are"})
    done = await place.sdk.run("mender", goal=goal, script=script, timeout=120)
    assert (done.status, done.reason) == ("completed", "criteria_met")
    validated = await place.events(str(done.run_id), "step_validated")
    found = [(one["step"], one["success"], one["attempt"]) for one in validated]
    assert found == [(1, True, 1), (2, True, 2), (3, True, 1)]
    first, second = (await place.events(str(done.run_id), "tool_call_finished"))[1:3]
    assert (first["status"], second["status"]) == ("failed", "succeeded")
    issued = await place.events(str(done.run_id), "instruction_issued")
    assert issued[1]["instruction"]["calls"][0]["args"] != issued[2]["instruction"]["calls"][0]["args"]
    measured = await place.events(str(done.run_id), "progress_measured")
    assert [(one["source"], one["score"]) for one in measured] == [("tests", 0.5), ("tests", 1.0)]


async def test_c1_a_model_that_says_done_too_early_is_not_believed(place: Place) -> None:
    script = [respond("All tests pass now."), use("lab.test", passed=3, failed=1), respond({"sure": True}), TESTED]
    run_id = await place.pursue(script, PASSES)
    view = await place.until(run_id)
    assert (view["status"], view["reason"], view["step"]) == ("completed", "criteria_met", 4)
    refused = await place.events(run_id, "decision_refused")
    assert [one["code"] for one in refused] == ["goal_not_reached", "goal_not_reached"]
    assert "tests.failed == 0" in refused[0]["feedback"]


async def test_c1_a_judgement_without_evidence_of_the_run_reaches_nothing(place: Place) -> None:
    """Row C1: met by what happened; words of a model, whichever it is, are not."""
    met = [[{"criterion": 0, "met": True, "evidence": one}] for one in ("I see", "report.md")]
    words, named = ({"kind": "validate", "valid": True, "criteria": one} for one in met)
    script = [use("lab.build", names=["report.md"]), respond("done"), words, respond("really done"), named]
    run_id = await place.pursue(script, "The report is clear.")
    view = await place.until(run_id)
    assert (view["status"], view["reason"], view["step"]) == ("completed", "criteria_met", 3), view
    validated = await place.events(run_id, "step_validated")
    assert [(one["success"], one["criteria"]) for one in validated] == [(True, []), (False, []), (True, [0])]


async def test_c1_a_goal_without_criteria_is_not_reached_by_words_in_its_first_step(place: Place) -> None:
    run_id = await place.pursue([respond("done"), {"kind": "progress", "progress": 1.0}])
    assert (await place.until(run_id))["reason"] == "script_exhausted", "it went on"
    (refused,) = await place.events(run_id, "decision_refused")
    assert refused["code"] == "goal_not_reached" and "no call has succeeded" in refused["feedback"]


async def test_c1_a_goal_is_refused_with_everything_that_is_wrong_with_it(place: Place) -> None:
    criteria = ("tests.failed ==", "tests.failed == 0", "now() > 1", "progress >= 1")
    with pytest.raises(RefusedError) as refused:
        await place.sdk.submit("lab", goal=Goal("x", criteria=criteria, settings={"specialists": ["ghost"]}))
    assert refused.value.problem.status == 422
    assert [(one.pointer, one.code) for one in refused.value.problem.errors] == [
        ("/goal/acceptance_criteria/0/when", "criterion_invalid"),
        ("/goal/acceptance_criteria/2/when", "criterion_invalid"),
        ("/goal/acceptance_criteria/3/when", "criterion_invalid"),
        ("/goal/settings/specialists/0", "agent_not_found"),
    ]


async def test_c2_the_task_state_has_every_field_at_any_moment(place: Place) -> None:
    """Row C2: TaskState and Step with every field of the source, readable at any moment."""
    script = [
        use("lab.build", names=["a.py", "b.txt"]),
        {**use("lab.test", passed=1, failed=3, coverage=0.25), "uncertain": True},
        {"kind": "confidence", "confidence": 0.2, "reason": "most of it fails"},
        TESTED,
    ]
    run_id = await place.pursue(script, PASSES)
    gate = await place.gate(run_id)
    state = await place.sdk.goal(run_id)
    check_state_fields(state)
    assert (state.status, state.current_step, state.max_steps) == ("waiting", 2, 20)
    assert (state.escalation_triggered, state.escalation_reason) == (True, "Low confidence: 0.20")
    assert (state.last_confidence_check_step, state.last_confidence_score) == (2, 0.2)
    assert list(state.artifacts) == ["a.py", "b.txt"] and state.progress_metrics["coverage"] == 0.25
    assert [step.acceptance_progress for step in state.steps_history] == [0.7, 0.25]
    assert [call.kind for call in state.llm_calls] == ["decide", "decide", "confidence"]
    assert state.steps_history[0].planned_action["calls"][0]["tool"] == "lab.build"
    assert state.steps_history[1].success and state.steps_history[1].reasoning == "try lab.test"
    await place.say(gate, "approved")
    await place.until(run_id)
    after = await place.sdk.goal(run_id)
    assert (after.status, after.reason, after.criteria_met) == ("completed", "criteria_met", [0])
    assert [call.status for call in after.tool_executions] == ["succeeded"] * 3
    plain = await place.client.post("/v1/runs", json={"network": "lab", "user_message": "hi", "script": [respond("x")]})
    refused = await place.client.get(f"/v1/runs/{plain.json()['run_id']}/goal")
    assert refused.json()["code"] == "not_a_goal"


async def test_a_fork_of_a_goal_that_waits_for_a_person_asks_them_too(place: Place) -> None:
    """Row C11: a gate stands until somebody with the right to it decides; who may fork can't do without."""
    edit, asks = use("lab.edit", n=0), {"action": "REQUEST_GATE", "action_details": {"reason": "May I?"}}
    waits: dict[str, list[Any]] = {
        "manual": [edit, asks],
        "low_confidence": [{**edit, "uncertain": True}, {"kind": "confidence", "confidence": 0.1}],
        "loop_detected": [use("lab.alpha"), use("lab.beta"), use("lab.gamma")],
    }
    for gate_type, script in waits.items():
        run_id = await place.pursue([*script, TESTED], PASSES)
        asked = await place.gate(run_id)
        step = 1 + sum("action" in decision for decision in script)
        forked = str((await place.sdk.fork(run_id, step, script=[TESTED])).run_id)
        gate = await place.gate(forked)
        assert [(one["gate_type"], one["reason"]) for one in (gate, asked)] == [(gate_type, asked["reason"])] * 2
        assert (await place.say(gate, "approved")).status_code == 200
        assert (await place.until(forked))["reason"] == "criteria_met"
        assert (await place.gate(run_id))["gate_id"] == asked["gate_id"], "the run itself still waits"
        assert (await place.say(asked, "stop", "enough")).status_code == 200


async def test_c3_six_ways_to_stop_each_alone(place: Place) -> None:
    """Row C3: criteria met, max steps 20, loop, escalation, timeout, cost limit: all really enforced."""
    edits = [use("lab.edit", n=n) for n in range(30)]
    slow = [{**edits[0], "delay_ms": 30_000}]
    loops = [use("lab.edit", n=1, fails="boom"), *(use("lab.edit", n=n, fails="boom") for n in range(2, 9))]
    asks = {"action": "REQUEST_GATE", "action_reasoning": "", "action_details": {"reason": "May I?"}}
    runs = {
        "criteria_met": await place.pursue([*edits[:2], TESTED], PASSES),
        "max_steps_exceeded": await place.pursue(edits, PASSES, settings={"autonomy": "high"}),
        "loop_detected": await place.pursue(loops, PASSES, settings={"step_attempts": 1}),
        "manual": await place.pursue([asks], PASSES),
        "deadline_exceeded": await place.pursue(slow, PASSES, timeout_ms=1_500),
        "budget_exceeded": await place.pursue(edits, PASSES, budget={"tool_calls": 2}),
    }
    for wanted in ("loop_detected", "manual"):
        gate = await place.gate(runs[wanted])
        assert gate["gate_type"] == wanted
        assert (await place.say(gate, "stop", "enough")).status_code == 200
    views = {reason: await place.until(run_id) for reason, run_id in runs.items()}
    assert {reason: view["reason"] for reason, view in views.items()} == {reason: reason for reason in runs}
    assert {reason: view["status"] for reason, view in views.items()} == {
        "criteria_met": "completed",
        "max_steps_exceeded": "failed",
        "loop_detected": "escalated",
        "manual": "escalated",
        "deadline_exceeded": "timed_out",
        "budget_exceeded": "failed",
    }
    assert views["max_steps_exceeded"]["step"] == 20
    assert (await place.sdk.goal(runs["deadline_exceeded"])).timeout_reached
    assert (await place.sdk.goal(runs["budget_exceeded"])).resource_limit_hit


async def test_c4_three_different_attempts_two_and_four_seconds_apart_else_an_explicit_failure(place: Place) -> None:
    """Row C4: 3 attempts, 2 s and 4 s, each with a different action (unseen signature), else explicit failure."""
    tries = [use("lab.edit", n=n, fails=f"no {word}") for n, word in enumerate(("way", "luck", "use"))]
    repeats = [tries[0], tries[0], tries[0], tries[0], TESTED]
    three = await place.pursue([*tries, TESTED], PASSES)
    same = await place.pursue(repeats, PASSES)
    for run_id, why, attempts in ((three, "failed after 3 attempts", 3), (same, "only repeats", 2)):
        assert (await place.until(run_id))["reason"] == "criteria_met"
        first = (await place.events(run_id, "step_validated"))[0]
        assert not first["success"] and first["reason"].startswith(why) and first["attempt"] == attempts
    backed = await place.events(three, "backed_off")
    waits = [datetime.fromisoformat(one["until"]) - datetime.fromisoformat(one["at"]) for one in backed]
    assert [wait.total_seconds() for wait in waits] == [2.0, 4.0]
    issued = [
        [call["args"].get("n") for call in one["instruction"]["calls"]]
        for one in await place.events(three, "instruction_issued")
    ]
    assert issued[:3] == [[0], [1], [2]]
    answered = (await place.events(three, "decision_received"))[1:3]
    for wait, answer in zip(backed, answered, strict=True):
        assert datetime.fromisoformat(answer["at"]) >= datetime.fromisoformat(wait["until"]), "not before its time"


async def test_c5_three_failures_of_one_code_for_different_reasons_are_no_loop(place: Place) -> None:
    """Row C5: *identical* errors open the gate; a tool's code may stand for many reasons."""
    tries = [use("lab.edit", n=n, fails=why) for n, why in enumerate(("no ink", "wet paper", "torn page"))]
    run_id = await place.pursue([*tries, TESTED], PASSES, settings={"step_attempts": 1})
    view = await place.until(run_id, "waiting")
    assert (view["status"], view["reason"], view["step"]) == ("completed", "criteria_met", 4), view["waits"]


async def test_c7_progress_is_by_tests_then_artifacts_then_the_model(place: Place) -> None:
    """Row C7: progress: tests → artifacts → model, in this order, with their metrics."""
    script = [
        use("lab.edit", n=1),
        {"kind": "progress", "progress": 0.3, "reason": "begun"},
        use("lab.build", names=["a.py"]),
        use("lab.test", passed=1, failed=3, coverage=0.2),
        use("lab.build", names=["b.py"]),
        use("lab.test", passed=99, failed=1, coverage=0.5, n=1),
        TESTED,
    ]
    run_id = await place.pursue(script, PASSES, settings={"validate_steps": True})
    assert (await place.until(run_id))["reason"] == "criteria_met"
    measured = await place.events(run_id, "progress_measured")
    scores = [("model", 0.3), ("artifacts", 0.7), *(("tests", score) for score in (0.25, 0.25, 0.9, 1.0))]
    assert [(one["source"], one["score"]) for one in measured] == scores
    increases = {"passing_increase": 98, "coverage_increase": 0.3, "failure_rate_decrease": 0.74}
    assert measured[4]["metrics"].items() >= increases.items()


async def test_c8_confidence_every_fifth_step_on_doubt_and_on_request_and_what_is_unreadable_is_none(
    place: Place,
) -> None:
    """Row C8: every 5 steps, on stated uncertainty, on request; < 0.5 or unparsable → gate."""
    edits = [use("lab.edit", n=n) for n in range(10)]
    runs = {
        "interval": await place.pursue([*edits[:5], {"kind": "confidence", "confidence": 0.49}], PASSES),
        "uncertain": await place.pursue(
            [{**edits[0], "uncertain": True}, {"kind": "confidence", "raw": "no idea"}], PASSES
        ),
        "requested": await place.pursue(
            [{**edits[0], "request_confidence": True}, {"kind": "confidence", "confidence": 7}, TESTED], PASSES
        ),
    }
    asked = {}
    for trigger in ("interval", "uncertain"):
        gate = await place.gate(runs[trigger])
        assert gate["gate_type"] == "low_confidence"
        asked[trigger] = gate["reason"]
        payload = {"agent_id", "task_id", "current_step", "goal", "progress_score", "last_steps", "artifacts"}
        assert payload <= gate["detail"].keys()
        await place.say(gate, "stop")
    assert asked == {"interval": "Low confidence: 0.49", "uncertain": "Low confidence: 0.00"}
    assert (await place.until(runs["requested"]))["reason"] == "criteria_met"
    events = [(await place.events(run_id, "confidence_measured"))[0] for run_id in runs.values()]
    assert [(one["step"], one["trigger"], one["score"]) for one in events] == [
        (5, "interval", 0.49),
        (1, "uncertain", 0.0),
        (1, "requested", 1.0),
    ]


async def test_c9_denied_then_an_alternative_then_a_specialist_then_a_person(place: Place) -> None:
    """Row C9: tools only through orchestrator and TAS; denial ladder: alternative → specialist → person."""
    script = [
        use("lab.publish", "coder", n=1),
        use("lab.publish", "coder", n=2),
        use("lab.publish", "senior", n=3),
        {**respond({"published": 3}), "agent": "senior"},
        use("lab.publish", "coder", n=4),
    ]
    run_id = await place.pursue(script, {"when": "results.exists(r, r.status == 'never')"})
    gate = await place.gate(run_id)
    assert gate["gate_type"] == "permission" and gate["detail"]["tool"] == "lab.publish"
    sought = await place.events(run_id, "help_sought")
    assert [(one["rung"], one["tool"]) for one in sought] == [
        ("alternative", "lab.publish"),
        ("specialist", "lab.publish"),
        ("person", "lab.publish"),
    ]
    assert sought[1]["target"] == "senior"
    (child,) = await place.events(run_id, "child_ended")
    assert (child["status"], child["final"]) == ("completed", {"published": 3})
    (done,) = await place.events(child["child_id"], "tool_call_finished")
    assert (done["agent_key"], done["result"]) == ("senior", {"published": 3}), "by its own right, in a run of its own"
    assert not await place.events(run_id, "tool_call_finished")
    assert (await place.say(gate, "stop", "no")).status_code == 200
    assert (await place.until(run_id))["reason"] == "permission"


async def test_a_run_waits_while_its_child_waits_for_people_and_the_tree_shows_both(place: Place) -> None:
    """A gate stops the active time of the run and of every ancestor that waits on it."""
    script = [*ASKS, use("lab.publish", "senior", n=7), {**respond({"published": 7}), "agent": "senior"}]
    run_id = await place.pursue([*script, {**TESTED, "agent": "coder"}], PASSES)
    assert (await place.until(run_id, "waiting"))["status"] == (await place.sdk.goal(run_id)).status == "waiting"
    child = await place.child_of(run_id, lambda one: one["status"] == "waiting")
    assert (child["parent_run_id"], child["depth"], child["agent_key"]) == (run_id, 1, "senior")
    gate = await place.gate(child["run_id"])
    assert (gate["gate_type"], gate["run_id"]) == ("approval", child["run_id"]), "the child's own gate"
    assert (await place.say(gate, "approved")).status_code == 200
    assert (await place.until(run_id))["reason"] == "criteria_met"
    assert [one["waits"] for one in await place.events(run_id, "child_waits")] == [True, False]
    top = await place.sdk.tree(run_id)
    assert [(one.status, one.user_message[:5], one.children) for one in top.children] == [("completed", "coder", ())]


async def test_children_have_ended_before_a_cancelled_run_says_so(place: Place) -> None:
    """A cancel travels down, and nothing of a child happens after the parent is `cancelled`."""
    late = {**use("lab.publish", "senior", n=4), "delay_ms": 60_000}
    run_id = await place.pursue([*ASKS, use("lab.publish", "senior", n=3), late], PASSES)
    child = await place.child_of(run_id, lambda one: one["step"] == 2)
    assert (await place.client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "enough"})).status_code == 202
    assert (await place.until(run_id))["status"] == "cancelled"
    view = (await place.client.get(f"/v1/runs/{child['run_id']}")).json()
    (ended,) = await place.events(run_id, "child_ended")
    (over,) = await place.events(run_id, "run_finished")
    assert (view["status"], ended["status"]) == ("cancelled", "cancelled")
    assert datetime.fromisoformat(view["ended_at"]) <= datetime.fromisoformat(over["at"])
    (cancel,) = await place.events(child["run_id"], "cancel_accepted")
    assert cancel["by"] == f"run {run_id}"
    listed = {str(one.run_id): one.message for one in (await place.sdk.runs(status="cancelled")).runs}
    assert over["final"]["message"] == listed[run_id] == "cancelled by local: enough"
    assert listed[child["run_id"]] == f"cancelled by run {run_id}: its parent is cancelling"
    assert [one["result"] for one in await place.events(child["run_id"], "tool_call_finished")] == [{"published": 3}]


async def test_c11_a_gate_takes_one_verdict_and_a_denial_with_instructions(place: Place) -> None:
    """Row C11: deny needs feedback; second resolve refused; two at once: one wins; > 3 revisions → manual."""
    doubts: list[Any] = []
    for n in range(6):
        doubts += [{**use("lab.edit", n=n), "uncertain": True}, {"kind": "confidence", "confidence": 0.1}]
    run_id = await place.pursue(doubts, PASSES)
    gate = await place.gate(run_id)
    unsaid = await place.say(gate, "denied")
    assert (unsaid.status_code, unsaid.json()["code"]) == (400, "reason_required")
    assert (await place.say(gate, "happened")).json()["code"] == "verdict_invalid"
    words = await asyncio.gather(place.say(gate, "denied", "first"), place.say(gate, "approved", "first"))
    assert sorted(answer.status_code for answer in words) == [200, 409], [answer.text for answer in words]
    assert (await place.say(gate, "denied", "late")).json()["code"] == "gate_settled"
    denied = int(words[0].status_code == 200)  # an approval takes the count of revisions back
    for n in range(denied, 3):
        gate = await place.gate(run_id)
        assert gate["gate_type"] == "low_confidence"
        assert (await place.say(gate, "denied", f"way {n}")).status_code == 200
        noted = [one["text"] for one in await place.events(run_id, "note_added")]
        assert noted[-1] == f"A person asks for another way: way {n}"
    last = await place.gate(run_id)
    assert last["gate_type"] == "manual", "after three revisions"
    assert (await place.say(last, "denied", "give up")).status_code == 200
    view = await place.until(run_id)
    assert (view["status"], view["reason"]) == ("escalated", "manual")
    audit = (await place.client.get("/v1/audit", params={"run_id": run_id, "limit": 100})).json()
    assert json.dumps(audit).count("gate.resolved") >= 5 - denied


async def test_c13_autonomy_decides_who_is_asked(place: Place) -> None:
    """Row C13: autonomy low / medium / high decides who is asked."""
    doubt = [{**use("lab.edit", n=1), "uncertain": True}, {"kind": "confidence", "confidence": 0.4}, TESTED]
    sure = [{**use("lab.edit", n=1), "uncertain": True}, {"kind": "confidence", "confidence": 0.9}, TESTED]
    runs = {
        (name, autonomy): await place.pursue(script, PASSES, settings={"autonomy": autonomy})
        for name, script in (("doubt", doubt), ("sure", sure))
        for autonomy in ("low", "medium", "high")
    }
    for (name, autonomy), run_id in runs.items():
        person = autonomy == "low" or (autonomy, name) == ("medium", "doubt")
        if person:
            assert (await place.say(await place.gate(run_id), "approved")).status_code == 200
        assert (await place.until(run_id))["reason"] == "criteria_met"
        assert len(await place.events(run_id, "gate_opened")) == person, (name, autonomy)
    smaller = await place.pursue(sure, PASSES, settings={"confidence_threshold": 0.95})
    assert (await place.until(smaller))["reason"] == "criteria_met", (
        "at medium autonomy the model settles it from 0.7 on"
    )
    noted = [one["text"] for one in await place.events(runs["doubt", "high"], "note_added")]
    assert noted[0].startswith("Low confidence: 0.40"), "at high autonomy the model is told instead"


async def test_b12_a_run_and_its_child_are_streamed_as_one_with_what_the_models_write(place: Place) -> None:
    """Row B12 across children: event order of each run, paths, deltas assembled, the repaired answer alone."""
    said = "Number three is published, as you asked for; nothing else was touched."
    whole = json.dumps(respond({"message": said}))
    slow = {"raw": [whole.replace("Number three", "Nothing")[:-3], whole], "agent": "senior", "delay_ms": 3_000}
    script = [*ASKS, use("lab.publish", "senior", n=3), slow, TESTED]
    run_id = await place.pursue(script, PASSES)
    events = [one async for one in place.sdk.stream(run_id, deltas=True, children=True)]
    child = [one for one in events if one.path == ("senior",)]
    assert {one.path for one in events} == {(), ("senior",)} and len({one.run_id for one in events}) == 2
    words = [one.type for one in child if one.type in {"tool_call", "tool_result", "text", "status"}]
    assert words == [*("status",) * 2, "tool_call", "status", "tool_result", "text", "status"]
    (again,) = [place for place, one in enumerate(child) if one.type == "superseded"]
    pieces = [one for one in events if one.type == "delta" and one.part == "text"]
    first, second = ("".join(one.text for one in half if one in pieces) for half in (child[:again], child[again:]))
    assert first.startswith("Nothing") and child[again].reason == "asked_again", "the first answer was no JSON"
    assert len(second) > 5 and said.startswith(second), "what it wrote, as far as it arrived before the log had it"
    assert [one.text for one in child if one.type == "text"] == [said]
    assert [one.type for one in child].index("delta") < [one.type for one in child].index("text")
    log = [one.seq for one in child if one.seq]
    assert log == sorted(log) and events[-1].path == () and events[-1].type == "status"
    await check_typed_stream(place.client, run_id, events)
    await check_brief_stream(place.sdk.server, run_id, events)

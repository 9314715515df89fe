"""Rules of goal runs that need no service: attempts, judgements, progress, confidence."""

import json
from typing import Any

import pytest
from tests.support.engine.goal_machine import FAILING, PASSING, VALID, asked, goal_run
from tests.support.engine.machine import RUN, respond, route, use, use_all

from towpath_contracts.decisions.assessments import NEUTRAL
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.runs.records import ForkedFrom
from towpath_contracts.tools.workspace import FileChange
from towpath_engine.expressions.criterion import compile_criterion, fault_of
from towpath_engine.reducers.fork import apply_run_forked, inherited_of
from towpath_engine.reducers.goal import update_goal
from towpath_engine.rules.autonomy import FAILURES_ASKED, who_decides
from towpath_engine.state.goal import GoalState
from towpath_engine.state.run import Status
from towpath_readings.goals import project_goal

FORKED = ForkedFrom(run_id=RUN, step=2)


def test_a_goal_is_reached_by_what_happened_and_not_by_a_claim() -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide(respond("All done!"))
    assert machine.state.status == Status.RUNNING and asked(machine) == "decide"
    (refused,) = machine.events(ev.DecisionRefused)
    assert "tests.failed == 0" in refused.feedback and machine.context.feedback == (refused.feedback,)
    machine.decide(use("test"))
    machine.finish(result=FAILING)
    machine.decide(use("test", text="again"))
    machine.finish(result=PASSING)
    assert (machine.finished.status, machine.finished.reason) == ("completed", "criteria_met")
    assert machine.finished.final["criteria"] == [{"number": 0, "criterion": "tests.failed == 0", "met": True}]


def test_a_failed_action_is_tried_again_after_two_and_four_seconds_with_another_action() -> None:
    machine = goal_run("tests.failed == 0")
    for attempt, wait_s in ((1, 2), (2, 4)):
        machine.decide(use("edit", text=str(attempt)))
        machine.fail()
        assert asked(machine) == "replan" and machine.requests == []
        (backed,) = machine.events(ev.BackedOff)[attempt - 1 :]
        assert (backed.until - machine.now).total_seconds() == wait_s
        machine.timer(after=wait_s - 0.1)
        assert machine.requests == [], "not before its time"
        machine.timer(after=0.1)
        (request,) = machine.requests
        assert isinstance(request, DecisionRequest) and request.kind is DecisionKind.REPLAN and request.step == 1
    machine.decide(use("edit", text="3"))
    machine.fail()
    (validated,) = machine.events(ev.StepResultValidated)
    assert (validated.success, validated.attempt, validated.source) == (False, 3, "outcome")
    assert validated.error_signature and machine.state.step == 2 and asked(machine) == "decide"
    ids = [call.execution_id for one in machine.events(ev.InstructionIssued) for call in one.instruction.calls]
    assert len(set(ids)) == 3


def test_a_model_that_only_repeats_itself_has_failed_the_step() -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide(use_all(("edit", {"text": "a"}), ("build", {"text": "b"})))
    machine.fail(0)
    machine.fail(1)
    machine.wake()
    for _ in range(3):
        assert asked(machine) == "replan"
        machine.decide(use_all(("build", {"text": "b"}), ("edit", {"text": "a"})))
    (validated,) = machine.events(ev.StepResultValidated)
    assert not validated.success and validated.reason.startswith("only repeats") and machine.state.step == 2


def test_an_unreadable_further_proposal_is_asked_for_again_in_the_same_step() -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide(use("edit", text="a"))
    machine.fail()
    machine.wake()
    machine.decide({"action": "DANCE"})
    assert (asked(machine), machine.state.step) == ("replan", 1)
    machine.decide(use("edit", text="b"))
    machine.finish()
    (validated,) = machine.events(ev.StepResultValidated)
    assert (validated.success, validated.attempt) == (True, 2)


def test_a_success_lowers_the_failures_and_ends_their_row() -> None:
    machine = goal_run("tests.failed == 0", step_attempts=1)
    for text in "ab":
        machine.decide(use("edit", text=text))
        machine.fail(message=text)
    assert asked(machine) == "confidence"
    machine.decide({"confidence": 0.9})
    assert machine.state.goal is not None and (
        machine.state.goal.failures,
        machine.state.goal.consecutive_failures,
    ) == (2, 2)
    machine.decide(use("edit", text="c"))
    machine.finish()
    assert machine.state.goal is not None and (
        machine.state.goal.failures,
        machine.state.goal.consecutive_failures,
    ) == (1, 0)


def test_every_step_is_validated_and_an_unreadable_validation_is_none() -> None:
    machine = goal_run("tests.failed == 0", texts=("It reads well.",), validate_steps=True)
    machine.decide(use("edit"))
    machine.finish()
    assert asked(machine) == "validate"
    machine.decide({"valid": "perhaps"})
    (first,) = machine.events(ev.StepResultValidated)
    assert (first.source, first.success, first.uncertain) == ("model", False, True)
    assert asked(machine) == "confidence", "a judge that can't be understood is a doubt"
    machine.decide({"confidence": 0.8})
    machine.decide(route("senior"))
    assert machine.events(ev.StepResultValidated)[-1].source == "none"


def test_a_text_criterion_is_met_only_by_a_judgement_of_this_step() -> None:
    machine = goal_run("tests.failed == 0", texts=("It reads well.",), validate_steps=True)
    machine.decide(use("edit"))
    machine.finish()
    machine.decide({**VALID, "criteria": [{"criterion": 1, "met": True, "evidence": "it does"}]})
    machine.decide({"progress": 0.5})
    assert machine.events(ev.StepResultValidated)[-1].criteria == (1,)
    machine.decide(use("test"))
    machine.finish(result=PASSING)
    assert asked(machine) == "validate", "what was judged before may be true no more"
    machine.decide({**VALID, "criteria": [{"criterion": 1, "met": False}]})
    assert machine.events(ev.StepResultValidated)[-1].criteria == (0,) and not machine.state.is_final
    machine.decide(respond({"answer": 1}))
    machine.decide({**VALID, "criteria": [{"criterion": 1, "met": True}]})
    assert (machine.finished.status, machine.finished.final) == ("completed", {"answer": 1})


def test_progress_is_by_tests_then_artifacts_then_the_model() -> None:
    machine = goal_run("tests.failed == 0", validate_steps=True)
    machine.decide(use("edit"))
    machine.finish()
    machine.decide(VALID)
    machine.decide({"progress": 7.5, "reason": "almost"})
    machine.decide(use("build"))
    parts = [{"name": "a.py", "kind": "code", "size": 12}, {"name": "b", "kind": "dependency"}]
    machine.finish(result={"artifacts": parts})
    machine.decide(use("test"))
    machine.finish(result={"passed": 1, "failed": 2, "errors": 1, "coverage": 0.4})
    machine.decide(use("test", text="2"))
    machine.finish(result={"passed": 39, "failed": 1, "coverage": 0.6})
    model, made, first, second = machine.events(ev.ProgressMeasured)
    assert (model.source, model.score) == ("model", 1.0)
    assert (made.source, made.score) == ("artifacts", 0.7)
    assert (made.metrics["files_created"], made.metrics["code_written"], made.metrics["dependencies_added"]) == (
        1,
        12,
        1,
    )
    assert (first.source, first.score) == ("tests", 0.25)
    assert (second.source, second.score) == ("tests", 0.9), "never more while a test fails"
    assert (second.metrics["passing_increase"], second.metrics["coverage_increase"]) == (38, 0.2)
    assert second.metrics["failure_rate_decrease"] == 0.725


def test_c7_a_file_of_the_workspace_is_an_artifact_only_where_a_criterion_names_it_as_one() -> None:
    """Rows C7 and C1: a model can't make progress by writing files that nobody asked for."""
    machine = goal_run("'a.md' in workspace.files && 'a.md' in artifacts", "'c.md' in workspace.files")
    machine.decide(use("edit"))
    names = ("a.md", "b.md", "c.md", "b/a.md")
    written = tuple(FileChange(path=name, digest="sha256:00", size=3) for name in names)
    event = ev.WorkspaceChanged(step=1, execution_id=machine.call_id(), changes=written)
    goal = update_goal(machine.state, machine.state, machine.state.goal or GoalState(), event)
    assert ([one["name"] for one in goal.artifacts], goal.fresh) == (["a.md"], True)
    gone = ev.WorkspaceChanged(step=1, execution_id=machine.call_id(), changes=(FileChange(path="a.md"),))
    assert update_goal(machine.state, machine.state, goal, gone).artifacts == ()
    scribbled = ev.WorkspaceChanged(step=1, execution_id=machine.call_id(), changes=written)
    bare = goal_run()
    assert update_goal(bare.state, bare.state, GoalState(), scribbled) == GoalState(), "no criteria, no artifacts"


def test_c7_scribbling_completes_no_goal_whose_tool_says_how_many_artifacts_there_must_be() -> None:
    """Rows C7 and C1: of three artifacts that a tool wants, files that the model wrote itself are none."""
    machine = goal_run()
    machine.decide(use("build"))
    machine.finish(result={"artifacts": [{"name": "a.py"}], "expected": 3})
    (first,) = machine.events(ev.ProgressMeasured)
    machine.decide(use("scratch"))
    changes = [{"path": name, "digest": "sha256:00", "size": 1} for name in ("b.py", "c.py", "d.py")]
    machine.finish(result="ok", changes=changes)
    assert machine.state.desk is not None and len(machine.state.desk.files) == 3
    assert not machine.state.is_final and {e.score for e in machine.events(ev.ProgressMeasured)} == {first.score}
    assert round(first.score, 2) == 0.33


def test_a_run_of_no_tests_proves_nothing() -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide(use("test"))
    machine.finish(result={"passed": 0, "failed": 0})
    assert not machine.state.is_final
    (measured,) = machine.events(ev.ProgressMeasured)
    assert (measured.source, measured.score) == ("tests", 0.0)


def test_a_goal_without_criteria_is_reached_by_progress_alone() -> None:
    machine = goal_run()
    machine.decide(respond("done"))
    assert asked(machine) == "progress"
    machine.decide({"progress": None})
    assert not machine.state.is_final and machine.events(ev.DecisionRefused)[-1].code == "goal_not_reached"
    machine.decide(use("test"))
    machine.finish(result=PASSING)
    assert machine.finished.reason == "progress_complete"


def test_confidence_is_checked_at_every_fifth_step_and_what_cannot_be_read_is_none() -> None:
    machine = goal_run("tests.failed == 0")
    for step in range(1, 11):
        assert asked(machine) == "decide" and machine.state.step == step
        machine.decide(use("edit", text=str(step)))
        machine.finish(result=step)
        if step == 5:
            assert asked(machine) == "confidence"
            machine.decide({"confidence": 3})
    machine.decide({"no": "number"})
    checks = machine.events(ev.GoalConfidenceMeasured)
    assert [(c.step, c.score, c.trigger) for c in checks] == [(5, 1.0, "interval"), (10, 0.0, "interval")]
    (gate,) = machine.events(ev.GateOpened)
    assert (gate.gate_type, gate.reason) == ("low_confidence", "Low confidence: 0.00")
    payload = {"agent_id", "task_id", "current_step", "goal", "progress_score", "last_steps", "artifacts"}
    assert payload <= gate.detail.keys() and len(gate.detail["last_steps"]) == 5
    assert machine.state.status == Status.WAITING


@pytest.mark.parametrize(
    ("expected", "trigger"),
    [
        ({"uncertain": True}, "uncertain"),
        ({"confidence": 0.2}, "uncertain"),
        ({"request_confidence": True}, "requested"),
        ({"confidence": 0.5}, ""),
    ],
)
def test_stated_doubt_asks_for_a_check(expected: dict[str, Any], trigger: str) -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide({**use("edit"), **expected})
    machine.finish()
    assert asked(machine) == ("confidence" if trigger else "decide")
    if trigger:
        machine.decide({"confidence": 0.43})
        assert machine.events(ev.GoalConfidenceMeasured)[0].trigger == trigger
        assert machine.events(ev.GateOpened)[0].reason == "Low confidence: 0.43"


@pytest.mark.parametrize(
    ("autonomy", "trigger", "score", "threshold", "who"),
    [
        ("low", "uncertain", 0.99, 0.5, "person"),
        ("low", "interval", 0.5, 0.5, "nobody"),
        ("low", "interval", 0.49, 0.5, "person"),
        ("medium", "uncertain", 0.5, 0.5, "nobody"),
        ("medium", "interval", 0.49, 0.5, "person"),
        ("medium", "interval", 0.7, 0.9, "model"),
        ("medium", "interval", 0.69, 0.9, "person"),
        ("high", "uncertain", 0.3, 0.5, "model"),
        ("high", "uncertain", 0.29, 0.5, "person"),
        ("high", "interval", 0.5, 0.5, "nobody"),
    ],
)
def test_autonomy_moves_the_decision_and_never_the_threshold(
    autonomy: Any, trigger: str, score: float, threshold: float, who: str
) -> None:
    assert who_decides(autonomy, trigger, score, threshold) == who
    assert FAILURES_ASKED == {"low": 1, "medium": 2, "high": 3}


def test_a_person_says_how_a_doubtful_run_goes_on() -> None:
    machine = goal_run("tests.failed == 0")
    for denials in range(5):
        machine.decide({**use("edit", text=str(denials)), "uncertain": True})
        machine.finish(result=denials)
        machine.decide({"confidence": 0.1})
        gate = machine.events(ev.GateOpened)[-1]
        assert gate.gate_type == ("low_confidence" if denials < 3 else "manual")
        if denials == 3:
            machine.resolve("denied", gate_id=gate.gate_id, reason="stop it")
            break
        machine.resolve("denied", gate_id=gate.gate_id, reason=f"try {denials}")
        assert machine.context.notes == (f"A person asks for another way: try {denials}",)
    assert (machine.finished.status, machine.finished.reason) == ("escalated", "manual")


def test_a_goal_may_ask_at_its_deadline_and_gets_its_time_once_more() -> None:
    machine = goal_run("tests.failed == 0", on_timeout="gate")
    machine.decide(use("edit"))
    machine.finish(after=400)
    (gate,) = machine.events(ev.GateOpened)
    assert gate.gate_type == "timeout" and machine.state.status == Status.WAITING
    machine.resolve("approved", gate_id=gate.gate_id, after=3_600)
    assert asked(machine) == "decide" and machine.state.active_ms == 0
    machine.decide(use("edit", text="b"), after=100)
    machine.finish(result="more", after=100)
    assert machine.state.step == 3
    machine.decide(use("edit", text="c"), after=200)
    machine.finish(result="most")
    assert machine.events(ev.GateOpened)[-1].gate_id != gate.gate_id
    machine.resolve("stop", gate_id=machine.state.gates[0].gate_id)
    assert (machine.finished.status, machine.finished.reason) == ("escalated", "timeout")
    stopped = goal_run("tests.failed == 0")
    stopped.decide(use("edit"), after=400)
    assert stopped.finished.status == "timed_out"


def test_a_fork_knows_what_its_goal_run_had_found() -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide(use("test"))
    machine.finish(result=FAILING)
    parsed = json.loads(json.dumps(inherited_of(machine.state, new_script=True)))
    fork = apply_run_forked(
        machine.state, ev.RunForked(parent=FORKED, parent_seq=9, by="ann", inherited=parsed), machine.now
    )
    assert fork.goal == machine.state.goal and fork.goal is not None and fork.goal.tests


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tests.failed == 0", ""),
        ("artifacts.exists(name, name == 'a.md')", ""),
        ("tests.failed ==", "CEL, at character 16: it ends too early: a value belongs there"),
        ("1 == 1", "always or never"),
        ("now() > tests.failed", "unknown function now"),
        ("progress >= 1", "unknown name progress"),
        ("results.all(a, results.all(b, a == b))", "once"),
        ("[0].all//\n(tests, [0].all//\n(results, results == tests))", "once"),
    ],
)
def test_a_criterion_is_checked_before_it_is_taken(text: str, fault: str) -> None:
    assert fault_of(text).startswith(fault) if fault == "" else fault in fault_of(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tests.faild == 0", "tests has no member faild; it has: passed, failed,"),
        ("size(artifacts) > 0 && tests['faild'] == 0", "no member faild"),
        ("has(tests . covrage)", "no member covrage"),
        ("workspace.file['a.md'].size > 1", "workspace has no member file; it has: files"),
        ("workspace.files['a.md'].sze > 1", "a file of the workspace has no member sze"),
        ("tests.failed == 0 && workspace.files['a.md'].size > 1 && workspace.files.readme.digest != ''", ""),
        ("claimed == 'tests.faild' || last_output.tests.faild == 1 || size(tests) == 0 // tests.faild", ""),
        ("results.exists(tests, tests.tool == 'deploy')", ""),
        ("tests.all(name, name != 'x')", ""),
    ],
)
def test_c1_a_misspelled_member_is_refused_at_submit(text: str, fault: str) -> None:
    """C1: what could never be met is reported before the run begins; a run that has begun keeps its criteria."""
    assert fault in fault_of(text) if fault else fault_of(text) == ""
    compile_criterion(text)


def test_c7_a_result_that_is_not_of_the_declared_shape_says_so() -> None:
    """C7: the reason names the shape and the fault; the model gets it, and it is not taken for "no test ran"."""
    machine = goal_run("tests.failed == 0")
    machine.decide(use("test"))
    machine.finish(result={"passed": "4", "failures": 0})
    wrong = "passed: Input should be a valid integer; failed is missing"
    fault = f"the result of test is no report of the shape tests: {wrong}"
    (judged,), (measured,) = machine.events(ev.StepResultValidated), machine.events(ev.ProgressMeasured)
    assert judged.reason == measured.reason == fault and not judged.criteria
    assert machine.context.notes == (f"{fault}. It counts as no report.",)
    machine.decide(use("test", text="again"))
    machine.finish(result={"passed": 0, "failed": 0})
    assert machine.events(ev.ProgressMeasured)[-1].reason == "no test ran" and not machine.context.notes
    machine.decide(use("build"))
    machine.finish(result={"files": []})
    assert "no report of the shape artifacts: artifacts is missing" in machine.events(ev.StepResultValidated)[-1].reason


def test_c8_a_confidence_that_nobody_judged_is_no_number() -> None:
    """C8: an answer that judged nothing shows no score, and says at which step it was asked for."""
    machine = goal_run("tests.failed == 0", confidence_every=1)
    machine.decide(use("edit"))
    machine.finish()
    machine.decide(NEUTRAL[DecisionKind.CONFIDENCE])
    state = project_goal(machine.state.run_id, machine.entries)
    assert state is not None and (state.last_confidence_score, state.last_confidence_check_step) == (None, 1)
    machine.decide(use("edit", text="more"))
    machine.finish()
    machine.decide({"confidence": 0.9})
    state = project_goal(machine.state.run_id, machine.entries)
    assert state is not None and state.last_confidence_score == 0.9

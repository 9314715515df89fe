"""Rules of background runs that need no service."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from pydantic import ValidationError
from tests.support.engine.background_machine import BackgroundRun
from tests.support.engine.machine import respond, use, use_all

from towpath_contracts import facts
from towpath_contracts.canonical import digest
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import COMPARISON_IGNORES
from towpath_contracts.networks.background import BackgroundRunSettings, BackgroundRunTask
from towpath_contracts.subjects import agent_pool
from towpath_contracts.tools.internal_outcomes import RecordInternalOutcome
from towpath_engine.advance import wake_at
from towpath_engine.requests.effects import message_of

SCHEMA = {"type": "object", "properties": {"verdict": {"enum": ["approve", "reject"]}}, "required": ["verdict"]}
ABANDON = {"action": "ABANDON", "action_details": {"rationale": "no way"}}


def test_an_objective_is_ascii_and_at_most_1024_characters() -> None:
    """D1: ASCII-normalised, at most 1,024 characters."""
    assert BackgroundRunTask(objective="  Prüfe\n die   Café-Änderung ✓ ").objective == "Prufe die Cafe-Anderung ?"
    assert len(BackgroundRunTask(objective="x" * 1_024).objective) == 1_024
    for wrong in ("x" * 1_025, "  ", ""):
        with pytest.raises(ValidationError):
            BackgroundRunTask(objective=wrong)


def test_settings_have_the_defaults_of_the_design() -> None:
    """D2: 24 iterations, 8 failures in a row, no iteration timeout, reflection on, plan reset allowed."""
    settings = BackgroundRunSettings()
    assert (settings.max_failures, settings.iteration_timeout_ms) == (8, None)
    assert settings.enable_reflection and settings.allow_plan_reset


def test_nothing_is_done_before_there_is_a_plan() -> None:
    """D5: plan required before acting."""
    run = BackgroundRun()
    run.decide(use("lint"))
    (refused,) = run.events(ev.DecisionRefused)
    assert refused.code == "plan_required" and "plan_setup" in refused.feedback
    run.plan("look", "write")
    run.decide(use("lint"))
    run.finish(result="clean")
    assert run.state.background is not None and run.state.background.failures == 0


def test_a_run_ends_with_its_summary_and_says_what_became_of_it() -> None:
    """D3: status, iterations, failures, final summary, deliverable."""
    run = BackgroundRun(schema=SCHEMA)
    run.plan()
    run.decide(respond({"report": "fine"}))
    assert run.state.asked == "summarize" and run.context.assessment is not None
    assert run.context.assessment["deliverable_schema"] == SCHEMA
    run.summarize("Nothing to mend.", deliverable={"verdict": "approve"})
    assert (run.finished.status, run.finished.reason) == ("completed", "responded")
    assert run.finished.final == {
        "status": "completed",
        "final_summary": "Nothing to mend.",
        "deliverable": {"verdict": "approve"},
        "iterations": 2,
        "failures": 0,
        "response": {"report": "fine"},
    }


def test_a_deliverable_may_be_mended_once() -> None:
    """D2: the deliverable is what its schema says, or the run has failed."""
    run = BackgroundRun(schema=SCHEMA)
    run.decide(respond())
    run.summarize(deliverable={"verdict": "maybe"})
    assert run.context.assessment is not None and run.context.assessment["problems_of_the_last_deliverable"]
    run.summarize(deliverable={"verdict": "reject"})
    assert run.finished.status == "completed" and run.finished.final["deliverable"] == {"verdict": "reject"}
    other = BackgroundRun(schema=SCHEMA)
    other.decide(respond())
    other.summarize()
    other.summarize(deliverable={})
    assert (other.finished.status, other.finished.reason) == ("failed", "deliverable_invalid")
    by_code = BackgroundRun(schema=SCHEMA, summarize_model="agent:maker")
    by_code.decide(respond())

    by_code.feed(_from_agent(by_code))
    assert by_code.finished.reason == "deliverable_invalid", "user code makes it once"


def test_a_deliverable_that_could_not_be_read_says_what_is_wrong_with_it() -> None:
    """B5, D2: each problem with its path, in the event, in the next prompt and in the run's last words."""
    run = BackgroundRun(schema=SCHEMA)
    run.decide(respond())
    wrong = "$.deliverable.verdict: 'maybe' is not one of ['approve', 'reject']"
    run.miss("invalid_output", wrong)
    (refused,) = run.events(ev.DeliverableRefused)
    assert wrong in refused.problems and run.context.assessment is not None
    assert wrong in run.context.assessment["problems_of_the_last_deliverable"]
    run.summarize(deliverable=["no", "object"])
    assert run.finished.reason == "deliverable_invalid" and "$.deliverable: ['no'" in run.finished.final["message"]


def _from_agent(run: BackgroundRun) -> facts.DecisionMadeFact:
    return facts.DecisionMadeFact(
        run_id=run.state.run_id,
        request_id=run.request_id,
        attempt=1,
        decision={"summary": "made"},
        pool=agent_pool("default", "maker"),
    )


def test_the_snapshot_is_what_every_prompt_shows() -> None:
    """D4: plan, last five tool calls, pending reflections, objective, workspace."""
    run = BackgroundRun(mounts={"src/a.py": "x = 1\n"})
    run.plan("look", "write")
    for name in "abcdef":
        run.act("workspace_write", path=f"{name}.txt", content=name)
    run.act("workspace_read", path="nowhere.py")
    run.reflect("continue", note="read src/a.py instead")
    shown = run.context.run
    assert shown is not None and shown["objective"] == "Review the change."
    assert [step["step_id"] for step in shown["plan"]["steps"]] == ["S001", "S002"]
    assert len(shown["last_calls"]) == 5 and shown["last_calls"][-1]["status"] == "failed"
    assert shown["reflections"] == ["read src/a.py instead"]
    assert "src/a.py (6 bytes, read-only)" in shown["workspace"] and "a.txt (1 bytes, version 1)" in shown["workspace"]
    run.act("workspace_read", path="src/a.py")
    assert run.context.run is not None and run.context.run["reflections"] == []


def test_a_failure_is_reflected_upon_and_repeated_only_if_the_reflection_says_so() -> None:
    """D7: reflection after failures may ask for a retry inside the same budget."""
    run = BackgroundRun()
    run.plan()
    run.act("workspace_read", path="a.py")
    assert run.state.asked == "reflect" and run.context.assessment is not None
    assert "a.py" in run.context.assessment["error"]
    run.reflect("continue", note="elsewhere")
    run.decide(use("workspace_read", path="a.py"))
    assert run.events(ev.DecisionRefused)[-1].code == "retry_unchanged"
    run.act("workspace_read", path="b.py")
    run.reflect("retry", note="once more")
    run.act("workspace_read", path="b.py")
    assert run.state.step == 5, "retries are iterations like any other"


def test_a_plan_is_given_up_only_where_that_is_allowed_and_justified() -> None:
    """D7: plan reset only if allowed and justified."""
    for settings, verdicts, code in (
        ({}, (), "plan_reset_refused"),
        ({}, (("reset_plan", ""),), "plan_reset_refused"),
        ({"allow_plan_reset": False}, (("reset_plan", "it leads nowhere"),), "plan_reset_refused"),
        ({}, (("reset_plan", "it leads nowhere"),), None),
        ({"enable_reflection": False}, (), None),
        ({"enable_reflection": False, "allow_plan_reset": False}, (), "plan_reset_refused"),
    ):
        run = BackgroundRun(**settings)
        run.plan()
        for verdict, rationale in verdicts:
            run.act("workspace_read", path="a.py")
            run.reflect(verdict, rationale=rationale)
        result = run.act("plan_clear")
        assert getattr(result, "code", None) == code, (settings, verdicts)


def test_a_late_iteration_is_reflected_upon_and_a_very_late_one_fails() -> None:
    """D8: soft timeout recoverable by reflection, hard timeout (twice) fails."""
    run = BackgroundRun(iteration_timeout_ms=10_000)
    run.plan()
    run.decide(use("lint"))
    run.finish(result="clean", after=12.0)
    assert run.state.asked == "reflect" and any("10000 ms" in note for note in run.state.notes)
    run.reflect("continue")
    assert run.events(ev.IterationCompleted)[-1].reason == "timed_out" and run.state.status == "running"
    began = run.now
    run.decide(use("lint", text="again"))
    assert wake_at(run.state) is not None
    while not run.state.is_final:
        run.wake()
    assert (run.finished.status, run.finished.reason) == ("failed", "iteration_timeout")
    assert run.now == began + timedelta(seconds=20)


def test_eight_failures_in_a_row_end_the_run_with_a_report_that_names_the_last_error() -> None:
    """D9: a failed run has a report naming the last error; D2: 8 consecutive."""
    run = BackgroundRun()
    run.plan()

    def fail(number: int) -> None:
        run.decide(use("lint", text=str(number)))
        run.fail(code=f"error_{chr(97 + number)}", message=f"no {number}")
        run.reflect("continue")

    for number in range(7):
        fail(number)
    run.decide(use("lint"))
    run.finish(result="ok")
    for number in range(7):
        fail(number + 8)
    run.decide(use("nothing"))  # a refusal is a failure too
    assert (run.finished.status, run.finished.reason) == ("failed", "max_failures_exceeded")
    report = run.finished.final
    assert report["failures"] == 15 and "tool_not_allowed" in report["final_summary"]
    assert run.events(ev.FinalSummaryRecorded)[-1].source == "platform"


def test_every_end_is_in_the_fixed_order() -> None:
    """D9: explicit completion, plan completed and confirmed, then failures, then iterations."""
    confirmed = BackgroundRun()
    confirmed.plan("only")
    confirmed.act("plan_mark_step", step_id="S001", status="done")
    assert confirmed.state.asked == "reflect"
    confirmed.reflect("continue", note="not yet")
    confirmed.act("plan_mark_step", step_id="S001", status="in_progress")
    confirmed.act("plan_mark_step", step_id="S001", status="done", note="found nothing")
    confirmed.reflect("complete")
    confirmed.summarize()
    assert (confirmed.finished.status, confirmed.finished.reason) == ("completed", "plan_completed")
    unreflected = BackgroundRun(enable_reflection=False, max_steps=2)
    unreflected.plan("only")
    unreflected.act("plan_mark_step", step_id="S001", status="done")
    unreflected.summarize()
    assert unreflected.finished.reason == "plan_completed", "also where no iteration is left"
    exhausted = BackgroundRun(max_steps=1)
    exhausted.plan("only")
    assert (exhausted.finished.status, exhausted.finished.reason) == ("failed", "max_steps_exceeded")
    assert "max_steps_exceeded" in exhausted.finished.final["final_summary"]


def test_a_run_is_abandoned_with_a_rationale() -> None:
    """D9: abandonment with a rationale."""
    run = BackgroundRun(schema=SCHEMA)
    run.decide({"action": "ABANDON", "action_details": {}})
    assert run.events(ev.DecisionRefused)
    run.decide(ABANDON)
    run.summarize("It can't be done.")
    assert (run.finished.status, run.finished.reason) == ("abandoned", "abandoned")
    assert run.finished.final["rationale"] == "no way" and run.finished.final["deliverable"] is None
    reflected = BackgroundRun()
    reflected.plan()
    reflected.act("workspace_read", path="a.py")
    reflected.reflect("abandon")
    assert not reflected.state.is_final and not reflected.events(ev.Reflected)[-1].followed
    reflected.act("workspace_read", path="b.py")
    reflected.reflect("abandon", rationale="nothing is there")
    reflected.summarize(rationale="no files")
    assert reflected.finished.final["rationale"] == "no files"


def _played(run: BackgroundRun) -> list[str]:
    run.plan("look")
    run.act("workspace_write", path="a.md", content="one")
    run.decide(use_all(("plan_add_step", {"title": "two"}), ("plan_add_step", {"title": "three"})))
    run.permit(1), run.permit(0), run.permit(1, after=1.0)
    run.act("workspace_read", path="no.md")
    run.reflect("continue")
    run.decide(respond("done"))
    run.summarize()
    return [e.event.model_dump_json() for e in run.entries if e.event.type not in COMPARISON_IGNORES]


def test_the_same_replies_give_the_same_events() -> None:
    """D10: same objective, config and replies → same events; calls are applied in call order, whoever answers first."""
    run = BackgroundRun()
    assert _played(run) == _played(BackgroundRun())
    assert run.state.desk is not None and run.state.desk.plan is not None
    assert [(s.step_id, s.title) for s in run.state.desk.plan.steps] == [
        ("S001", "look"),
        ("S002", "two"),
        ("S003", "three"),
    ]


def test_events_tell_of_every_iteration() -> None:
    """D11: IterationStarted, IterationCompleted, Terminated with index, decision type, tool ids, reason."""
    run = BackgroundRun()
    _played(run)
    started, completed = run.events(ev.IterationStarted), run.events(ev.IterationCompleted)
    assert [e.index for e in started] == [e.index for e in completed] == [1, 2, 3, 4, 5]
    assert completed[2].tools == ("plan_add_step", "plan_add_step") and completed[2].decision == "USE_TOOL"
    assert [e.reason for e in completed] == ["completed", "completed", "completed", "failed", "ended"]
    (end,) = run.events(ev.BackgroundRunEnded)
    assert (end.index, end.status, end.reason, end.failures) == (5, "completed", "responded", 1)
    assert [e.event.type for e in run.entries][-3:] == ["summarized", "terminated", "run_finished"]


def test_what_the_run_applied_is_reported_to_the_ledger_until_it_confirms() -> None:
    run = BackgroundRun()
    run.decide(use("plan_setup", objective="Review."))
    run.permit()
    (found,) = [e.message for e in run.sent if e.effect.kind == "outcome"]
    assert (found.status, found.tool) == ("succeeded", "plan_setup")
    again = facts.InternalToolPermittedFact(run_id=run.state.run_id, execution_id=found.execution_id)
    assert run.feed(again) == [], "a repeated permission applies nothing"
    run.timer(after=6.0)
    assert [e.effect.attempt for e in run.sent if e.effect.kind == "outcome"] == [2]
    run.cancel()
    run.fenced()
    assert run.state.is_final and any(p.kind == "outcome" for p in run.state.pending)
    run.wake()
    recorded = facts.InternalOutcomeRecordedFact(run_id=run.state.run_id, execution_id=found.execution_id)
    run.feed(recorded)
    assert not run.state.pending and run.feed(recorded) == []


def test_a_call_behind_one_that_waits_for_a_person_waits_too_without_a_message() -> None:
    run = BackgroundRun()
    run.decide(
        use_all(("plan_setup", {"objective": "Review."}), ("plan_add_step", {"title": "one"}), ("plan_read", {}))
    )
    assert [e.message_id for e in run.sent] == [f"{run.call_id(0)}:1"], "one after the other"
    assert run.permit(1) == [], "what nobody asked for is not applied before its turn"
    run.want_approval(UUID(int=7), 0, hours=9)
    spent = run.state.active_ms
    assert (run.state.status, run.state.active_since) == ("waiting", None)
    for _ in range(4):
        begun = run.now
        run.wake()
        assert {e.effect.effect_id for e in run.sent} == {run.call_id(0)}, "only the call at the gate is asked about"
    assert run.now - begun == timedelta(seconds=120) and run.state.active_ms == spent, "as rarely as any gate"
    run.resolve("approved", after=7_200.0)
    run.permit(0)
    listed = [e for e in run.sent if e.effect.kind == "tool"]
    assert [e.effect.effect_id for e in listed] == [run.call_id(1)]
    assert listed[0].effect.deadline is not None and listed[0].effect.deadline > run.now, (
        "its time begins with its turn"
    )
    assert not run.permit(2), "and the third waits for the second"
    run.permit(1)
    assert [r.execution_id for r in run.requests] == [run.call_id(2)]
    run.permit(2)
    assert run.events(ev.ToolCallFinished)[-1].result["steps"][0]["title"] == "one"


def test_a_denied_call_lets_the_next_one_have_its_turn() -> None:
    run = BackgroundRun(kind="network")
    run.decide(use_all(("plan_setup", {"objective": "Review."}), ("look", {}), ("workspace_list", {})))
    assert [e.effect.effect_id for e in run.sent] == [run.call_id(0), run.call_id(1)], "others wait for nobody"
    run.finish(1)
    assert run.sent == []
    run.deny(0)
    assert [r.execution_id for r in run.requests] == [run.call_id(2)]
    run.wake()
    assert [(e.effect.effect_id, e.effect.attempt) for e in run.sent] == [(run.call_id(2), 2)], "until it is answered"


def test_a_cancelled_run_asks_about_the_calls_that_had_no_turn() -> None:
    run = BackgroundRun()
    run.decide(use_all(("plan_setup", {"objective": "Review."}), ("plan_add_step", {"title": "one"})))
    run.want_approval(UUID(int=7), 0, hours=9)
    run.timer(after=1_800.0)
    run.cancel()
    run.timer()
    assert run.call_id(1) in [r.execution_id for r in run.requests], "who cancels asks about every call that is open"
    run.fenced(voided=[run.call_id(0)])
    assert [r.execution_id for r in run.requests] == [run.call_id(1)] and not run.state.is_final
    run.deny(1)
    assert run.finished.status == "cancelled"


def test_an_outcome_always_fits_the_message_that_tells_it() -> None:
    run = BackgroundRun()
    run.decide(use("plan_setup", objective="Review."))
    run.permit()
    (owed,) = [p for p in run.state.pending if p.kind == "outcome"]
    failure = {"code": "path_invalid", "message": "x" * 1_000_000}
    whole = {"deleted": ["x" * 1_000] * 1_200}
    stored = replace(owed, outcome={**(owed.outcome or {}), "result": whole, "failure": failure})
    found = message_of(run.state, stored).message
    assert isinstance(found, RecordInternalOutcome) and len(found.model_dump_json()) < 10_000
    assert (found.result["shortened"], found.result["digest"]) == (True, digest(whole))
    assert found.failure is not None and found.failure.code == "path_invalid"


def test_a_refusal_repeats_no_more_of_the_arguments_than_helps() -> None:
    run = BackgroundRun()
    run.plan()
    failed = run.act("plan_mark_step", step_id="S" * 200_000, status="done")
    assert failed.code == "plan_step_unknown" and len(failed.message) == 2_000


def test_a_permitted_call_that_was_not_applied_is_void_once_the_run_is_cancelled() -> None:
    run = BackgroundRun()
    run.decide(use("plan_setup", objective="Review."))
    run.cancel()
    assert run.permit() == []
    run.fenced(voided=[run.call_id()])
    assert run.finished.status == "cancelled" and run.state.desk is None

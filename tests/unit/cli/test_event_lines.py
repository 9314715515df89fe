"""A run's events become lines that say who did what; shortened ids mean one thing or are refused."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.cli.runs.event_lines import NOTE_LEAST, EventFormatter, EventLine, answer_text, summary
from towpath.cli.runs.run_follower import how_to_settle, unknown_call_lines
from towpath.cli.runs.told_causes import ToldCauses
from towpath.cli.shared.short_ids import unique_match
from towpath.networks.script_file import ScriptFile
from towpath_contracts.decisions.decision import CallToolsInstruction, FinishInstruction, ToolCall, TransferInstruction
from towpath_contracts.decisions.request import Cost, PlayedScriptEntry, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import Denial, ToolFailure
from towpath_contracts.tools.violations import DenialExplanation

CALL = UUID("11111111-1111-5111-8111-111111111111")
STEP = {"step": 1, "epoch": 1, "agent_key": "billing"}
REFUND = CallToolsInstruction(
    calls=(ToolCall(execution_id=CALL, call_index=0, tool="orders.refund", args={"amount": 129.0}),)
)


def shown(*events: ev.AnyEvent) -> list[str]:
    formatter = EventFormatter()
    return [" ".join(str(line).split()) for event in events for line in formatter.lines(event)]


def decided(agent: str, model: str = "scripted:task", tokens: int = 0) -> list[ev.AnyEvent]:
    asked = ev.DecisionRequested(request_id=CALL, step=1, epoch=1, agent_key=agent, model=model)
    usage = Usage(total_tokens=tokens)
    made = {"step": 1, "epoch": 1, "agent_key": agent, "decision": {}, "model": model, "usage": usage}
    return [asked, ev.DecisionReceived(request_id=CALL, duration_ms=800, **made)]


def issued(instruction: CallToolsInstruction | TransferInstruction | FinishInstruction) -> ev.InstructionIssued:
    return ev.InstructionIssued(**STEP, instruction=instruction)


def finished(status: str, **more: object) -> ev.ToolCallFinished:
    return ev.ToolCallFinished.model_validate(
        {**STEP, "execution_id": CALL, "call_index": 0, "tool": "orders.refund", "status": status, **more}
    )


def test_a_handover_names_both_agents_and_says_that_no_model_was_asked() -> None:
    lines = shown(*decided("triage"), issued(TransferInstruction(target="billing")))
    assert lines == ["✓ triage hands over to billing 0.8 s · scripted"]


def test_a_budget_is_at_its_end_once_and_before_that_less_is_asked_for() -> None:
    refusal = {"scope": "run", "key": "r", "unit": "tokens", "limit": 100, "spent": 90, "reserved": 0, "wanted": 20}
    lines = shown(
        *(
            ev.BudgetRefused.model_validate({"step": 1, "refusal": refusal, "means": means})
            for means in ("lean", "nothing")
        )
    )
    assert "towpath asks for less, for its budget" in lines[0]
    assert ["has no budget left" in line for line in lines] == [False, True]


def test_a_call_is_shown_with_its_arguments_and_its_result() -> None:
    lines = shown(
        *decided("billing", "gemini:x", 310),
        issued(REFUND),
        finished("succeeded", result={"refund_id": "rf_1"}, duration_ms=300),
    )
    assert lines == [
        "✓ billing decides to call orders.refund 0.8 s · 310 tokens",
        "✓ billing orders.refund amount=129.0 0.3 s · refund_id=rf_1",
    ]


def test_a_call_that_a_person_changed_is_shown_as_it_was_executed() -> None:
    edited = ev.ToolCallEdited.model_validate(
        {**STEP, "execution_id": CALL, "call_index": 0, "tool": "orders.refund", "args": {"amount": 7.0}, "by": "bob"}
    )
    lines = shown(*decided("billing", "gemini:x", 310), issued(REFUND), edited, finished("succeeded"))
    assert lines[1:] == [
        "· bob changed the call: orders.refund amount=7.0",
        "✓ billing orders.refund amount=7.0 0.0 s · null",
    ]


@pytest.mark.parametrize(
    ("models", "plays"), [((), False), (("scripted:shop",), True), (("scripted:shop", "gemini:x"), False)]
)
def test_whether_a_model_was_asked_is_known_from_the_decisions(models: tuple[str, ...], plays: bool) -> None:
    formatter = EventFormatter()
    for event in (one for model in models for one in decided("billing", model)):
        formatter.lines(event)
    assert formatter.plays_script is plays


def test_a_call_that_was_changed_while_it_waited_waits_with_its_new_arguments() -> None:
    detail = {"tool": "orders.refund", "args": {"amount": 7.0}, "changes": ["amount: 129.0 → 7.0"]}
    until = datetime(2026, 1, 1, tzinfo=UTC)
    opened = ev.GateOpened(
        gate_id=CALL, gate_type="approval", execution_id=CALL, reason="r", detail=detail, expires_at=until
    )
    denied = ev.ToolCallDenied(
        **STEP,
        execution_id=CALL,
        call_index=0,
        tool="orders.refund",
        denial=Denial(violation_type="denied_by_person", reason="no"),
    )
    assert shown(*decided("billing"), issued(REFUND), opened, denied)[-2:] == [
        "◐ billing orders.refund amount=7.0 waits for a person · r",
        "✕ billing orders.refund amount=7.0 denied denied_by_person",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            finished("failed", failure=ToolFailure(code="tool_timeout", message="30 s are over")),
            "✕ billing orders.refund amount=129.0 0.0 s · tool_timeout: 30 s are over",
        ),
        (finished("unknown"), "? billing orders.refund amount=129.0 nobody knows whether it happened"),
        (finished("void"), "· billing orders.refund amount=129.0 not started"),
        (
            ev.ToolCallDenied(
                **STEP,
                execution_id=CALL,
                call_index=0,
                tool="orders.refund",
                denial=Denial(violation_type="permission_denied", reason="no rule"),
            ),
            "✕ billing orders.refund amount=129.0 denied permission_denied",
        ),
        (
            ev.GateOpened(
                gate_id=CALL,
                gate_type="approval",
                execution_id=CALL,
                reason="rule refunds-over-100",
                expires_at=datetime(2026, 1, 1, tzinfo=UTC),
            ),
            "◐ billing orders.refund amount=129.0 waits for a person · rule refunds-over-100",
        ),
    ],
)
def test_every_end_of_a_call_has_a_mark_that_needs_no_colour(event: ev.AnyEvent, line: str) -> None:
    assert shown(*decided("billing"), issued(REFUND), event)[-1] == line


def test_a_denial_is_told_with_the_rule_and_what_would_allow_the_call() -> None:
    told = DenialExplanation(detail="No rule allows it.", remedy="Add one.")
    denial = Denial(violation_type="permission_denied", reason="no rule", explanation=told)
    event = ev.ToolCallDenied(**STEP, execution_id=CALL, call_index=0, tool="orders.refund", denial=denial)
    assert shown(*decided("billing"), issued(REFUND), event)[-3:] == [
        "✕ billing orders.refund amount=129.0 denied permission_denied",
        "No rule allows it.",
        "Add one.",
    ]


def test_who_decides_reads_the_summary_and_the_rules_note_before_the_arguments_and_what_is_in_doubt() -> None:
    origins = [{"path": "sku", "from": "unknown", "sink": True}]
    args = {"amount": 129.0, "sku": "a\x1b[31m b"}
    detail = {"tool": "orders.refund", "args": args, "summary": "Refund {amount} for {sku}", "origins": origins}
    opened = ev.GateOpened(
        gate_id=CALL,
        gate_type="approval",
        execution_id=CALL,
        approval_id=CALL,
        reason="Somebody looks " * 17,
        detail=detail,
        expires_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert shown(*decided("billing"), issued(REFUND), opened)[-4:] == [
        f"◐ billing orders.refund waits for a person · {'Somebody looks ' * 16}".strip() + "…",
        "Refund 129.0 for a⟨U+001B⟩[31m b",
        'sku="a\\u001b[31m b" amount=129.0',
        "sku: not found in the task or in a trusted result, so check it",
    ]
    lines = EventFormatter().lines(opened)
    assert {line.style for line in lines} == {"yellow"}
    assert str(lines[1]).index("Refund") == str(lines[0]).index("orders"), "what belongs together stands below it"
    assert f'gate {CALL} ("Refund 129.0 for a⟨U+001B⟩[31m b": Somebody looks' in how_to_settle(opened)
    assert f"gate {CALL} (approval)\n" in how_to_settle(opened.model_copy(update={"detail": {}, "reason": ""}))


def test_a_persons_word_is_shown_with_its_reason() -> None:
    closed = ev.GateClosed(gate_id=CALL, verdict="denied", reason="too high", by="mia")
    assert shown(closed) == ["✕ mia denied: too high"]


@pytest.mark.parametrize(
    ("verdict", "mark"),
    [("happened", "✓"), ("retry", "✓"), ("settled", "✓"), ("did_not_happen", "·"), ("void", "·"), ("expired", "✕")],
)
def test_the_end_of_a_doubt_is_shown_as_what_it_is(verdict: str, mark: str) -> None:
    assert shown(ev.GateClosed(gate_id=CALL, verdict=verdict, by="mia")) == [f"{mark} mia {verdict}"]


def test_a_call_that_a_probe_or_a_person_answered_for_says_so() -> None:
    events = [*decided("billing"), issued(REFUND)]
    assert shown(*events, finished("succeeded", result="r", probe="happened"))[-1].endswith("found by its probe · r")
    assert "mia says it happened" in shown(*events, finished("succeeded", result="r", settled_by="mia"))[-1]


def test_what_is_known_of_a_doubt_is_shown_beside_the_retry() -> None:
    detail = {"worker": "w\n1", "claimed_at": "then", "probe": "unclear", "retry_warning": "it may still act"}
    assert unknown_call_lines(detail) == [
        "worker: w 1",
        "claimed: then",
        "its probe found: unclear",
        "retry: it may still act",
    ]
    assert unknown_call_lines({"worker": "", "tool": "t"}) == []


def test_what_a_model_wrote_cannot_break_a_line() -> None:
    refused = ev.DecisionRefused(**STEP, code="route_unknown", feedback="a\nb\x1b[31m")
    assert shown(refused) == ["· billing asked again: route_unknown a b"]


def test_why_a_decision_failed_is_told_whole_and_once() -> None:
    why = "no action is called 'USETOOL'; " + "there are many others; " * 20 + "the last"
    failed = ev.DecisionRequestFailed(**STEP, request_id=CALL, code="invalid_output", message=why)
    again = ev.DecisionRefused(**STEP, code="invalid_output", feedback=f"Your last answer was not valid: {why}")
    other = ev.DecisionRefused(**STEP, code="route_unknown", feedback="there is no such route")
    assert shown(failed, again, other) == [
        f"✕ billing no decision: invalid_output {why}",
        "· billing asked again: invalid_output",
        "· billing asked again: route_unknown there is no such route",
    ]
    failed = failed.model_copy(update={"message": "no such route"})
    assert shown(failed, again, other.model_copy(update={"feedback": "there is no such route"}))[2].endswith("route")
    call = finished("failed", failure=ToolFailure(code="refund_too_large", message=why))
    assert shown(call)[0].endswith("the last")
    raised = ToolFailure(code="tool_exception", message=f"ValueError: {'x' * 2_000}", place="orders.py:14")
    assert shown(finished("failed", failure=raised))[0].endswith("x… (orders.py:14)")


def test_an_entry_of_a_script_that_was_refused_is_named_and_why_is_not_told_again() -> None:
    why, cure = "triage may not respond", "entry, or add what comes after it: nothing is left"
    answer = {**STEP, "request_id": CALL}
    played = ev.DecisionReceived(
        **answer, decision={}, model="scripted:task", script=PlayedScriptEntry(queue="*", index=1)
    )
    again = ev.DecisionRefused(**STEP, code="respond_not_allowed", feedback=why)
    ended = ev.DecisionRequestFailed(
        **answer,
        code="script_exhausted",
        message=f"{why}. Mend that {cure}",
    )
    assert shown(played, again, ended) == [
        f"· billing asked again: respond_not_allowed entry 2 of the script: {why}",
        f"✕ billing no decision: script_exhausted entry 2 of the script: mend that {cure}",
    ]
    file = ToldCauses(ScriptFile("s.json", [1, 2], "[1,\n2]"))
    told = [line.note for event in (played, again) for line in EventFormatter(causes=file).lines(event)]
    assert told == [f"s.json:2: {why}"]
    odd = ["s.json:1: no decision has agent_key", "s.json:2: no action is called X"]
    assert file.untold(odd) == odd
    failed = ended.model_copy(
        update={"message": "no action is called X", "script": played.script, "model": "scripted:task"}
    )
    EventFormatter(causes=file).lines(failed)
    assert file.untold(odd) == odd[:1]
    named = played.model_copy(update={"model": "scripted:desk"})
    assert shown(named, again)[0].endswith(f"entry 2 of scripted:desk: {why}")


def test_a_line_that_is_too_long_is_folded_between_words_and_goes_on_further_in_than_any_line_begins() -> None:
    line = EventLine("✓", "billing", "orders.find order_id=8812", "0.0 s · order_id=8812 item=grinder paid=129.0")
    assert line.folded(200) == [str(line)]
    assert line.folded(60) == [
        "✓ billing  orders.find order_id=8812",
        "             0.0 s · order_id=8812 item=grinder paid=129.0",
    ]
    assert line.folded(50)[1:] == ["             0.0 s · order_id=8812 item=grinder", " " * 13 + "paid=129.0"]
    assert (
        max(map(len, EventLine("·", "n" * 60, "word " * 30).folded(50)[1:]))
        == 65 + len("word word word word")
        <= 65 + NOTE_LEAST
    )


def test_the_end_says_how_it_ended_and_what_it_cost() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    end = ev.RunFinished(
        status="completed",
        reason="responded",
        final={"message": "done"},
        steps=4,
        fence=1,
        usage=Usage(model_calls=4, total_tokens=1240),
        cost=Cost(usd=0.0021, price_known=True),
    )
    took = (at + timedelta(seconds=5.3) - at).total_seconds()
    assert (
        " ".join(str(summary(end, took)).split())
        == "✓ completed in 5.3 s 4 steps · 4 model calls · 1240 tokens · $0.0021"
    )
    more = {"usage": Usage(model_calls=1, total_tokens=60), "cost": Cost(usd=0.0009, price_known=True)}
    child = ev.ChildEnded(child_id=UUID(int=1), step=1, index=0, status="completed", **more)
    grown = child.model_copy(update={"usage_below": more["usage"], "below": more["cost"]})
    assert "7 model calls · 1420 tokens · $0.0048" in str(summary(end, took, [child, grown]))
    played = str(summary(end, took, plays_script=True))
    assert "4 scripted decisions · 1240 tokens" in played and "model call" not in played
    assert "7 model calls" in str(summary(end, took, [child, grown], plays_script=True)), "a child may ask a model"
    unpriced = grown.model_copy(update={"below": Cost()})
    assert str(summary(end, took, [unpriced])).endswith("1360 tokens"), "no sum is shown where a part is unknown"
    failed = end.model_copy(update={"status": "failed", "reason": "max_steps"})
    assert str(summary(failed)).startswith("✕ failed   (max_steps)")


def test_an_answer_is_its_message_or_all_of_it() -> None:
    assert answer_text({"message": "Refunded."}) == "Refunded."
    assert answer_text({"total": 3}) == "total=3"


IDS = [UUID(f"0192f3aa-0000-7000-8000-{number:012x}") for number in (0x1A1, 0x2B2, 0x3C3)]


def test_a_shortened_id_means_the_one_it_fits() -> None:
    assert unique_match("2b2", IDS, "run_not_found", "runs") == IDS[1]
    assert unique_match(str(IDS[2])[:20] + "…", IDS[2:], "run_not_found", "runs") == IDS[2]


@pytest.mark.parametrize(
    ("given_id", "code"), [("0192f3", "id_ambiguous"), ("ffff", "run_not_found"), ("", "run_not_found")]
)
def test_a_shortened_id_that_fits_several_or_none_is_refused(given_id: str, code: str) -> None:
    with pytest.raises(ProblemError) as refused:
        unique_match(given_id, IDS, "run_not_found", "runs")
    assert refused.value.problem.code == code


@pytest.mark.parametrize(
    ("kind", "newest", "said"),
    [
        ("gates", None, "none of the gates has an id that begins or ends with 'ffff'"),
        ("newest gates", None, "none of the newest gates has an id that begins or ends with 'ffff'"),
        (
            "runs",
            1_000,
            (
                "none of the newest 1000 runs has an id that begins or ends with 'ffff'; "
                "the whole id, 36 characters, finds older ones too"
            ),
        ),
    ],
)
def test_a_shortened_id_that_fits_none_is_told_among_which_it_was_looked_for(
    kind: str, newest: int | None, said: str
) -> None:
    with pytest.raises(ProblemError) as refused:
        unique_match("ffff", IDS, "run_not_found", kind, newest=newest)
    assert refused.value.problem.detail == said


@given(st.sets(st.uuids(), min_size=1, max_size=20), st.data())
def test_a_shortened_id_never_means_another_one(ids: set[UUID], data: st.DataObject) -> None:
    wanted = data.draw(st.sampled_from(sorted(ids, key=str)))
    length = data.draw(st.integers(1, 36))
    try:
        found = unique_match(str(wanted)[:length], sorted(ids, key=str), "run_not_found", "runs")
    except ProblemError as refused:
        assert refused.problem.code == "id_ambiguous"
    else:
        assert found == wanted


def test_reflections_summaries_and_validations_have_a_line() -> None:
    kept = ev.Reflected(step=2, verdict="retry", note="try the other file")
    refused = ev.Reflected(
        step=3, verdict="reset_plan", followed=False, refusal="the plan of this run may not be reset"
    )
    judged = ev.StepResultValidated(step=4, attempt=1, source="model", success=False, reason="nothing changed")
    assert shown(kept, refused, ev.FinalSummaryRecorded(summary="Two files mended."), judged) == [
        "· model reflects: retry try the other file",
        "✕ model reflects: reset_plan, not followed the plan of this run may not be reset",
        "✓ model sums up Two files mended.",
        "✕ model step 4 failed nothing changed",
    ]

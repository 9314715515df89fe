"""AG-UI's requests as tasks and words at gates, and the log of a run as its events, by AG-UI's own models."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter, ValidationError

from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.gate_votes import GateWord
from towpath_gateway.app.protocols.ag_ui.agent_input import CANCELLED, MAX_ID_CHARS, RunAgentInput, gate_answers
from towpath_gateway.app.protocols.openai.caller_tools import answer_schema, calls_in, names_offered
from towpath_gateway.core.ag_ui_events import AgUiEvents
from towpath_readings.stream.live import RunStreamDelta, RunStreamSuperseded

RUN = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bccc")
GATE = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bcc1")
CALL = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bcc2")
REQUEST = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bcc3")
NOW = datetime(2026, 11, 26, tzinfo=UTC)
EVENTS: TypeAdapter[Any] = TypeAdapter(list[Event])
TOOL = {"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}
HELLO = {"id": "1", "role": "user", "content": "hello"}
GATE_OPENED = {
    "type": "gate_opened",
    "gate_id": GATE,
    "gate_type": "approval",
    "execution_id": CALL,
    "reason": "large",
    "detail": {"tool": "orders.refund", "args": {"amount": 200}, "digest": "sha256:aa"},
    "expires_at": NOW,
}


def asked(**more: Any) -> RunAgentInput:
    return RunAgentInput.model_validate({"threadId": "t", "runId": "r", "messages": [HELLO], **more})


def task(**more: Any) -> SubmitTask:
    return asked(**more).task("support")


def resumed(given: dict[str, Any], digest: str = ":sha256:aa") -> Any:
    entry = {"interruptId": f"{RUN}:7:{GATE}{digest}", "status": "resolved", **given}
    (answer,) = gate_answers(asked(resume=[entry]).resume or ())
    return answer


def entry(seq: int, event: dict[str, Any]) -> LogEntry:
    return LogEntry.model_validate({"seq": seq, "at": NOW, "event": event})


def finished(final: Any, status: str = "completed") -> dict[str, Any]:
    return {"type": "run_finished", "status": status, "reason": status, "final": final, "steps": 1, "fence": 0}


def checked(events: list[dict[str, Any]]) -> list[str]:
    """Return the types of events that AG-UI's own models take."""
    assert len(EVENTS.validate_python(events)) == len(events)
    return [event["type"] for event in events]


def piece(text: str) -> RunStreamDelta:
    return RunStreamDelta(step=1, part="text", text=text, request_id=REQUEST, attempt=1)


def test_a_conversation_is_a_task_and_what_the_application_tells_is_quoted() -> None:
    before = [
        {"id": "0", "role": "system", "content": "Be brief."},
        {"id": "2", "role": "user", "content": "paint it"},
        {
            "id": "3",
            "role": "assistant",
            "toolCalls": [
                {"id": "c1", "type": "function", "function": {"name": "pick", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "orders.find", "arguments": "{}"}},
            ],
        },
        {"id": "4", "role": "tool", "toolCallId": "c2", "content": "of the platform"},
        {"id": "5", "role": "reasoning", "content": "hm"},
        {"id": "6", "role": "tool", "toolCallId": "c1", "content": "blue"},
    ]
    made = task(messages=before, tools=[TOOL], context=[{"description": "Page", "value": "x"}], state={"n": 1})
    assert made.quoted_inputs == {"result_1": "blue", "context_1": "Page:\nx", "state": '{"n":1}'}
    assert [turn.role for turn in made.messages] == ["user", "user", "assistant"]
    assert "of the platform" not in made.model_dump_json() and "result_1" in made.user_message
    assert made.response_schema is not None and made.labels == {"ag_ui_thread": "t"}
    again = task(messages=before, tools=[TOOL])
    assert again.idempotency_key == made.idempotency_key != task(runId="s").idempotency_key
    assert not task(state={"towpath": {"run_id": "x"}}).quoted_inputs, "the platform's own state is none of the caller"


def test_files_are_attached_with_their_bytes_alone() -> None:
    data = {"type": "data", "value": "aGVsbG8=", "mimeType": "image/png"}
    parts = [{"type": "text", "text": "look"}, {"type": "image", "source": data}]
    made = task(messages=[{**HELLO, "content": parts}])
    assert made.user_message == "look" and made.attachments[0].media_type == "image/png"
    for kind, source in (
        ("image", {"type": "url", "value": "https://example.com/a.png"}),
        ("audio", data),
        ("document", {"type": "file", "value": "f"}),
    ):
        with pytest.raises(ProblemError) as refused:
            task(messages=[{**HELLO, "content": [{"type": kind, "source": source}]}])
        assert refused.value.problem.errors[0].pointer == "/body/messages/0/content/0/source"


def test_what_is_wrong_is_told_where_it_stands() -> None:
    for more, pointer in (
        ({"messages": [{**HELLO, "role": "assistant"}]}, "/body/messages/0"),
        ({"context": [{"description": "a", "value": "b"}] * 33}, "/body/context"),
        ({"tools": [TOOL, TOOL]}, "/body/tools"),
    ):
        with pytest.raises(ProblemError) as refused:
            task(**more)
        assert refused.value.problem.errors[0].pointer == pointer
    long = {"threadId": "t" * MAX_ID_CHARS, "tools": [TOOL] * 128, "resume": [answer()] * 64}
    assert asked(**long).resume
    for name, value in (("threadId", "t" * 257), ("tools", [TOOL] * 129), ("resume", [answer()] * 65)):
        with pytest.raises(ValidationError):
            asked(**{name: value})
    assert MAX_ID_CHARS == 256
    for size, takes in ((512, True), (513, False)):
        with pytest.raises(ValidationError) if not takes else pytest.raises(ProblemError):
            gate_answers(asked(resume=[{"interruptId": "x" * size, "status": "resolved"}]).resume or ())
    described = {**TOOL, "description": "d" * 4_096}
    assert asked(tools=[described]).tools
    with pytest.raises(ValidationError):
        asked(tools=[{**TOOL, "description": "d" * 4_097}])


def answer() -> dict[str, Any]:
    return {"interruptId": f"{RUN}:7:{GATE}", "status": "resolved"}


def test_an_answer_is_a_word_at_the_gate_of_the_call_that_was_shown() -> None:
    said = resumed({"payload": {"approved": True}})
    assert (said.run_id, said.seq) == (RUN, 7)
    assert said.word == GateWord(gate_id=GATE, digest="sha256:aa", verdict="approved")
    assert resumed({"payload": True}, digest="").word.digest is None
    denied = resumed({"payload": {"verdict": "denied", "reason": "no"}})
    assert (denied.word.verdict, denied.word.reason) == ("denied", "no")
    assert resumed({"status": "cancelled"}).word.reason == CANCELLED
    assert resumed({"payload": {"editedArgs": {"amount": 1}}}).word.args == {"amount": 1}
    assert resumed({}).word.says_nothing
    with pytest.raises(ProblemError, match="editedArgs"):
        resumed({"payload": {"approved": False, "editedArgs": {}}})
    for wrong in ({"payload": {"aproved": True}}, {"payload": {"verdict": "approved", "reason": "r" * 2_001}}):
        with pytest.raises(ValidationError):
            resumed(wrong)
    assert resumed({"payload": {"verdict": "approved", "reason": "r" * 2_000}})
    other = {"interruptId": f"{GATE}:7:{GATE}", "status": "resolved"}
    with pytest.raises(ProblemError, match="several runs"):
        gate_answers(asked(resume=[answer(), other]).resume or ())
    broken = {"interruptId": f"{'-' * 36}:7:{GATE}", "status": "resolved"}
    with pytest.raises(ProblemError, match="not the id of an interrupt"):
        gate_answers(asked(resume=[broken]).resume or ())


def test_a_gate_ends_the_stream_as_an_interrupt_and_a_pause_does_not() -> None:
    events = AgUiEvents(RUN, "support", site="https://x")
    checked(events.begin())
    paused = {**GATE_OPENED, "gate_id": CALL, "gate_type": "run_paused"}
    checked(events.of(entry(1, paused)) + events.of(entry(2, GATE_OPENED)))
    (gate,) = events.gates.values()
    told = events.interrupted([gate])
    assert checked(told) == ["RUN_FINISHED"] and events.has_ended
    (interrupt,) = told[-1]["outcome"]["interrupts"]
    assert interrupt["id"] == f"{RUN}:2:{GATE}:sha256:aa" and interrupt["toolCallId"] == str(CALL)
    assert interrupt["metadata"]["towpath"]["url"] == f"https://x/approvals/{GATE}"
    assert interrupt["responseSchema"]["properties"]["verdict"]["enum"] == ["approved", "denied"]
    closed = {"type": "gate_closed", "gate_id": GATE, "verdict": "approved"}
    events.of(entry(3, closed))
    assert not events.gates


def test_an_answer_is_sent_as_it_is_written_and_what_is_taken_back_is_named() -> None:
    events = AgUiEvents(RUN, "support", state=3)
    assert checked(events.begin()) == ["RUN_STARTED"], "a state that is no object is left alone"
    assert checked(events.piece(piece("Or")) + events.piece(piece("der"))) == [
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT")
    ]
    back = events.piece(RunStreamSuperseded(request_id=REQUEST, attempt=1, reason="refused"))
    assert checked(back) == ["TEXT_MESSAGE_END", "CUSTOM"] and back[1]["value"]["reason"] == "refused"
    events.piece(piece("Done, "))
    rest = events.of(entry(1, finished({"message": "Done, all of it."})))
    assert [one.get("delta") for one in rest if one["type"] == "TEXT_MESSAGE_CONTENT"] == ["all of it."]
    assert rest[-1]["outcome"] == {"type": "success"} and checked(rest)[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    other = AgUiEvents(RUN, "support")
    other.piece(piece("No"))
    whole = other.of(entry(1, finished({"message": "Yes"})))
    assert checked(whole)[:3] == ["TEXT_MESSAGE_END", "CUSTOM", "TEXT_MESSAGE_START"]


def test_every_end_is_told_and_nothing_is_open_after_it() -> None:
    cancelled = AgUiEvents(RUN, "support")
    cancelled.piece(piece("half"))
    told = cancelled.of(entry(1, finished({}, "cancelled")))
    assert checked(told) == ["STATE_DELTA", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert told[-1]["outcome"] == {"type": "cancelled"}
    failed = AgUiEvents(RUN, "support")
    assert checked(failed.of(entry(1, finished({"message": "m"}, "failed")))) == ["RUN_ERROR"] and failed.has_ended
    lost = AgUiEvents(RUN, "support").failed(problem("unavailable", "gone"))
    assert (lost[0]["code"], checked(lost)) == ("unavailable", ["RUN_ERROR"])


def test_the_application_is_asked_for_calls_of_the_tools_that_its_task_offered() -> None:
    wanted = finished({"tool_calls": [{"name": "pick", "arguments": {}}]})
    calls = asking(answer_schema([TOOL], None)).of(entry(2, wanted))
    assert "TEXT_MESSAGE_START" not in checked(calls)
    assert calls[-1]["outcome"]["pendingToolCallIds"] == [f"call_1_{RUN.hex}"] == [calls[0]["toolCallId"]]
    for schema in (None, {"type": "object"}, answer_schema([{**TOOL, "name": "paint"}], None)):
        told = asking(schema).of(entry(2, wanted))
        assert "TOOL_CALL_START" not in checked(told) and told[-1]["outcome"] == {"type": "success"}


def asking(schema: dict[str, Any] | None) -> AgUiEvents:
    """Return the events of a run whose task has *schema*, after its first one."""
    events = AgUiEvents(RUN, "support", calls_in=lambda final, given: calls_in(final, names_offered(given)))
    names = {"project": "p", "caller": "a", "network": "support", "version": 1, "snapshot_digest": "", "agent_key": "a"}
    limits = {"max_steps": 9, "max_tool_errors": 9, "timeout_ms": 9, "step_timeout_ms": 9, "context_limit": 9}
    begun = {"type": "run_created", "user_message": "go", "response_schema": schema}
    events.of(entry(1, {**names, **limits, **begun}))
    return events


def test_nothing_is_sent_that_the_client_has() -> None:
    events = AgUiEvents(RUN, "support", after=2)
    assert not events.of(entry(2, GATE_OPENED)) and events.gates
    ended = AgUiEvents(RUN, "support", after=2).of(entry(2, finished({"message": "Done."})))
    assert checked(ended)[-1] == "RUN_FINISHED", "a stream has an end, whatever its client has"

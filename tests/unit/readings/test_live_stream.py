"""A run in the words of a conversation, made of its log: what is sent, in which order, and what is left out."""

from datetime import timedelta
from uuid import UUID

import pytest
from pydantic import TypeAdapter
from tests.support.engine.machine import Machine, respond, route, use, use_all

from towpath.client.streams import known_types
from towpath.errors import RefusedError
from towpath_readings.stream.live import EVENT_TYPES, LiveStream, RunStreamDelta, StreamEvent


def streamed(
    machine: Machine, *, detailed: bool = True, event_types: frozenset[str] | None = None
) -> list[StreamEvent]:
    found = LiveStream(detailed=detailed, event_types=event_types)
    return [one for entry in machine.entries for one in found.of(entry)]


def in_words(events: list[StreamEvent]) -> list[str]:
    return [" ".join(filter(None, (one.type, getattr(one, "phase", ""), getattr(one, "status", "")))) for one in events]


def answered() -> Machine:
    """A run that calls a system-filled tool among two, is refused once, and answers."""
    machine = Machine(system_params={"account": "acme", "token": "secret-token"})
    machine.decide(use_all(("echo", {"text": "a"}), ("pay", {"amount": "5"})))
    machine.finish(1, result={"paid": True}, duration_ms=7)
    machine.fail(0, message="broken")
    machine.decide(use("ghost"))
    machine.decide(respond("all well"))
    return machine


def test_b12_a_stream_is_in_order_and_calls_and_texts_come_whole() -> None:
    """Row B12: text, tool_call, tool_result, step, reasoning, usage, status, error events; order; whole calls."""
    events = streamed(answered())
    assert in_words(events) == [
        *("status starting", "status running", "step started"),
        *("reasoning", "usage", "tool_call", "tool_call", "status waiting_for_tool", "tool_result", "tool_result"),
        *("step completed", "step started", "reasoning", "usage", "error"),
        *("step completed", "step started", "reasoning", "text", "usage", "step completed", "status completed"),
    ]
    calls = [one for one in events if one.type == "tool_call"]
    assert [(one.tool, one.arguments) for one in calls] == [("echo", {"text": "a"}), ("pay", {"amount": "5"})]
    paid, broken = (one for one in events if one.type == "tool_result")
    assert (paid.success, paid.result, paid.duration_ms, paid.call_id) == (True, {"paid": True}, 7, calls[1].call_id)
    assert (broken.success, broken.error, broken.call_id) == (False, "tool_exception: broken", calls[0].call_id)
    assert [(one.text, one.step) for one in events if one.type == "text"] == [("all well", 3)]
    assert [one.recoverable for one in events if one.type == "error"] == [True]
    assert [one.seq for one in events] == sorted(one.seq for one in events)
    assert "secret-token" not in "".join(one.model_dump_json() for one in events)


def test_b12_the_error_that_ended_a_run_comes_before_its_status_and_past_every_filter() -> None:
    """Row B12: error events; `detailed` flag, filter; same loop checks as run."""
    machine = Machine()
    for _ in range(4):
        machine.decide(use("echo", text="same"))
        if machine.state.calls and not machine.state.is_final and machine.requests:
            machine.finish(result="same")
    assert machine.finished.reason == "loop_detected"
    whole = streamed(machine)
    assert in_words(whole)[-2:] == ["error", "status error"]
    assert (whole[-2].type, whole[-1].type) == ("error", "status")
    for narrow in (streamed(machine, detailed=False), streamed(machine, event_types=frozenset({"tool_call"}))):
        assert in_words(narrow) == ["tool_call", "tool_call", "error"]
    assert streamed(machine, detailed=False, event_types=frozenset({"text"}))[:-1] == []


def test_b12_a_step_is_sent_once_whatever_is_asked_within_it_and_a_denial_is_a_result() -> None:
    machine = Machine()
    machine.decide(use("echo", text="x"))
    machine.deny()
    machine.decide(route("expert"))
    machine.decide(respond({"a": [1]}))
    events = streamed(machine, event_types=frozenset({"step", "tool_result", "text"}))
    steps = [(one.phase, one.step, one.agent_key) for one in events if one.type == "step"]
    assert steps == [
        *(("started", 1, "triage"), ("completed", 1, "triage")),
        *(("started", 2, "triage"), ("completed", 2, "triage")),
        *(("started", 3, "expert"), ("completed", 3, "expert")),
    ]
    (denied,) = (one for one in events if one.type == "tool_result")
    assert not denied.success and denied.error.startswith("permission_denied: ")
    assert denied.duration_ms == 0, "it never ran"
    assert [one.text for one in events if one.type == "text"] == ['{"a":[1]}']


def test_b12_an_item_that_names_no_place_in_the_log_is_before_all_of_it_and_of_its_first_call() -> None:
    """Whoever goes on after it misses nothing."""
    bare = {"type": "delta", "part": "tool_call", "text": "{", "request_id": str(UUID(int=1)), "attempt": 1}
    read: StreamEvent = TypeAdapter(StreamEvent).validate_python(bare)
    assert isinstance(read, RunStreamDelta)
    assert (read.seq, read.step, read.call_index) == (0, 0, 0)


def test_b12_a_filter_takes_the_words_there_are() -> None:
    assert known_types(None) is None
    assert known_types(["text", "usage"]) == {"text", "usage"} < EVENT_TYPES
    with pytest.raises(RefusedError, match="a stream has no mood; it has error, reasoning"):
        known_types(["text", "mood"])


def test_a_gate_is_told_with_the_call_that_waits_and_what_it_takes() -> None:
    machine = Machine(system_params={"account": "acme", "token": "t"})
    machine.decide(use("pay", amount="5"))
    machine.want_approval(UUID(int=7), summary="Pay {amount}")
    (gate,) = [one.gate for one in streamed(machine) if one.type == "status" and one.gate is not None]
    opened, call = machine.state.gates[0], machine.call_id(0)
    assert (gate.gate_id, gate.gate_type, gate.call_id) == (opened.gate_id, opened.gate_type, call)
    assert (gate.tool, gate.arguments, gate.digest, gate.rule) == ("pay", {}, "sha256:02", "people-first")
    assert (gate.verdicts, gate.expires_at) == ((), machine.now + timedelta(hours=1))
    assert gate.summary == "Pay (not given)"
    machine.want_approval(UUID(int=8), edited_by="bob")
    machine.want_approval(UUID(int=9), edited_by="bob", quorum=2)
    told = [one.gate for one in streamed(machine) if one.type == "status" and one.gate is not None]
    assert [one.gate_id for one in told] == [opened.gate_id, machine.state.gates[0].gate_id], (
        "bob's own edit is decided"
    )
    doubted = Machine(system_params={"account": "acme", "token": "t"})
    doubted.decide(use("pay", amount="5"))
    doubted.unknown()
    (gate,) = [one.gate for one in streamed(doubted) if one.type == "status" and one.gate is not None]
    assert (gate.tool, gate.arguments, gate.digest) == ("pay", {"amount": "5"}, "")
    assert gate.verdicts == ("happened", "did_not_happen", "retry")

"""Pieces of a model's text: what can be read of them, and which of them a viewer gets."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.engine.machine import Machine, respond, use

from towpath_contracts.decisions.decision import FinishInstruction
from towpath_contracts.decisions.request import TokenDelta
from towpath_contracts.events import log as ev
from towpath_readings.stream.deltas import DeltaEvent, TokenDeltaFilter
from towpath_readings.stream.live import LiveStream
from towpath_readings.stream.partial_decision import PartialDecisionParser

RUN, FIRST, SECOND = UUID(int=1), UUID(int=2), UUID(int=3)


def grown(text: str, size: int = 3) -> dict[tuple[str, int, str], str]:
    """Return what is read of *text* in pieces of *size*, put together by part, call and tool."""
    written, parts = PartialDecisionParser(), {}
    for start in range(0, len(text), size):
        for one in written.add(text[start : start + size]):
            place = (one.part, one.call_index, one.tool)
            parts[place] = parts.get(place, "") + one.text
    return parts


def decision(action: str, details: Any, why: str = "because") -> str:
    return json.dumps({"action": action, "action_reasoning": why, "action_details": details})


def piece(
    text: str, index: int = 0, *, request: UUID = FIRST, attempt: int = 1, writer: str = "a", step: int = 1
) -> TokenDelta:
    return TokenDelta(run_id=RUN, request_id=request, attempt=attempt, index=index, text=text, writer=writer, step=step)


def entry(event: Any, seq: int = 1) -> ev.LogEntry:
    return ev.LogEntry(seq=seq, at=datetime(2026, 1, 1, tzinfo=UTC), event=event)


def in_words(text: tuple[DeltaEvent, ...]) -> list[str]:
    return [one.text if one.type == "delta" else f"{one.type} {one.attempt} {one.reason}" for one in text]


BEGUN = '{"action":"RESPOND","action_details":{"payload":{"message":"'


def test_b12_deltas_of_an_answer_are_its_reasoning_and_its_message() -> None:
    text = decision("RESPOND", {"payload": {"message": 'All "well"\nö \U0001f600 and 12'}})
    for size in (1, 2, 7, len(text)):
        assert grown(text, size) == {
            ("reasoning", 0, ""): "because",
            ("text", 0, ""): 'All "well"\nö \U0001f600 and 12',
        }
    assert grown(f"Sure!\n```json\n{text}\n```") == grown(text) == grown(f"<think>hm, {{}}</think>{text}")
    assert grown(decision("RESPOND", {"payload": "plain"}))["text", 0, ""] == "plain"


def test_b12_deltas_of_calls_are_json_text_of_their_arguments_and_assemble() -> None:
    """Row B12: deltas assembled: the pieces of each call, put together, begin its arguments as they come whole."""
    calls = [
        {"tool_name": "pay", "tool_params": {"amount": 12.5, "to": "x}1"}},
        {"tool_params": {"n": [1, 2]}, "tool_name": "sum"},
        {"tool_name": "now", "tool_params": {}},
    ]
    parts = grown(decision("USE_TOOL", {"calls": calls}), 1)
    assert json.loads(parts["tool_call", 0, "pay"]) == calls[0]["tool_params"]
    assert json.loads(parts["tool_call", 1, "sum"]) == calls[1]["tool_params"]
    assert {tool for part, _, tool in parts if part == "tool_call"} == {"pay", "sum", "now"}, "no name is cut short"
    one = grown(decision("USE_TOOL", {"tool_name": "pay", "tool_params": {"to": "anna"}}), 1)
    assert one["tool_call", 0, "pay"] == '{"to":"anna'


@settings(max_examples=60, deadline=None)
@given(st.text(), st.integers(1, 9))
def test_b12_whatever_is_written_pieces_only_grow(text: str, size: int) -> None:
    assert all(part for (_, _, tool), part in grown(text, size).items() if not tool)
    whole = decision("RESPOND", {"payload": {"message": text}}, why=text)
    parts = grown(whole, size)
    assert all(text.startswith(part) for part in parts.values())
    assert parts.get(("text", 0, ""), "") == text


def test_b12_no_more_is_read_than_there_is_room_for() -> None:
    written = PartialDecisionParser()
    assert written.add(BEGUN + "x" * 10) and not written.add("x" * (128 * 1_024))


def test_b12_a_later_attempt_takes_back_what_was_sent_and_late_pieces_are_dropped() -> None:
    deltas = TokenDeltaFilter()
    assert in_words(deltas.piece(piece(BEGUN + "one"))) == ["one"]
    assert in_words(deltas.piece(piece(BEGUN + "two", attempt=2, writer="b"))) == ["superseded 1 asked_again", "two"]
    assert deltas.piece(piece(" more", 1)) == () == deltas.piece(piece(BEGUN + "again", writer="c"))
    assert in_words(deltas.piece(piece(" on", 1, attempt=2, writer="b"))) == [" on"]


def test_b12_an_attempt_that_is_put_off_takes_back_what_was_sent_of_it() -> None:
    deltas = TokenDeltaFilter()
    put_off = ev.DecisionPostponed(
        request_id=FIRST,
        step=1,
        agent_key="a",
        attempt=1,
        until=datetime(2026, 1, 2, tzinfo=UTC),
        code="c",
        message="m",
    )
    deltas.piece(piece(BEGUN + "one"))
    assert in_words(deltas.entry(entry(put_off))) == ["superseded 1 asked_again"]
    assert deltas.piece(piece(" more", 1)) == ()
    assert in_words(deltas.piece(piece(BEGUN + "two", attempt=2, writer="b"))) == ["two"]
    assert deltas.entry(entry(put_off)) == (), "the log may lag behind the pieces"


def test_b12_what_was_sent_is_taken_back_when_somebody_holds_the_run() -> None:
    machine = Machine()
    deltas, asked = TokenDeltaFilter(), machine.request_id
    deltas.piece(piece(BEGUN + "one", request=asked))
    machine.steer("pause")
    assert in_words(deltas.entry(machine.entries[-1])) == ["superseded 1 asked_again"]
    assert deltas.piece(piece(" more", 1, request=asked)) == (), "the model goes on, and nobody waits for it"


def test_b12_a_repair_within_the_attempt_takes_back_too_and_so_does_another_request() -> None:
    deltas = TokenDeltaFilter()
    deltas.piece(piece(BEGUN + "bad"))
    assert in_words(deltas.piece(piece(BEGUN + "good", writer="b"))) == ["superseded 1 asked_again", "good"]
    assert deltas.piece(piece("late", 1)) == ()
    assert in_words(deltas.piece(piece(BEGUN + "x", request=SECOND, writer="c"))) == ["superseded 1 asked_again", "x"]
    assert deltas.piece(piece(BEGUN + "never", attempt=9, writer="d")) == (), "its request is over"


@pytest.mark.parametrize("lost", [0, 1])
def test_b12_a_call_of_which_a_piece_is_missing_is_sent_no_further(lost: int) -> None:
    deltas, pieces = TokenDeltaFilter(), [piece(BEGUN + "a"), piece("b", 1), piece("c", 2)]
    listed = [text for index, one in enumerate(pieces) if index != lost for text in in_words(deltas.piece(one))]
    assert listed == ["a"][:lost]
    assert in_words(deltas.piece(piece(BEGUN + "z", attempt=2, writer="b")))[-1] == "z"


def run_of(machine: Machine) -> tuple[TokenDeltaFilter, list[str]]:
    """Return what is sent of *machine*'s run when each request is answered in two pieces before the log has it."""
    deltas, found = TokenDeltaFilter(), []
    for one in machine.entries:
        if isinstance(one.event, ev.DecisionReceived):
            text, asked = json.dumps(one.event.decision), one.event.request_id
            for index, part in enumerate((text[:-3], text[-3:])):
                delta = piece(part, index, request=asked, writer=str(asked), step=one.event.step)
                found += in_words(deltas.piece(delta))
        found += in_words(deltas.entry(one))
        if isinstance(one.event, ev.DecisionReceived):
            assert deltas.piece(piece(BEGUN + "late", request=one.event.request_id, writer="late")) == ()
    return deltas, found


def test_b12_once_the_log_has_the_answer_pieces_end_and_what_is_refused_is_taken_back() -> None:
    machine = Machine()
    machine.decide(use("ghost", x="1"))
    machine.decide(respond("all well"))
    deltas, found = run_of(machine)
    assert found.count("superseded 1 refused") == 1, "the tool that is not there was refused"
    assert found[-1] == "all well" or found[-2:] == ["all w", "ell"]
    assert deltas.piece(piece(BEGUN + "x", request=SECOND, writer="z")) == (), "the run has ended"


def test_b12_an_end_without_an_answer_takes_back_what_was_sent() -> None:
    machine = Machine()
    deltas = TokenDeltaFilter()
    for one in machine.entries:
        deltas.entry(one)
    asked = machine.requests[-1].request_id
    assert in_words(deltas.piece(piece(BEGUN + "half", request=asked))) == ["half"]
    machine.cancel()
    listed = [text for one in machine.entries[-4:] for text in in_words(deltas.entry(one))]
    assert listed == ["superseded 1 ended"]


def test_b12_a_log_that_lags_behind_the_pieces_ends_none_of_them() -> None:
    """Entries of the step before may be read after the first pieces of the next one."""
    machine = Machine()
    machine.decide(use("ghost", x="1"))
    asked = machine.requests[-1]
    deltas = TokenDeltaFilter()
    assert in_words(deltas.piece(piece(BEGUN + "early", request=asked.request_id, step=asked.step))) == ["early"]
    assert [text for one in machine.entries for text in in_words(deltas.entry(one))] == []
    assert in_words(deltas.piece(piece(" bird", 1, request=asked.request_id, step=asked.step))) == [" bird"]


FINISH = ev.InstructionIssued(
    step=1, epoch=0, agent_key="a", instruction=FinishInstruction(payload={"message": "expert"})
)
ENDED = ev.RunFinished(status="completed", reason="responded", final={"message": "all"}, steps=1, fence=0)


def asks(request: UUID, kind: str = "decide", step: int = 1) -> ev.DecisionRequested:
    return ev.DecisionRequested(request_id=request, step=step, epoch=0, agent_key="a", model="m:m", kind=kind)


def after_an_answer(*events: Any) -> tuple[list[str], list[str]]:
    """Return what is taken back of an answer, and what a conversation tells of it, when *events* follow it."""
    deltas, words = TokenDeltaFilter(), LiveStream(event_types=frozenset({"text"}))
    received = ev.DecisionReceived(request_id=FIRST, step=1, epoch=0, agent_key="a", decision={"action": "RESPOND"})
    deltas.piece(piece(BEGUN + "expert"))
    log = [entry(event, seq) for seq, event in enumerate((asks(FIRST), received, FINISH, *events), 1)]
    listed = [text for one in log for text in in_words(deltas.entry(one))]
    return listed, [one.text for each in log for one in words.of(each) if one.type == "text"]


def test_b12_an_answer_is_sent_where_the_run_ends_with_it_and_taken_back_where_it_does_not() -> None:
    """An answer may be a handoff to another agent, or be judged first and not believed."""
    handed = ev.SwarmHandoffRequested(step=1, source="a", target="expert", count=1, said="expert")
    judged = asks(SECOND, "reflect")
    assert after_an_answer(ENDED) == ([], ["expert"])
    assert after_an_answer(judged, ENDED) == ([], ["expert"])
    assert after_an_answer(handed, asks(SECOND)) == (["superseded 1 refused"], [])
    assert after_an_answer(handed, ENDED) == (["superseded 1 refused"], ["all"]), "a nested swarm answered"
    assert after_an_answer(judged, asks(UUID(int=9), step=2)) == (["superseded 1 refused"], [])
    workflow = LiveStream(detailed=False).of(entry(ENDED))
    assert [(one.type, one.text) for one in workflow if one.type == "text"] == [("text", "all")]
    assert after_an_answer(ENDED.model_copy(update={"status": "cancelled"})) == (["superseded 1 ended"], [])

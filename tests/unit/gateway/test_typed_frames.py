"""Typed events over HTTP: what a client reads in one go it reads as well in pieces, from wherever it was cut off."""

import json
from uuid import UUID

import pytest
from tests.support.engine.machine import RUN, Machine, respond, use, use_all

from towpath_contracts.events import log as ev
from towpath_contracts.events.log import ChildEnded, ChildStarted, LogEntry, RunFinished
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.children import ChildTask
from towpath_gateway.app.typed_frames import TypedRunFraming, TypedTreeFraming
from towpath_gateway.core.headers import chosen_types, last_typed_id, last_typed_tree_id
from towpath_readings.stream.live import LiveStream, RunStreamDelta, RunStreamSuperseded

CHILD = UUID(int=7)


def log() -> list[LogEntry]:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.finish(0)
    machine.finish(1)
    machine.decide(use("ghost"))
    machine.decide(respond("all well"))
    return machine.entries


def family() -> dict[UUID, list[LogEntry]]:
    """A run with a child that has a log of the same kind, told between the first and the second step."""
    own, child = log(), log()
    begun = ChildStarted(
        child_id=CHILD, step=1, index=0, task=ChildTask(agent_key="expert", user_message="x"), purpose="x"
    )
    ended = ChildEnded(child_id=CHILD, step=1, index=0, status="completed", child_seq=len(child))
    events = [*(one.event for one in own[:4]), begun, ended, *(one.event for one in own[4:])]
    entries = [LogEntry(seq=n, at=own[0].at, event=event) for n, event in enumerate(events, 1)]
    return {RUN: entries, CHILD: child}


def frames_of_run(last: str | None = None, after: int = 0) -> list[bytes]:
    start, items = last_typed_id(last, after)
    framing = TypedRunFraming(RUN, LiveStream, start, items)
    return [frame for entry in log() for frame in framing.entry(RUN, entry, ())]


def frames_of_tree(last: str | None = None) -> list[bytes]:
    framing = TypedTreeFraming(RUN, LiveStream, *last_typed_tree_id(last))
    logs, read, found = family(), dict.fromkeys((RUN, CHILD), 0), []
    while True:
        ready = [r for r in framing.runs() if read[r] < len(logs[r]) and not framing.is_waiting(r)]
        if not ready:
            return found
        run_id = ready[-1]
        found += framing.entry(run_id, logs[run_id][read[run_id]], ())
        read[run_id] += 1
        if isinstance(logs[run_id][read[run_id] - 1].event, RunFinished):
            found += framing.remaining_frames(run_id)


def fields(frame: bytes) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))


def test_b12_what_is_framed_is_the_typed_stream_of_the_log() -> None:
    """Row B12: the same typed events over HTTP as in the SDK."""
    stream = LiveStream()
    wanted = [item for entry in log() for item in stream.of(entry)]
    found = [fields(frame) for frame in frames_of_run()]
    assert [json.loads(one["data"]) for one in found] == [json.loads(item.model_dump_json()) for item in wanted]
    assert [one["event"] for one in found] == [item.type for item in wanted]
    assert len({one["id"] for one in found}) == len(found), "each can be gone on after"


def test_b12_a_client_that_resumes_misses_nothing_and_gets_nothing_twice() -> None:
    whole = frames_of_run()
    for place, frame in enumerate(whole, 1):
        assert frames_of_run(fields(frame)["id"]) == whole[place:]
    seqs = [json.loads(fields(frame)["data"])["seq"] for frame in whole]
    assert frames_of_run(after=3) == [frame for frame, seq in zip(whole, seqs, strict=True) if seq > 3]


def test_b12_a_tree_resumes_at_every_item_too() -> None:
    whole = frames_of_tree()
    data = [json.loads(fields(frame)["data"]) for frame in whole]
    assert {one["run_id"] for one in data} == {str(RUN), str(CHILD)}
    assert {tuple(one.get("path", ())) for one in data} == {(), ("expert",)}
    for place, frame in enumerate(whole, 1):
        assert frames_of_tree(fields(frame)["id"]) == whole[place:], place


def test_pieces_come_of_what_is_wanted_and_what_to_forget_always() -> None:
    def brief() -> LiveStream:
        return LiveStream(detailed=False)

    piece = RunStreamDelta(part="reasoning", text="well", request_id=RUN, attempt=1)
    gone = RunStreamSuperseded(request_id=RUN, attempt=1, reason="refused")
    for framing in (TypedRunFraming(RUN, brief, 0, 0), TypedTreeFraming(RUN, brief, {}, {})):
        assert framing.delta_frame(RUN, piece) == b""
        assert b"well" in framing.delta_frame(RUN, piece.model_copy(update={"part": "text"}))
        assert b"refused" in framing.delta_frame(RUN, gone)


@pytest.mark.parametrize("header", ["x", "3.", ".2", "3.x", "-1.2", "3.2.1"])
def test_an_id_that_is_none_of_ours_is_refused(header: str) -> None:
    with pytest.raises(ProblemError):
        last_typed_id(header, 0)
    with pytest.raises(ProblemError):
        last_typed_tree_id(f"!{header}")


def test_types_are_named_as_the_stream_has_them() -> None:
    assert chosen_types(None) is None
    assert chosen_types("text, tool_call") == {"text", "tool_call"}
    with pytest.raises(ProblemError, match="a stream has no texts; it has error"):
        chosen_types("texts")


def test_an_event_that_is_no_item_of_the_stream_has_no_frame() -> None:
    framing = TypedRunFraming(RUN, LiveStream, 0, 0)
    entry = LogEntry(seq=1, at=log()[0].at, event=ev.NoteAdded(step=1, text="note"))
    assert list(framing.entry(RUN, entry, ())) == []

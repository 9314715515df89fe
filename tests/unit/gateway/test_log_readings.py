"""Logs and large results: a project has a share of them at once, and answers are written and sent in steps."""

import asyncio
import itertools
import json
import time
import weakref
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.waiting import eventually

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.workspace import FileText
from towpath_gateway.app import log_readings
from towpath_gateway.app.log_readings import (
    FEW,
    LONG_PAGE_S,
    PIECE_BYTES,
    TAKING_S,
    UNREAD_BYTES,
    WHOLE_OF_PROJECT,
    LogReadings,
    json_parts,
)
from towpath_readings.transcript import ChatMessage, ChatToolCall, MessageRole, RunMessages

RUN = uuid4()
PAGES, PARSED_S = 5, 0.03


def note(seq: int) -> LogEntry:
    return LogEntry.model_validate(
        {"seq": seq, "at": "2030-01-01T00:00:00Z", "event": {"type": "note_added", "step": 1, "text": "x"}}
    )


class LongLogs:
    """The platform: every log has more than a page, and what comes after the first one is read once it is released."""

    def __init__(self) -> None:
        self.whole: list[str] = []
        self.released = asyncio.Event()

    async def page(self, project: str, run_id: UUID, after: int, _limit: int = 0, _wait_ms: int = 0) -> EventPage:
        if after == 1:
            self.whole.append(project)
            await self.released.wait()
        return EventPage(run_id=run_id, entries=(note(after + 1),), seq=9, status="running")


class Counts:
    """Counts entries, and remembers the last page that it saw."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.seen: list[int] = []
        self._takes_s = takes_s

    def take(self, entry: LogEntry) -> None:
        self.seen.append(entry.seq)
        time.sleep(self._takes_s)


@pytest.fixture
def logs() -> LongLogs:
    return LongLogs()


@pytest.fixture
def readings(logs: LongLogs) -> Iterator[LogReadings]:
    yield LogReadings(logs)  # type: ignore[arg-type]


async def read(readings: LogReadings, project: str) -> int:
    counts = Counts()
    async with readings.log(project, RUN, counts):
        return len(counts.seen)


async def test_a_project_reads_few_whole_logs_at_once_and_others_beside_it(
    logs: LongLogs, readings: LogReadings
) -> None:
    tasks = [asyncio.create_task(read(readings, project)) for project in ["reader"] * 60 + ["other"]]
    await eventually(lambda: len(logs.whole) > WHOLE_OF_PROJECT)
    await asyncio.sleep(0.05)  # for what would be too much
    assert sorted(logs.whole) == ["other"] + ["reader"] * WHOLE_OF_PROJECT
    logs.released.set()
    assert await asyncio.gather(*tasks) == [9] * 61


class LongPages:
    """The platform: a log of pages of ten entries, and how many entries of pages before the last one are held."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self._pages: list[weakref.ref[EventPage]] = []

    async def page(self, _project: str, run_id: UUID, after: int, _limit: int = 0, _wait_ms: int = 0) -> EventPage:
        self.held.append(sum(page() is not None for page in self._pages))
        found = EventPage(
            run_id=run_id, entries=tuple(map(note, range(after + 1, after + 11))), seq=50, status="failed"
        )
        self._pages.append(weakref.ref(found))
        return found


async def test_a_long_log_is_read_page_by_page_and_no_page_is_kept() -> None:
    logs, counts, whole = LongPages(), Counts(), Counts()
    async with LogReadings(logs).log("reader", RUN, counts, whole):  # type: ignore[arg-type]
        assert counts.seen == whole.seen == list(range(1, 51))
    assert len(logs.held) == 5 and max(logs.held) <= 1  # the one before, until the next has come


async def test_others_come_between_the_entries_of_a_page_that_take_long() -> None:
    slow, looks, ended = Counts(takes_s=2 * TAKING_S), [0], False

    async def other() -> None:
        while not ended:
            looks.append(len(slow.seen))
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    async with LogReadings(LongPages()).log("reader", RUN, slow):  # type: ignore[arg-type]
        ended = True
    await beside
    assert max(later - earlier for earlier, later in itertools.pairwise(looks)) == 1


class CostlyPages:
    """The platform: a log of some pages, each of which takes a while of the processor to be parsed."""

    async def page(self, _project: str, run_id: UUID, after: int, _limit: int = 0, _wait_ms: int = 0) -> EventPage:
        until = time.thread_time() + PARSED_S
        while time.thread_time() < until:
            pass
        return EventPage(run_id=run_id, entries=(note(after + 1),), seq=PAGES, status="failed")


async def test_who_reads_a_long_log_leaves_half_of_the_time_to_others() -> None:
    began = time.monotonic()
    async with LogReadings(CostlyPages()).log("reader", RUN):  # type: ignore[arg-type]
        assert time.monotonic() - began >= (2 * PAGES - 1) * PARSED_S


class CostlyEntries:
    """The platform: a log of 25 entries, each of which takes a while of the processor to be parsed."""

    def __init__(self, parsed_s: float) -> None:
        self.asked: list[int] = []
        self._parsed_s = parsed_s

    async def page(self, _project: str, run_id: UUID, after: int, limit: int = 0, _wait_ms: int = 0) -> EventPage:
        self.asked.append(limit)
        entries = tuple(map(note, range(after + 1, 1 + min(25, after + limit) if after else 2)))
        until = time.thread_time() + self._parsed_s * len(entries)
        while time.thread_time() < until:
            pass
        return EventPage(run_id=run_id, entries=entries, seq=25, status="failed")


@pytest.mark.parametrize(("parsed_s", "asked"), [(2 * LONG_PAGE_S, [FEW, 4, 2, 1, 1]), (0.0, [FEW, 16])])
async def test_of_entries_that_take_long_few_are_asked_for_at_a_time(parsed_s: float, asked: list[int]) -> None:
    logs, counts = CostlyEntries(parsed_s), Counts()
    async with LogReadings(logs).log("reader", RUN, counts):  # type: ignore[arg-type]
        assert counts.seen == list(range(1, 26))
    assert logs.asked[1 : 1 + len(asked)] == asked


async def test_nothing_is_read_for_who_takes_none_of_its_answers(logs: LongLogs, readings: LogReadings) -> None:
    logs.released.set()
    taken = asyncio.Event()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            await taken.wait()

    answer = readings.answer("reader", [b"x" * (UNREAD_BYTES // 2)] * 2)
    sending = asyncio.create_task(answer({"type": "http"}, None, send))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    assert len(sent) == 2 and len(sent[1]["body"]) <= 2 * PIECE_BYTES
    with pytest.raises(ProblemError) as refused:
        await read(readings, "reader")
    assert refused.value.problem.code == "project_share_full"
    assert await read(readings, "other") == 9
    taken.set()
    await sending
    assert sum(len(message.get("body", b"")) for message in sent) == UNREAD_BYTES
    assert await read(readings, "reader") == 9


async def test_an_answer_in_steps_says_what_it_says_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_readings, "PIECE_BYTES", 10)
    call = ChatToolCall(call_id="c", tool="t", arguments={"a": [1.5, None, 'ä"\n']})
    messages = tuple(ChatMessage(role=MessageRole.TOOL, content=f"{place}", tool_calls=(call,)) for place in range(9))
    whole = RunMessages(run_id=RUN, messages=messages, waiting=(call,), seq=3)
    assert b"".join(await json_parts(whole)).decode() == whole.model_dump_json()


async def test_a_field_that_is_json_already_is_not_written_again() -> None:
    text = FileText(run_id=RUN, path="p", version=1, digest="d", content="")
    found = json.loads(b"".join(await json_parts(text, {"content": b'{"a": 1}'})))
    assert found == {**json.loads(text.model_dump_json()), "content": {"a": 1}}

"""Logs and large results: a project has a share of them at once, and answers are written and sent in steps."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.workspace import FileText
from towpath_gateway.app import log_readings
from towpath_gateway.app.log_readings import PIECE_BYTES, UNREAD_BYTES, WHOLE_OF_PROJECT, LogReadings, json_parts
from towpath_readings.transcript import ChatMessage, ChatToolCall, MessageRole, RunMessages

RUN = uuid4()


class LongLogs:
    """The platform: every log has more than a page, and is read once it is released."""

    def __init__(self) -> None:
        self.whole: list[str] = []
        self.released = asyncio.Event()

    async def page(self, _project: str, run_id: UUID, _after: int, _limit: int, _wait_ms: int = 0) -> EventPage:
        entry = LogEntry.model_validate(
            {"seq": 1, "at": "2030-01-01T00:00:00Z", "event": {"type": "note_added", "step": 1, "text": "x"}}
        )
        return EventPage(run_id=run_id, entries=(entry,), seq=9, status="running")

    async def events(self, project: str, _run_id: UUID, first: list[LogEntry]) -> list[LogEntry]:
        self.whole.append(project)
        await self.released.wait()
        return first


@pytest.fixture
def logs() -> LongLogs:
    return LongLogs()


@pytest.fixture
def readings(logs: LongLogs) -> Iterator[LogReadings]:
    yield LogReadings(logs)  # type: ignore[arg-type]


async def read(readings: LogReadings, project: str) -> int:
    async with readings.log(project, RUN) as entries:
        return len(entries)


async def test_a_project_reads_few_whole_logs_at_once_and_others_beside_it(
    logs: LongLogs, readings: LogReadings
) -> None:
    tasks = [asyncio.create_task(read(readings, project)) for project in ["reader"] * 60 + ["other"]]
    await asyncio.sleep(0.05)
    assert sorted(logs.whole) == ["other"] + ["reader"] * WHOLE_OF_PROJECT
    logs.released.set()
    assert await asyncio.gather(*tasks) == [1] * 61


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
    assert await read(readings, "other") == 1
    taken.set()
    await sending
    assert sum(len(message.get("body", b"")) for message in sent) == UNREAD_BYTES
    assert await read(readings, "reader") == 1


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

"""Questions about runs take turns of projects: long pages of one hold up no other, and who waits long is refused."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from tests.support.waiting import eventually

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.views import GetEvents
from towpath_contracts.tools.calls import GetBlobChunk
from towpath_fabric.nats.replies import request_type
from towpath_orchestrator.app.api import run_questions
from towpath_orchestrator.app.api.run_questions import (
    ACTS_OF_ONE,
    PAGES_OF_ONE,
    ReadingTurns,
    RunQuestions,
    in_turn,
    project_of,
)


class SlowPages:
    """What reads the log: each page takes until it is released."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.released = asyncio.Event()

    async def events(self, request: GetEvents) -> EventPage:
        self.read.append(request.project)
        await self.released.wait()
        return EventPage(run_id=request.run_id, entries=(), seq=0, status="running")


def ask(questions: RunQuestions, project: str) -> "asyncio.Task[EventPage]":
    return asyncio.create_task(questions.events(GetEvents(run_id=uuid4(), project=project), project))


def questions_of(pages: Any) -> RunQuestions:
    return RunQuestions(pages, ReadingTurns())


async def test_pages_of_one_project_leave_places_to_another() -> None:
    pages = SlowPages()
    questions = questions_of(pages)
    tasks = [ask(questions, project) for project in ["reader"] * 60 + ["other"]]
    await asyncio.sleep(0.01)
    assert pages.read == ["reader"] * PAGES_OF_ONE + ["other"]
    pages.released.set()
    await asyncio.gather(*tasks)


async def test_a_page_that_found_no_turn_in_time_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_questions, "WAIT_S", 0.01)
    pages = SlowPages()
    questions = questions_of(pages)
    tasks = [ask(questions, "reader") for _ in range(5)]
    await eventually(lambda: sum(task.done() for task in tasks) == 5 - PAGES_OF_ONE)
    pages.released.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    refused = [one.problem.code for one in found if isinstance(one, ProblemError)]
    assert refused == ["overloaded"] * (5 - PAGES_OF_ONE) and len(pages.read) == PAGES_OF_ONE


@pytest.mark.parametrize(("kind", "of_one"), [("pages", PAGES_OF_ONE), ("acts", ACTS_OF_ONE)])
async def test_what_is_read_of_networks_and_what_people_do_to_runs_takes_turns(kind: str, of_one: int) -> None:
    turns, pages = ReadingTurns(), SlowPages()
    read = in_turn(pages.events, getattr(turns, kind))
    asked = [("reader", 60), ("other", 1)]
    tasks = [
        asyncio.ensure_future(read(GetEvents(run_id=uuid4(), project=project), project))
        for project, count in asked
        for _ in range(count)
    ]
    await asyncio.sleep(0.01)
    assert pages.read == ["reader"] * of_one + ["other"]
    assert request_type(read) is GetEvents, "the bus reads from it what a request is"
    pages.released.set()
    await asyncio.gather(*tasks)


def test_a_request_names_its_project() -> None:
    assert project_of(GetEvents(run_id=uuid4(), project="shop").model_dump_json().encode()) == "shop"
    assert project_of(GetBlobChunk(digest="d", project="shop").model_dump_json().encode()) == "shop"
    assert project_of(b"nonsense") == ""

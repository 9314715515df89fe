"""What services ask for people: of runs, their logs, blobs and records, of networks, budgets and letters.

Projects take turns, also at what people do to runs: an act waits until its run has taken it.

Whoever may read runs may read long ones, and many at once. So questions are answered in turns of the projects that they
are asked for, and few of one project read the database at the same time: logs and blobs, whose pages have up to a
megabyte, fewer than what is small. A request that waits for a run holds a place and no work. What found no turn in
time is refused: who asked has gone, or asks again.
"""

import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic import ValidationError

from towpath_contracts import rpc
from towpath_contracts.base import Message
from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.runs.tree import GetTree, RunTreeNode
from towpath_contracts.runs.views import GatePage, GetEvents, GetRun, ListGates, ListRuns, RunPage, RunView
from towpath_contracts.tools.calls import BlobChunk, GetBlobChunk
from towpath_fabric.ports import MessageBus
from towpath_fabric.turns.fair_request_queue import FairQueueLimits
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.app.api.queries import RunQueries

PAGES = 4
PAGES_OF_ONE = 2
"""Pages of logs and pieces of blobs that are read at the same time: fewer than the connections of the smallest pool."""

LOOKS = 16
LOOKS_OF_ONE = 8

ACTS = 64
ACTS_OF_ONE = 16
"""Runs that are steered or cancelled, and gates that are settled, at the same time."""

OPEN = 1_024
OPEN_OF_ONE = 512
WAITING = 2_048
WAITING_SHARE = 0.25

WAIT_S = 5.0
"""Services wait for an answer that long."""


class _OfProject(Message):
    project: str = ""


def project_of(body: bytes) -> str:
    """Return the project that a request is asked for; one that can't be read has a turn of its own, and is refused."""
    try:
        return _OfProject.model_validate_json(body).project
    except ValidationError:
        return ""


class ReadingTurns:
    """The turns of projects: at `pages`, which are long to be read or parsed, at `looks`, which are not, at `acts`."""

    def __init__(self) -> None:
        self.pages = WorkTurns(PAGES, lambda _: PAGES_OF_ONE, WAIT_S)
        self.looks = WorkTurns(LOOKS, lambda _: LOOKS_OF_ONE, WAIT_S)
        self.acts = WorkTurns(ACTS, lambda _: ACTS_OF_ONE, WAIT_S)


def in_turn(answer: Callable[[Any], Awaitable[Message]], turns: WorkTurns) -> Callable[[Any, str], Awaitable[Message]]:
    """Return what gives *answer* to the request of a project in one of its *turns*."""

    @functools.wraps(answer)  # whose parameter says what it takes
    async def held(request: Any, caller: str) -> Message:
        async with turns.held(caller):
            return await answer(request)

    return held


class RunQuestions:
    """Answers them within the turns of their projects."""

    def __init__(self, queries: RunQueries, turns: ReadingTurns) -> None:
        self._queries = queries
        self._pages, self._looks = turns.pages, turns.looks

    async def get_run(self, request: GetRun, caller: str) -> RunView:
        """Return a run, waiting for its end as long as is asked."""
        if request.wait_ms:
            await self._queries.await_end(request)
        turns = self._pages if request.effects else self._looks
        async with turns.held(caller):
            return await self._queries.get_run(request)

    async def events(self, request: GetEvents, caller: str) -> EventPage:
        """Return a page of a run's log, waiting for news as long as is asked."""
        if request.wait_ms:
            await self._queries.await_news(request)
        async with self._pages.held(caller):
            return await self._queries.events(request)

    async def blob(self, request: GetBlobChunk, caller: str) -> BlobChunk:
        """Return a piece of a blob."""
        async with self._pages.held(caller):
            return await self._queries.blob(request)

    async def list_runs(self, request: ListRuns, caller: str) -> RunPage:
        """Return a page of runs."""
        async with self._looks.held(caller):
            return await self._queries.list_runs(request)

    async def tree(self, request: GetTree, caller: str) -> RunTreeNode:
        """Return a run and everything below it."""
        async with self._looks.held(caller):
            return await self._queries.tree(request)

    async def list_gates(self, request: ListGates, caller: str) -> GatePage:
        """Return gates."""
        async with self._looks.held(caller):
            return await self._queries.list_gates(request)


Answer = tuple[rpc.RpcMethod, Callable[..., Awaitable[Message]]]
"""A method, and what answers its request and the project of that."""


async def serve_questions(
    bus: MessageBus, questions: RunQuestions, more: Iterable[Answer]
) -> Callable[[], Awaitable[None]]:
    """Answer them, and *more*, in turns of their projects; returns what stops that."""
    answers: tuple[Answer, ...] = (
        (rpc.GET_RUN, questions.get_run),
        (rpc.EVENTS, questions.events),
        (rpc.BLOB_GET_RUNS, questions.blob),
        (rpc.LIST_RUNS, questions.list_runs),
        (rpc.RUN_TREE, questions.tree),
        (rpc.LIST_GATES, questions.list_gates),
        *more,
    )
    stops = [await bus.subscribe_fairly((method.subject,), answer, _limits(method)) for method, answer in answers]

    async def stop() -> None:
        for each in stops:
            await each()

    return stop


def _limits(method: rpc.RpcMethod) -> FairQueueLimits:
    return FairQueueLimits(
        caller_of=lambda _: "",
        caller_in=project_of,
        max_waiting=WAITING,
        max_share=WAITING_SHARE,
        max_concurrent=OPEN,
        max_concurrent_of=lambda _: OPEN_OF_ONE,
        max_wait_s=WAIT_S,
        repeatable=method.repeatable,
    )

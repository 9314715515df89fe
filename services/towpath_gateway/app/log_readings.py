"""Reads logs and large results for answers: few at once, of each project fewer, and none for who does not take them.

A log may have hundreds of megabytes, and twenty times that as objects. So what an answer says of it is taken from one
page after the other, and no page is kept. One of a single page needs the turn of a page alone. Every few entries are
taken, and every part of an answer written, on their own, so that other requests are served between two of them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_fabric.clock import monotonic
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_gateway.adapters.platform_client import PAGE, PlatformClient

PAGES = 6
PAGES_OF_PROJECT = 3
"""Pages that are asked for and parsed at once: parsing one holds the process for some milliseconds."""

WHOLE = 4
WHOLE_OF_PROJECT = 2
"""Logs of more than a page, and large results, that are held at once."""

WAIT_S = 10.0
"""How long a request waits for its turn: less than what clients wait for a first byte."""

UNREAD_BYTES = 64 * 1024 * 1024
"""While so much waits for a project's clients to take it, nothing large is read for it."""

PIECE_BYTES = 256 * 1024
"""An answer is handed to its connection in pieces of this size, each once the one before has nearly gone."""

FEW = 8
LONG_PAGE_S = 0.03
"""Who reads a long log begins with few entries, and asks for twice as many as long as a page takes less than this."""

MAX_PAUSE_S = 0.25
"""Who reads a long log rests after a page for as long as it took, so that half of the time is for other requests."""

TAKING_S = 0.01
"""How long entries are read without a pause: a result of 64 KiB may take as long."""

FULL = "project_share_full"


class ReadsEntries(Protocol):
    """What is made of a log: it takes its entries one after the other."""

    def take(self, entry: LogEntry) -> None:
        """Read one more entry."""


class LogReadings:
    """The turns of all projects, and what waits to be sent to their clients."""

    def __init__(self, platform: PlatformClient) -> None:
        self._platform = platform
        self._pages = WorkTurns(PAGES, lambda _: PAGES_OF_PROJECT, WAIT_S, FULL)
        self._whole = WorkTurns(WHOLE, lambda _: WHOLE_OF_PROJECT, WAIT_S, FULL)
        self.unread: Counter[str] = Counter()

    async def page(self, project: str, run_id: UUID, after: int, limit: int, wait_ms: int = 0) -> EventPage:
        """Return events after seq *after*; who waits for news holds no turn, and what is new then is short."""
        async with self._pages.held(project):
            page = await self._platform.page(project, run_id, after, limit)
        if page.entries or not wait_ms or page.status in FINAL_STATUSES:
            return page
        return await self._platform.page(project, run_id, after, limit, wait_ms)

    @asynccontextmanager
    async def log(self, project: str, run_id: UUID, *readers: ReadsEntries) -> AsyncIterator[None]:
        """Let *readers* take the whole log of a run, with the turn that it needs until its answer is made."""
        self._refuse_who_reads_nothing(project)
        page = await self.page(project, run_id, 0, PAGE)
        if _is_whole(page):
            await _take(page, readers)
            yield
            return
        async with self._whole.held(project):
            await _take(page, readers)
            limit = FEW
            while not _is_whole(page):
                began = time.thread_time()
                page = await self._platform.page(project, run_id, page.entries[-1].seq, limit)
                await _take(page, readers)
                took = time.thread_time() - began
                limit = max(1, len(page.entries) // 2) if took > LONG_PAGE_S else min(PAGE, 2 * limit)
                await asyncio.sleep(min(MAX_PAUSE_S, took))
            yield

    @asynccontextmanager
    async def blob(self, project: str, run_id: UUID, digest: str) -> AsyncIterator[bytes]:
        """Give a blob that an event of the run names, likewise."""
        self._refuse_who_reads_nothing(project)
        async with self._whole.held(project):
            yield await self._platform.blob(project, run_id, digest)

    def answer(
        self,
        project: str,
        parts: list[bytes],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ) -> Response:
        """Return the answer in *parts*, which counts as unread until it has gone."""
        return _PiecedAnswer(self.unread, project, parts, status, headers, media_type)

    def _refuse_who_reads_nothing(self, project: str) -> None:
        if self.unread[project] >= UNREAD_BYTES:
            detail = f"{self.unread[project]} bytes of answers wait to be taken"
            raise ProblemError(problem(FULL, detail, retry_after_s=2))


def _is_whole(page: EventPage) -> bool:
    return not page.entries or page.entries[-1].seq >= page.seq


async def _take(page: EventPage, readers: Sequence[ReadsEntries]) -> None:
    """Give *readers* the entries of a page; what comes of a large one takes milliseconds, so others come between."""
    since = monotonic()
    for entry in page.entries:
        for reader in readers:
            reader.take(entry)
        if monotonic() - since > TAKING_S:
            await asyncio.sleep(0)
            since = monotonic()
    await asyncio.sleep(0)


async def json_parts(message: BaseModel, written: Mapping[str, bytes] | None = None) -> list[bytes]:
    """Return the JSON of *message*, whose long lists are written in steps; *written* fields are JSON already."""
    parts: list[bytes] = []
    step = 0
    for name, value in message:
        parts.append((b"," if parts else b"{") + to_json(name) + b":")
        if written is not None and name in written:
            parts.append(written[name])
        elif isinstance(value, tuple):
            parts.append(b"[")
            for place, one in enumerate(value):
                parts.append((b"," if place else b"") + to_json(one, inf_nan_mode="constants"))
                step += len(parts[-1])
                if step > PIECE_BYTES:
                    step = 0
                    await asyncio.sleep(0)
            parts.append(b"]")
        else:
            parts.append(to_json(value, inf_nan_mode="constants"))
    parts.append(b"}" if parts else b"{}")
    return parts


class _PiecedAnswer(Response):
    def __init__(
        self,
        unread: Counter[str],
        project: str,
        parts: list[bytes],
        status: int,
        headers: Mapping[str, str] | None,
        media_type: str,
    ) -> None:
        super().__init__(status_code=status, headers=headers, media_type=media_type)
        self._unread = unread
        self._project = project
        self._parts = parts
        self._size = sum(map(len, parts))
        self.headers["content-length"] = str(self._size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._unread[self._project] += self._size
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            held: list[bytes] = []
            size = 0
            for part in self._parts:
                for start in range(0, len(part), PIECE_BYTES):
                    piece = part[start : start + PIECE_BYTES]
                    held.append(piece)
                    size += len(piece)
                    if size >= PIECE_BYTES:
                        await send({"type": "http.response.body", "body": b"".join(held), "more_body": True})
                        held, size = [], 0
            await send({"type": "http.response.body", "body": b"".join(held), "more_body": False})
        finally:
            self._unread[self._project] -= self._size
            if not self._unread[self._project]:
                del self._unread[self._project]

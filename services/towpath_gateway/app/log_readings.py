"""Reads logs and large results for answers: few at once, of each project fewer, and none for who does not take them.

A log may have hundreds of megabytes, all of which becomes objects of this process, and then the text of an answer. One
of a single page needs the turn of a page alone. Every page is read, and every part of an answer written, on its own, so
that other requests are served between two of them.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
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

FULL = "project_share_full"


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
    async def log(self, project: str, run_id: UUID) -> AsyncIterator[list[LogEntry]]:
        """Give the whole log of a run, with the turn that it needs until its answer is made."""
        self._refuse_who_reads_nothing(project)
        page = await self.page(project, run_id, 0, PAGE)
        first = list(page.entries)
        if not first or first[-1].seq >= page.seq:
            yield first
            return
        async with self._whole.held(project):
            yield await self._platform.events(project, run_id, first)

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

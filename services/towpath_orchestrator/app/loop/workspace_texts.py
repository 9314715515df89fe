"""Texts of workspaces on their way between blobs and the run machine.

A text is stored before the transition whose events name it, and what a call reads comes in with its fact, which is
stored as it was folded: a replay needs no blob. How large a text is, the stored one says and no worker; one fact loads
no more than a workspace may hold. Runs that use no files cost nothing here.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from towpath_contracts.facts import AnyFact, ToolFinished, ToolPermitted
from towpath_contracts.tools.workspace import MAX_WORKSPACE_BYTES, ChangesLost
from towpath_engine.handlers.calls.internal_tools import digests_for
from towpath_engine.requests.effects import Effect, StoreText
from towpath_engine.state.run import RunState
from towpath_fabric.ports import Database
from towpath_orchestrator.adapters.run_store import QUERIES, Moved, RunTables
from towpath_orchestrator.app.loop.inbox import Item

MAX_SHOWN = 256
"""Characters of a path that is told back."""

MAX_CACHED_CHARS = 8_000_000
"""Of texts in memory: eight full workspaces."""


class Desks:
    """Loads what calls read, and stores what they wrote."""

    def __init__(self, pool: Database, tables: RunTables) -> None:
        self._pool = pool
        self._tables = tables
        self._texts: dict[tuple[str, str], str] = {}
        self._chars = 0

    async def fill(self, states: Mapping[UUID, RunState], facts: Mapping[UUID, Sequence[Item]]) -> None:
        """Give every permitted call the texts that it reads, and every change of files its size, as they are stored."""
        for run_id, items in facts.items():
            state = states.get(run_id)
            for item in items:
                if state is None:
                    continue
                if isinstance(item.fact, ToolPermitted):
                    await self._fill(state, item, item.fact)
                elif isinstance(item.fact, ToolFinished) and item.fact.changes:
                    await self._measure(state, item, item.fact)

    async def _fill(self, state: RunState, item: Item, fact: ToolPermitted) -> None:
        project = state.created.project
        wanted = digests_for(state, fact)
        missing = [digest for digest in wanted if (project, digest) not in self._texts]
        if missing:
            rows = await self._pool.fetch(QUERIES.texts, project, missing, MAX_WORKSPACE_BYTES)
            for row in rows:
                whole = bytes(row["data"]).decode("utf-8", "replace")  # a worker may have stored anything
                self._remember(project, row["digest"], whole)
        found = {digest: text for digest in wanted if (text := self._texts.get((project, digest))) is not None}
        _with_contents(item, fact, found)

    async def _measure(self, state: RunState, item: Item, fact: ToolFinished) -> None:
        """Put the sizes of what is stored in the place of a worker's word; the run refuses what is too large."""
        wanted = sorted({change.digest for change in fact.changes if change.digest is not None})
        rows = await self._pool.fetch(QUERIES.text_sizes, state.created.project, wanted) if wanted else []
        sizes = {row["digest"]: row["size"] for row in rows}
        gone = next((c for c in fact.changes if c.digest is not None and c.digest not in sizes), None)
        if gone is not None:
            lost = ChangesLost(code="content_missing", path=gone.path[:MAX_SHOWN])
            _replace(item, fact.model_copy(update={"changes": (), "changes_lost": lost}))
            return
        measured = tuple(c.model_copy(update={"size": sizes.get(c.digest or "", 0)}) for c in fact.changes)
        _replace(item, fact.model_copy(update={"changes": measured}))

    @staticmethod
    def add_new(item: Item, stored: Mapping[str, str]) -> None:
        """Give a permitted call also what calls before it have written in the same transition."""
        if stored and isinstance(item.fact, ToolPermitted):
            _with_contents(item, item.fact, {**item.fact.contents, **stored})

    async def keep(self, batch: Sequence[Moved]) -> None:
        """Store the texts that the events of *batch* name."""
        for moved in batch:
            project = moved.state.created.project
            await self._tables.store_texts(project, moved.stored)
            for digest, text in moved.stored.items():
                self._remember(project, digest, text)

    def _remember(self, project: str, digest: str, text: str) -> None:
        before = self._texts.pop((project, digest), "")
        self._texts[project, digest] = text
        self._chars += len(text) - len(before)
        while self._chars > MAX_CACHED_CHARS and len(self._texts) > 1:
            self._chars -= len(self._texts.pop(next(iter(self._texts))))


def texts_of(effects: Iterable[Effect]) -> dict[str, str]:
    """Return the texts that a transition wants stored, by digest."""
    return {e.message.digest: e.message.text for e in effects if isinstance(e.message, StoreText)}


def _with_contents(item: Item, fact: ToolPermitted, contents: dict[str, str]) -> None:
    _replace(item, fact.model_copy(update={"contents": contents}))


def _replace(item: Item, fact: AnyFact) -> None:
    item.fact = fact
    item.text = fact.model_dump_json()

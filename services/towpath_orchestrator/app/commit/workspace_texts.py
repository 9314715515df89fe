"""Texts of workspaces on their way between blobs and the engine.

A text is stored before the transition whose events name it. What a call reads comes in with its fact, which is stored
as it was folded: a replay needs no blob. The size of a text is that of the stored one, whatever a worker reports; one
fact loads no more than a workspace may hold. Runs that use no files cost nothing here.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from towpath_contracts.facts import InternalToolPermittedFact, ToolFinishedFact
from towpath_contracts.tools.workspace import MAX_WORKSPACE_BYTES, LostChangesReason
from towpath_engine.handlers.calls.internal_tools import digests_for
from towpath_engine.state.run import RunState
from towpath_fabric.ports import Database
from towpath_orchestrator.adapters.run_store import QUERIES, RunStore
from towpath_orchestrator.adapters.storable_text import storable
from towpath_orchestrator.app.commit.inbox import InboxFact
from towpath_orchestrator.core.transitions import Transition

MAX_SHOWN = 256
"""Characters of a path that are repeated."""

MAX_CACHED_CHARS = 8_000_000
"""Of texts in memory: eight full workspaces."""


class WorkspaceTextStore:
    """Loads what calls read, and stores what they wrote."""

    def __init__(self, pool: Database, store: RunStore) -> None:
        self._pool = pool
        self._store = store
        self._texts: dict[tuple[str, str], str] = {}
        self._chars = 0

    async def load(self, states: Mapping[UUID, RunState], facts: Mapping[UUID, Sequence[InboxFact]]) -> None:
        """Give every permitted call the texts that it reads, and every change of files its size, as they are stored."""
        for run_id, items in facts.items():
            state = states.get(run_id)
            for item in items:
                if state is None:
                    continue
                if isinstance(item.fact, InternalToolPermittedFact):
                    await self._load_contents(state, item, item.fact)
                elif isinstance(item.fact, ToolFinishedFact) and item.fact.changes:
                    await self._measure(state, item, item.fact)

    async def _load_contents(self, state: RunState, item: InboxFact, fact: InternalToolPermittedFact) -> None:
        project = state.created.project
        wanted = digests_for(state, fact)
        missing = [digest for digest in wanted if (project, digest) not in self._texts]
        if missing:
            rows = await self._pool.fetch(QUERIES.texts, project, missing, MAX_WORKSPACE_BYTES)
            for row in rows:
                whole = bytes(row["data"]).decode("utf-8", "replace")  # a worker may have stored anything
                self._remember(project, row["digest"], whole)
        found = {digest: text for digest in wanted if (text := self._texts.get((project, digest))) is not None}
        item.replace_fact(fact.model_copy(update={"contents": found}))

    async def _measure(self, state: RunState, item: InboxFact, fact: ToolFinishedFact) -> None:
        """Put the sizes of what is stored in the place of what a worker reported; the run refuses what is too large."""
        named = {change.digest for change in fact.changes if change.digest is not None}
        wanted = sorted(
            digest for digest in named if storable(digest) == digest
        )  # a query for another ends the process
        rows = await self._pool.fetch(QUERIES.text_sizes, state.created.project, wanted) if wanted else []
        sizes = {row["digest"]: row["size"] for row in rows}
        gone = next((c for c in fact.changes if c.digest is not None and c.digest not in sizes), None)
        if gone is not None:
            lost = LostChangesReason(code="content_missing", path=gone.path[:MAX_SHOWN])
            item.replace_fact(fact.model_copy(update={"changes": (), "changes_lost": lost}))
            return
        measured = tuple(c.model_copy(update={"size": sizes.get(c.digest or "", 0)}) for c in fact.changes)
        item.replace_fact(fact.model_copy(update={"changes": measured}))

    async def store(self, batch: Sequence[Transition]) -> None:
        """Store the texts that the events of *batch* name."""
        for transition in batch:
            project = transition.state.created.project
            await self._store.store_texts(project, transition.stored)
            for digest, text in transition.stored.items():
                self._remember(project, digest, text)

    def _remember(self, project: str, digest: str, text: str) -> None:
        before = self._texts.pop((project, digest), "")
        self._texts[project, digest] = text
        self._chars += len(text) - len(before)
        while self._chars > MAX_CACHED_CHARS and len(self._texts) > 1:
            self._chars -= len(self._texts.pop(next(iter(self._texts))))

"""Answers which grant past runs of a network would have needed.

The work is bounded: so many runs are looked at, however many there are, and tool access counts the calls of those. Both
ask only about the project of the request.
"""

import json
from datetime import datetime
from uuid import UUID

from towpath_contracts.grant_proposals.proposals import CountUsedTools, GetGrantFromRuns, GrantProposal, UsedTools
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.rpc import CHECK_GRANT, COUNT_USED_TOOLS
from towpath_contracts.tools.access import CheckGrant, GrantChecked
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.postgres.pool import Queries
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.app.api.network_registry import NetworkRegistry
from towpath_orchestrator.core.run_grants import CompletedRuns, destinations, grant_of_runs

QUERIES = Queries.load("towpath_orchestrator.adapters", "grants.sql")

MAX_LOOKED = 50_000
"""Runs of the project, newest first, that are looked at to find those of the network."""

MAX_ROOTS = 1_000
"""Completed runs that are read: shares of a few percent are known well enough."""

MAX_BELOW = 64
"""Runs below each of them: the largest tree of a plan."""

MAX_RUNS = 8_000
"""Runs in one question to tool access, which is one message."""

COUNT_TIMEOUT_S = 20.0
"""How long tool access may take to count."""


class GrantHistory:
    """Reads the completed runs of a network."""

    def __init__(self, pool: Database, store: RunStore, bus: MessageBus, registry: NetworkRegistry) -> None:
        self._pool = pool
        self._store = store
        self._bus = bus
        self._registry = registry

    async def propose(self, request: GetGrantFromRuns) -> GrantProposal:
        """Return a grant of the tools that completed runs have used; raises ProblemError where nothing is to be said.

        It is for the current version of the network, whatever versions the runs were of.
        """
        version = await self._registry.find(request.project, request.network, None)
        snapshot = await self._store.snapshot(version.digest)
        read = await self._completed(request)
        asked = CountUsedTools(
            project=request.project,
            roots=tuple(root for root, _ in read.pairs),
            runs=tuple(run_id for _, run_id in read.pairs),
            sinks=destinations(snapshot) if request.tight else (),
        )
        used: UsedTools = UsedTools(tools=())
        if read.roots:
            used = await self._bus.request(COUNT_USED_TOOLS, asked, COUNT_TIMEOUT_S)
        proposal = grant_of_runs(request, snapshot, version.version, read, used)
        await self._check_conditions(request.project, proposal)
        return proposal

    async def _completed(self, request: GetGrantFromRuns) -> CompletedRuns:
        label = None
        if request.label is not None:
            key, _, value = request.label.partition("=")
            label = json.dumps({key: value})
        asked = (request.project, _first_id(request.since), request.network, label)
        rows = await self._pool.fetch(QUERIES.completed_runs, *asked, MAX_ROOTS, MAX_LOOKED, MAX_BELOW)
        complete = len(rows) < MAX_ROOTS and all(
            row["looked"] < MAX_LOOKED and len(row["run_ids"]) < MAX_BELOW for row in rows
        )
        pairs: list[tuple[UUID, UUID]] = []
        roots: list[UUID] = []
        for row in rows:
            tree = (row["root"], *row["run_ids"])
            if len(pairs) + len(tree) > MAX_RUNS:
                complete = False
                break
            roots.append(row["root"])
            pairs += [(row["root"], run_id) for run_id in tree]
        return CompletedRuns(roots=tuple(roots), pairs=tuple(pairs), complete=complete)

    async def _check_conditions(self, project: str, proposal: GrantProposal) -> None:
        """Refuse a proposal with a condition that could not be submitted: values of past calls may hold anything."""
        if all(rule.when is None for rule in proposal.grant):
            return
        grant = tuple(rule.model_dump(mode="json") for rule in proposal.grant)
        checked: GrantChecked = await self._bus.request(CHECK_GRANT, CheckGrant(project=project, grant=grant))
        if checked.problems:
            detail = f"a destination of past calls can't be written as a condition: {checked.problems[0].detail}"
            remedy = "Ask without tight, and write the condition by hand."
            raise ProblemError(problem("grant_not_proposed", detail, errors=checked.problems, remedy=remedy))


def _first_id(since: datetime) -> UUID:
    """Return the lowest id of a run that began at *since*: ids of runs sort by time."""
    return UUID(int=max(0, int(since.timestamp() * 1_000)) << 80)

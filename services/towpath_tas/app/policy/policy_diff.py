"""Compares recorded decisions with a proposed matrix (`policy diff`).

A comparison must not slow down live calls. It runs in pieces of bounded time, one at a time in turns of projects. Calls
are read a few at a time in the order of the audit, and evaluated in a thread that pauses after every few.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.policy import DiffPermissions, DiffPolicy, PermissionChange, PermissionsDiff, PolicyImpact
from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.pool import Queries
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.adapters.ledger_tables import QUERIES, call_from_row
from towpath_tas.adapters.policy_texts import read_policy_text
from towpath_tas.app.policy.policy_threads import PolicyThreads
from towpath_tas.app.policy.policy_warnings import MAX_NETWORKS
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.permission_comparison import permission_changes
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix
from towpath_tas.core.policy_comparison import PolicyDiffBuilder, RecordedAuthorization, without_limits
from towpath_tas.core.teams import agents_of, delegates_in

HISTORY = Queries.load("towpath_tas.adapters", "history.sql")

CHUNK_CALLS = 200
"""Calls read at once: with the largest arguments they are 50 MB; usual ones are read in a few ms."""

PIECE_S = 2.0
"""A piece is returned after this long, whatever its limit: clients wait five seconds at most."""

MIN_SPAN, MAX_SPAN = 2_000, 64_000
"""Entries scanned for one chunk. It grows while entries of other projects lie between a project's own."""

CALLS_BETWEEN_PAUSES = 20
PAUSE_S = 0.000_5
"""The thread pauses after so many calls (a millisecond's work), so that the event loop can run."""

ID_TIME_SLACK = timedelta(minutes=5)
"""Ids follow time only to within the length of a commit and the adjustments of a clock."""

MAX_CELLS = 1_000
"""Changed cells in one answer: people look at the first, and count the others."""

MAX_CELL_BYTES = 600_000
"""Of changed cells in one answer, which is one message: each names up to twenty rules."""

MAX_CACHED_MATRICES = 4
"""Proposed matrices kept compiled between the pieces of their diffs."""


class PolicyDiffRequests:
    """Compares recorded decisions with policies that are not in force."""

    def __init__(self, pool: Any, policy_cache: PolicyCache, threads: PolicyThreads) -> None:
        self._pool = pool
        self._policy_cache = policy_cache
        self._proposed: OrderedDict[str, Matrix] = OrderedDict()
        self._threads = threads

    async def diff(self, request: DiffPolicy) -> PolicyImpact:
        """Return one piece of what the proposed policy decides differently; raises ProblemError `policy_invalid`."""
        matrix = await self._matrix(request.project, request.text)
        async with self._threads.diffs.turn(request.project):
            after, last = await self._bounds(request)
            bundle = await self._policy_cache.current(self._pool, request.project)
            comparison = PolicyDiffBuilder(matrix, bundle.registry.specs())
            until = monotonic() + PIECE_S
            left, span = request.limit, MIN_SPAN
            while after < last and left > 0 and monotonic() < until:
                upper = min(after + span, last)
                most = min(CHUNK_CALLS, left)
                window = (request.since, request.until)
                rows = await self._pool.fetch(HISTORY.decisions, request.project, after, upper, *window, most)
                await self._threads.diffs.compute(partial(_compare, rows, comparison))
                full = len(rows) == most
                after = rows[-1]["decision"] if full else upper
                span = MIN_SPAN if full else min(span * 2, MAX_SPAN)
                left -= len(rows)
            groups = await self._threads.diffs.compute(comparison.groups)
        return PolicyImpact(
            version=bundle.matrix.version,
            calls=comparison.calls,
            groups=groups,
            left_out=dict(comparison.left_out),
            next_after=after if after < last else None,
            last=last,
        )

    async def permissions(self, request: DiffPermissions) -> PermissionsDiff:
        """Return the cells of all published networks that the proposed policy changes; raises ProblemError."""
        matrix = await self._matrix(request.project, request.text)
        async with self._threads.diffs.turn(request.project):
            bundle = await self._policy_cache.current(self._pool, request.project)
            published = await self._pool.fetch(QUERIES.network_versions, request.project, MAX_NETWORKS)
            names = [row["network"] for row in published]
            networks = await self._pool.fetch(QUERIES.network_specs, request.project, names)
            return await self._threads.diffs.compute(partial(_cells, request.project, bundle, matrix, networks))

    async def _matrix(self, project: str, text: str) -> Matrix:
        key = digest_text(text)
        found = self._proposed.pop(key, None)
        if found is None:
            found = await self._threads.texts.run(project, partial(_compile, text))
            while len(self._proposed) >= MAX_CACHED_MATRICES:
                self._proposed.popitem(last=False)
        self._proposed[key] = found
        return found

    async def _bounds(self, request: DiffPolicy) -> tuple[int, int]:
        """Return the entries to scan: after the first number, up to the second. The first piece fixes them."""
        if request.after is not None and request.last is not None:
            return request.after, request.last
        last = await self._pool.fetchval(HISTORY.last_entry)
        if request.until is not None:
            last = min(last, await entry_at(self._pool, request.until, ID_TIME_SLACK) - 1)
        after = 0 if request.since is None else await entry_at(self._pool, request.since, -ID_TIME_SLACK) - 1
        return after, last


async def entry_at(pool: Any, moment: datetime, slack: timedelta) -> int:
    """Return the id of the first audit entry that is not older than *moment* plus *slack*."""
    found: int = await pool.fetchval(HISTORY.entry_at, shifted(moment, slack))
    return found


def shifted(moment: datetime, by: timedelta) -> datetime:
    """Return *moment* plus *by*, or *moment* at the ends of the calendar."""
    try:
        return moment + by
    except OverflowError:
        return moment


def _cells(project: str, bundle: ProjectAuthorizer, matrix: Matrix, networks: Sequence[Any]) -> PermissionsDiff:
    """Compare network by network, until that takes too long for one answer."""
    registered = [tool.spec for tool in bundle.registry.tools.values()]
    found: list[PermissionChange] = []
    until, agents, done = monotonic() + PIECE_S, 0, 0
    for row in networks:
        if monotonic() > until:
            break
        for agent in agents_of(row["spec"]):
            principal = CallPrincipal(row["network"], agent.key, agent.kind, "*", project)
            tools = (*registered, *delegates_in(row["spec"], agent.key))
            found += permission_changes(principal, tools, bundle.matrix, matrix)
            agents += 1
            time.sleep(PAUSE_S)
        done += 1
    changes = first_changes(found)
    return PermissionsDiff(
        version=bundle.matrix.version,
        agents=agents,
        changes=changes,
        more=len(found) - len(changes),
        left_out=len(networks) - done,
    )


def first_changes(found: Sequence[PermissionChange]) -> tuple[PermissionChange, ...]:
    """Return as many of the changed cells as one answer holds."""
    room = MAX_CELL_BYTES
    for place, change in enumerate(found[:MAX_CELLS]):
        room -= len(change.model_dump_json().encode())
        if room < 0:
            return tuple(found[:place])
    return tuple(found[:MAX_CELLS])


def _compile(text: str) -> Matrix:
    found = read_policy_text(text).read
    if found.problems:
        raise ProblemError(problem("policy_invalid", tell_faults(found.problems), errors=found.problems))
    return without_limits(found.rules, compile_condition)


def _compare(rows: Sequence[Any], comparison: PolicyDiffBuilder) -> None:
    for number, row in enumerate(rows):
        if not row["repeated"]:
            comparison.add(_recorded_decision(row))
        if number % CALLS_BETWEEN_PAUSES == CALLS_BETWEEN_PAUSES - 1:
            time.sleep(PAUSE_S)


def _recorded_decision(row: Any) -> RecordedAuthorization:
    return RecordedAuthorization(
        call=None if row["execution_id"] is None else call_from_row(row),
        at=row["decided_at"],
        verdict=row["decided_verdict"],
        rule=row["decided_rule"],
        policy_version=row["decided_version"],
    )

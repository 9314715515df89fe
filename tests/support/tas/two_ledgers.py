"""The same words to two ledgers, Postgres and the simulation's tables: whatever one answers, the other must answer."""

import random
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import asyncpg
from tests.simulation.coverage import Coverage as Noticed
from tests.simulation.outside.clock import SimProcess
from tests.simulation.outside.database import BEGAN, Database, Pool

from towpath_contracts.tools.access import FencedCalls, RaiseFence
from towpath_fabric.clock import wall
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_tas.adapters.ledger_tables import (
    AuthorizationVersions,
    LedgerReadResult,
    LimitUse,
    change_calls,
    open_calls,
    read_calls,
    read_counts,
    read_rates,
)
from towpath_tas.app.calls.ledger_commands import LedgerCommands
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.policy.matrix import RateLimit
from towpath_testing.tables.ledger_rows import LedgerRows
from towpath_testing.tables.run_rows import RunRows

PROJECT = "default"


class Silent:
    """A sender that sends nothing."""

    async def send(self, _step: LedgerChange) -> None:
        return


def _seconds() -> float:
    return (wall() - BEGAN).total_seconds()


def memory() -> tuple[Any, RunRows, LedgerRows]:
    """Return a pool on tables in memory, whose clock is this machine's."""
    clock: Any = SimpleNamespace(time=_seconds)
    database = Database(clock, random.Random(1), Noticed())
    database.hop_s = lambda: 0.0  # type: ignore[method-assign]
    runs = RunRows(database)
    return Pool(database, SimProcess("test")), runs, LedgerRows(database, runs)


class TwoLedgers:
    """Both, asked side by side."""

    def __init__(self, postgres: "asyncpg.Pool[Any]") -> None:
        self.postgres = postgres
        self.pool, _, self.tables = memory()
        self.lanes = (PinnedDatabaseConnection(postgres), PinnedDatabaseConnection(self.pool))
        nothing: Any = Silent()
        unused: Any = None
        self.settlings = (LedgerCommands(postgres, unused, nothing), LedgerCommands(self.pool, unused, nothing))

    async def clear(self) -> None:
        """Begin with nothing but version 1 of the rules."""
        tables = (
            "tas.tool_call, tas.approval_vote, tas.approval, tas.fence, tas.rule_count, tas.rate_count, "
            "tas.project_state, tas.audit_record, tas.audit_payload, tas.audit_unsealed"
        )
        await self.postgres.execute(f"TRUNCATE {tables}")
        await self.set_version(1)

    async def set_version(self, version: int) -> None:
        """Move the version of the policy."""
        await self.postgres.execute(
            "INSERT INTO tas.project_state VALUES ($1, $2, 1)"
            " ON CONFLICT (project) DO UPDATE SET policy_version = excluded.policy_version",
            *(PROJECT, version),
        )
        self.tables.versions[PROJECT] = (version, 1)

    async def read(self, run_id: UUID, execution_id: UUID) -> LedgerReadResult:
        """Read a call from both; they must agree on everything but the time."""
        key = (run_id, execution_id)
        real, simulated = [(await read_calls(lane, [key]))[execution_id] for lane in self.lanes]
        assert (real.call, real.approval, real.fence) == (simulated.call, simulated.approval, simulated.fence)
        return real

    async def used(self, run_id: UUID, rule: str) -> int:
        """Read a counter from both."""
        real, simulated = [await read_counts(lane, [(run_id, rule)]) for lane in self.lanes]
        assert real == simulated
        return real[run_id, rule]

    async def rated(self, rate: RateLimit) -> int:
        """Read what is used of a rate from both."""
        real, simulated = [await read_rates(lane, [(PROJECT, rate)]) for lane in self.lanes]
        assert real == simulated
        return real[PROJECT, rate.rule]

    async def write(
        self, steps: list[LedgerChange], version: int, bases: dict[tuple[UUID, str], int]
    ) -> frozenset[UUID]:
        """Store steps in both; they must store the same ones."""
        seen = [AuthorizationVersions(PROJECT, version, 1)]
        fresh = [step for step in steps if step.call is not None and step.call.revision == 1]
        others = [step for step in steps if step not in fresh]
        counts = [
            LimitUse(step.call.run_id, rule, step.call.execution_id, bases.get((step.call.run_id, rule), 0))
            for step in fresh
            if step.call is not None
            for rule in step.counted
        ]
        counts += [
            LimitUse(step.call.run_id, rate.rule, step.call.execution_id, 0, PROJECT, rate.per_s, rate.calls)
            for step in fresh
            if step.call is not None
            for rate in step.rated
        ]
        written: frozenset[UUID] = frozenset()
        if fresh:
            both = [await open_calls(lane, fresh, counts, seen) for lane in self.lanes]
            written |= self._same(both)
        if others:
            deciding = seen if any(step.policy_bound for step in others) else []
            both = [await change_calls(lane, others, deciding) for lane in self.lanes]
            written |= self._same(both)
        return written

    @staticmethod
    def _same(both: list[Any]) -> frozenset[UUID]:
        real, simulated = both
        assert (real.calls, real.stale) == (simulated.calls, simulated.stale)
        return frozenset(real.calls)

    async def fence(self, run_id: UUID, fence: int) -> FencedCalls:
        """Raise a fence in both."""
        said = RaiseFence(run_id=run_id, project=PROJECT, fence=fence, reason="cancelled")
        real, simulated = [await settling.raise_fence(said) for settling in self.settlings]
        assert real == simulated
        return real

    async def audit(self) -> list[tuple[Any, ...]]:
        """Read what the audit says, in order; both must say the same."""
        names = ("execution_id", "phase", "verdict", "rule", "policy_version", "actor", "detail")
        rows = await self.postgres.fetch(f"SELECT {', '.join(names)} FROM tas.audit_entry ORDER BY entry_id")
        real = [tuple(row) for row in rows]
        simulated = [tuple(note[name] for name in names) for note in self.tables.audit]
        assert sorted(real, key=repr) == sorted(simulated, key=repr)
        return real

    @staticmethod
    def now() -> datetime:
        """The time of both."""
        return wall()

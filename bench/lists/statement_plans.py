"""What a database does for an answer: each statement that was asked, with its plan as it was executed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS OFF, FORMAT JSON) "


class ExecutedPlan(NamedTuple):
    """How long a statement took, which tables it read whole, and how many rows it looked at to find its own."""

    statement: str
    ms: float
    whole: tuple[str, ...]
    looked_at: int


class RecordingPool:
    """A pool, or a connection of it, that remembers what it was asked."""

    def __init__(self, pool: Any, asked: list[tuple[str, tuple[Any, ...]]] | None = None) -> None:
        self.pool = pool
        self.asked = [] if asked is None else asked

    async def fetch(self, statement: str, *values: Any) -> Any:
        self.asked.append((statement, values))
        return await self.pool.fetch(statement, *values)

    async def fetchrow(self, statement: str, *values: Any) -> Any:
        self.asked.append((statement, values))
        return await self.pool.fetchrow(statement, *values)

    async def fetchval(self, statement: str, *values: Any) -> Any:
        self.asked.append((statement, values))
        return await self.pool.fetchval(statement, *values)

    async def execute(self, statement: str, *values: Any) -> Any:
        return await self.pool.execute(statement, *values)

    def transaction(self, **options: Any) -> Any:
        return self.pool.transaction(**options)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator["RecordingPool"]:
        async with self.pool.acquire() as connection:
            yield RecordingPool(connection, self.asked)


async def plan_of(pool: RecordingPool, statement: str, values: tuple[Any, ...]) -> ExecutedPlan:
    """Execute *statement* once more, by the plan that sessions of the service have for any values."""
    plan = await _plan(pool, f"{EXPLAIN} EXECUTE", statement, values)
    looked_at = sum(
        (part["Actual Rows"] + part.get("Rows Removed by Filter", 0) + part.get("Rows Removed by Index Recheck", 0))
        * part["Actual Loops"]
        for part in _parts_of(plan["Plan"])
        if "Relation Name" in part
    )
    return ExecutedPlan(statement, plan["Execution Time"], _read_whole(plan), int(looked_at))


async def tables_read_whole(pool: RecordingPool, statement: str) -> tuple[str, ...]:
    """Return the tables that the plan of *statement* for any values reads from one end to the other."""
    return _read_whole(await _plan(pool, "EXPLAIN (FORMAT JSON) EXECUTE", statement, None))


async def _plan(pool: RecordingPool, words: str, statement: str, values: tuple[Any, ...] | None) -> dict[str, Any]:
    async with pool.pool.acquire() as session:
        types = [_name_of(one) for one in (await session.prepare(statement)).get_parameters()]
        texts = [f"quote_nullable(${place}::{name}::text)" for place, name in enumerate(types, start=1)]
        given = [None] * len(types) if values is None else values
        literals = await session.fetchrow(f"SELECT {', '.join(texts)}", *given) if types else ()
        await session.execute(f"PREPARE bench_statement AS {statement}")
        try:
            said = f"({', '.join(literals)})" if types else ""
            text = await session.fetchval(f"{words} bench_statement{said}")
        finally:
            await session.execute("DEALLOCATE bench_statement")
    found: dict[str, Any] = json.loads(text)[0]
    return found


def _read_whole(plan: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted({part["Relation Name"] for part in _parts_of(plan["Plan"]) if part["Node Type"] == "Seq Scan"}))


def _name_of(one: Any) -> str:
    return one.name if one.schema == "pg_catalog" else f"{one.schema}.{one.name}"


def _parts_of(plan: dict[str, Any]) -> Any:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _parts_of(below)

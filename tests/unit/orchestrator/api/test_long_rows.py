"""Long rows of a log: others come in between two of them, whoever reads them, and not between short ones."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from tests.support.engine.machine import Machine, use

from towpath_contracts.runs.views import GetEvents
from towpath_engine.state.run import initial
from towpath_orchestrator.adapters.run_store import LONG_CHARS, RunStore
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.run_export import DatabaseRecord
from towpath_orchestrator.app.state_cache import RunWaiters

RUN = uuid4()
NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROWS = 20


class LongLog:
    """A database that holds one run, each event of which has *chars* characters and more."""

    def __init__(self, chars: int) -> None:
        self._text = json.dumps({"type": "note_added", "step": 1, "text": "x" * chars})

    async def fetchrow(self, *_asked: Any) -> dict[str, Any]:
        known = {"seq": ROWS, "status": "completed", "project": "default", "erased_at": None}
        return {**known, "run_id": RUN, "network": "n", "version": 1, "reason": "", "snapshot_digest": ""}

    async def fetchval(self, *_asked: Any) -> str:
        return "{}"

    async def fetch(self, *_asked: Any) -> list[dict[str, Any]]:
        return [{"seq": seq, "at": NOW, "event": self._text} for seq in range(1, ROWS + 1)]


class StoredTail:
    """A database that holds the log of one run."""

    def __init__(self, machine: Machine) -> None:
        run_id = machine.state.run_id
        self._rows = [
            {"run_id": run_id, "seq": one.seq, "at": one.at, "event": one.event.model_dump_json()}
            for one in machine.entries
        ]

    async def fetch(self, *_asked: Any) -> list[dict[str, Any]]:
        return self._rows


class Others:
    """Counts the turns that others have had since it was made."""

    def __init__(self) -> None:
        self._had = 0
        self._beside = asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        while True:
            self._had += 1
            await asyncio.sleep(0)

    def had(self) -> int:
        """Stop, and return how many there were."""
        self._beside.cancel()
        return self._had


async def page(log: LongLog) -> int:
    """Read a page of its events."""
    queries = RunQueries(log, RunWaiters(), RunWaiters())  # type: ignore[arg-type]
    return len((await queries.events(GetEvents(project="default", run_id=RUN))).entries)


async def record(log: LongLog) -> int:
    """Read its record, as a fork and a replay do."""
    opened = await DatabaseRecord.open(log, RUN, "default")
    return len([event async for event in opened.events()])


@pytest.mark.parametrize("read", [page, record])
@pytest.mark.parametrize(("chars", "turns"), [(LONG_CHARS, ROWS), (10, 0)])
async def test_others_have_a_turn_after_each_long_row(
    read: Callable[[LongLog], Awaitable[int]], chars: int, turns: int
) -> None:
    others = Others()
    assert await read(LongLog(chars)) == ROWS
    assert others.had() == turns


async def test_others_have_a_turn_after_each_long_event_that_is_folded() -> None:
    machine = Machine()
    for place in range(3):
        machine.decide(use("echo", text=f"part {place}"))
        machine.finish(result=[{}] * LONG_CHARS)
    others = Others()
    before = initial(machine.state.run_id, machine.state.snapshot)
    assert await RunStore(StoredTail(machine)).catch_up([before]) == {before.run_id: machine.state}  # type: ignore[arg-type]
    assert others.had() == 3

"""A batch of decisions that take long leaves room for other tasks, and each is made once from its own context."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry

from towpath_tas.app.calls.call_update import CallUpdate
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import SLICE_S, LedgerStore
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.core.call import LedgerChange
from towpath_tas.metrics import TasMetrics

ONE_S = 0.02


def slow_update(made: list[int], place: int) -> CallUpdate:
    def decide(_: Any) -> LedgerChange:
        until = time.thread_time() + ONE_S
        while time.thread_time() < until:
            pass
        made.append(place)
        return LedgerChange()

    context = LedgerContext(call=None, approval=None, fence=0, now=datetime.now(UTC), bundle=None)  # type: ignore[arg-type]
    return CallUpdate(run_id=uuid4(), execution_id=uuid4(), decide=decide, read=True, context=context)


async def test_others_wait_for_a_slice_and_not_for_a_batch() -> None:
    cache: Any = None
    log: Any = structlog.get_logger()
    store = LedgerStore(cache, PostgresClock(), TasMetrics(CollectorRegistry()), log, cache_calls=10)
    made: list[int] = []
    updates = [slow_update(made, place) for place in range(50)]
    gaps: list[float] = []

    async def bystander() -> None:
        while True:
            began = time.thread_time()  # another process of a busy machine holds up both
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - began)

    other = asyncio.create_task(bystander())
    assert await store._decide_all(updates) == updates
    other.cancel()
    assert made == list(range(50))
    assert len(gaps) >= 50 * ONE_S / (SLICE_S + ONE_S) / 2
    assert max(gaps) < 10 * SLICE_S

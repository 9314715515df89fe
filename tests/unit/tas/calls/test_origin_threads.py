"""Where values of a call come from is found in threads of its own: a decision waits for nobody's policy."""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry
from tests.support.shared_threads import no_shared_thread

from towpath_tas.app.calls.call_update import CallUpdate
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.policy.matrix import CallPrincipal
from towpath_tas.core.provenance.provenance import RunProvenance
from towpath_tas.metrics import TasMetrics


class ThreadNotes:
    """In place of what decides: notes in which thread the origin is looked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def asks_readers(self, query: AuthorizationQuery) -> bool:
        return query.tool == "asks"

    def with_origin(self, query: AuthorizationQuery, _known: RunProvenance) -> AuthorizationQuery:
        self.names.append(threading.current_thread().name)
        return query


async def test_the_origin_of_values_is_found_where_no_shared_thread_is_free(monkeypatch: Any) -> None:
    nothing: Any = None
    bundle: Any = ThreadNotes()
    log: Any = structlog.get_logger()
    store = LedgerStore(nothing, PostgresClock(), TasMetrics(CollectorRegistry()), log, cache_calls=10)
    known = RunProvenance()
    known.add_task("a long task " * 100_000)
    assert known.takes_long(1)
    run_id = uuid4()

    async def read(_source: Any, _wanted: Any, _readers: Any) -> dict[Any, RunProvenance]:
        return {run_id: known}

    monkeypatch.setattr(store._origins, "of", read)
    query = AuthorizationQuery(
        run_id=run_id,
        project="shop",
        principal=CallPrincipal("n", "a", "", "ann", "shop"),
        step=1,
        tool="t",
        operation="call",
        args={"a": "x"},
        args_text='{"a":"x"}',
        labels={},
    )
    context = LedgerContext(call=None, approval=None, fence=0, now=datetime.now(UTC), bundle=bundle, needs_origin=query)
    update = CallUpdate(
        run_id=run_id, execution_id=uuid4(), decide=lambda _: LedgerChange(), project="shop", read=True, context=context
    )
    async with no_shared_thread(), asyncio.timeout(60):
        assert await store._decide_with_origins(nothing, [update]) == [update]
    assert [name.partition("_")[0] for name in bundle.names] == ["origins"]

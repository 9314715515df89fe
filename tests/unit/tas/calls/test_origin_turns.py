"""Calls whose origin takes long are looked up a while for one batch, in turns; the others are given back."""

import dataclasses
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import structlog
from prometheus_client import CollectorRegistry

from towpath_fabric.clock import monotonic
from towpath_tas.app.calls.call_update import CallUpdate
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.provenance.provenance import RunProvenance
from towpath_tas.core.provenance.value_leaves import ValueSource
from towpath_tas.metrics import TasMetrics


class Bundle:
    """Notes whose origin was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def with_origin(self, query: Any, _known: RunProvenance) -> Any:
        self.asked.append(query.tool)
        return query


@dataclasses.dataclass(frozen=True)
class Query:
    """As much of a query as is read here."""

    tool: str
    args_text: str
    origin: Any = None
    call_origin: Any = None


def waiting(bundle: Bundle, project: str, times: int) -> tuple[CallUpdate, LedgerContext]:
    """Return a call of a run that has seen *times* 100,000 characters."""
    known = RunProvenance()
    for step in range(times):
        known.add_untrusted(ValueSource("t", step), "x " * 50_000)
    query: Any = Query(f"{project}{times}", "a" * 20_000)
    context = LedgerContext(call=None, approval=None, fence=0, now=datetime.now(UTC), bundle=bundle)  # type: ignore[arg-type]
    context.known, context.needs_origin = known, query
    decide: Any = LedgerChange
    return CallUpdate(run_id=uuid4(), execution_id=uuid4(), decide=decide, project=project, context=context), context


def store() -> LedgerStore:
    nothing: Any = None
    log: Any = structlog.get_logger()
    return LedgerStore(nothing, PostgresClock(), TasMetrics(CollectorRegistry()), log, cache_calls=10)


@pytest.mark.parametrize(
    ("within_s", "asked"),
    [(60.0, ["a1", "b2", "a3", "a4"]), (0.0, ["a1"])],
    ids=["all in turns, the least first", "one, when the time is over at once"],
)
async def test_projects_take_turns_while_there_is_time_and_the_rest_comes_again(
    within_s: float, asked: list[str]
) -> None:
    bundle = Bundle()
    wanting = dict(waiting(bundle, *call) for call in (("a", 4), ("a", 3), ("a", 1), ("b", 2)))
    late = await store()._find_origins(wanting, monotonic() + within_s)
    assert bundle.asked == asked
    left = [query.tool for update in late if (query := wanting[update].needs_origin) is not None]
    assert sorted(left) == sorted({"a1", "b2", "a3", "a4"} - set(asked))


def test_what_takes_longer_is_more_work() -> None:
    context = waiting(Bundle(), "a", 2)[1]
    query: AuthorizationQuery | None = context.needs_origin
    assert context.known is not None and query is not None
    assert context.known.takes_long(len(query.args_text))
    assert context.known.search_work(10) < context.known.search_work(1_000)

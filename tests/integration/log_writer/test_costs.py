"""Costs by day: each answer counted once however its event arrives, names bounded, nothing left of erased labels."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.integration.log_writer.test_erased_history import erase
from tests.integration.log_writer.test_history_writer import RUN, batches, pool, writer
from tests.support.orchestrator import run_history as h

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.costs import CostPart, CostReport, GetCosts
from towpath_log_writer.adapters import history_tables
from towpath_log_writer.adapters.history_tables import HistoryStore
from towpath_log_writer.app import history_queries
from towpath_log_writer.app.history_queries import CostQueries

__all__ = ["pool"]

SINCE = h.BEGIN.date() - timedelta(days=2)


@pytest.fixture(autouse=True)
def _at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_queries, "wall", lambda: h.BEGIN)


def labelled(run: uuid.UUID, steps: int, **labels: str) -> list[Any]:
    transitions = h.whole_run(run, steps)
    created = transitions[0][0]
    return [[created.model_copy(update={"labels": labels}), *transitions[0][1:]], *transitions[1:]]


async def report(pool: Any, by: CostPart = "network") -> CostReport:
    return await CostQueries(pool).get_costs(GetCosts(project="default", by=by, since=SINCE))


async def test_each_answer_is_counted_once_by_network_agent_model_label_caller_and_day(pool: Any) -> None:
    messages = batches(h.messages(RUN, labelled(RUN, 3, team="shop", tier="gold")))
    first, second = writer(pool), writer(pool)
    await first.add(messages[:3])
    await second.add(messages)
    await first.add(messages)
    found = {part: await report(pool, part) for part in ("network", "agent", "model", "label", "caller")}
    usd = found["network"].names[0].usd
    assert usd > 0
    for part, names in {
        "network": ["support"],
        "agent": ["support/triage"],
        "model": ["scripted:task"],
        "label": ["team=shop", "tier=gold"],
        "caller": ["ada"],
    }.items():
        assert [(one.name, one.tokens, one.model_calls, one.usd) for one in found[part].names] == [
            (name, 330, 3, usd) for name in names
        ]
    assert (found["network"].names[0].runs, found["agent"].names[0].runs) == (1, 0)
    assert [(day.tokens, day.usd, day.runs) for day in found["label"].days] == [(330, usd, 1)]
    assert (await CostQueries(pool).get_costs(GetCosts(project="bank", by="label", since=SINCE))).names == ()
    with pytest.raises(ProblemError, match="at most 92 days"):
        await CostQueries(pool).get_costs(GetCosts(project="default", by="label", since=SINCE - timedelta(days=99)))


async def test_names_of_a_day_are_bounded_and_the_sums_keep_everything(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_tables, "NAMES_OF_DAY", 2)
    for number in range(5):
        run = uuid.uuid5(RUN, str(number))
        await writer(pool).add(batches(h.messages(run, labelled(run, 1, order=f"{number}" * 300))))
    found = await report(pool, "label")
    assert {one.name[:8]: one.tokens for one in found.names} == {"order=00": 110, "order=11": 110, "": 330}
    assert max(len(one.name) for one in found.names) == 256
    assert (await report(pool)).days[0].tokens == 550


async def test_the_labels_of_an_erased_run_are_counted_and_not_told(pool: Any, database: DatabaseUrl) -> None:
    other = uuid.uuid5(RUN, "other")
    await writer(pool).add(batches(h.messages(RUN, labelled(RUN, 1, customer="ann"))))
    await writer(pool).add(batches(h.messages(other, labelled(other, 1, team="shop"))))
    async with owner(database) as connection:
        await erase(connection, RUN)
    assert await labels(pool) == {"": (110, 1), "team=shop": (110, 1)}
    assert (await report(pool)).days[0].tokens == 220


async def test_a_label_that_another_run_has_keeps_its_costs_until_the_last_of_its_runs_is_erased(
    pool: Any, database: DatabaseUrl
) -> None:
    last = uuid.uuid5(RUN, "last")
    for run in (RUN, last):
        await writer(pool).add(batches(h.messages(run, labelled(run, 1, team="shop"))))
    bank = uuid.uuid5(RUN, "bank")
    await writer(pool).add(batches(h.messages(bank, labelled(bank, 1, team="bank"))))
    async with owner(database) as connection:
        await erase(connection, RUN)
        assert await labels(pool) == {"team=shop": (220, 1), "team=bank": (110, 1), "": (0, 1)}
        assert (await report(pool)).names[0].runs == 3, "what is counted by network stays"
        await erase(connection, last)
        assert await labels(pool) == {"team=bank": (110, 1), "": (220, 2)}


async def test_days_that_no_answer_reaches_are_removed(pool: Any, database: DatabaseUrl) -> None:
    async with owner(database) as connection:
        await connection.execute(
            "INSERT INTO history.cost SELECT 'p', 'label', (now() AT TIME ZONE 'UTC')::date - d, 'a=b', 1, 1, 1, 1, 0"
            " FROM unnest(ARRAY[0, 92, 93, 94, 1000]) d"
        )
        await HistoryStore(pool).forget_costs()
        left = "SELECT (now() AT TIME ZONE 'UTC')::date - day FROM history.cost ORDER BY 1"
        assert [row[0] for row in await connection.fetch(left)] == [0, 92, 93], "a day more than can be asked for"


@asynccontextmanager
async def owner(database: DatabaseUrl) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database())
    try:
        yield connection
    finally:
        await connection.close()


async def labels(pool: Any) -> dict[str, tuple[int, int]]:
    """Return the tokens and runs of each label."""
    return {one.name: (one.tokens, one.runs) for one in (await report(pool, "label")).names}

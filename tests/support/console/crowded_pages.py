"""Which statements of pages read too much, where there are many more rows than a page shows."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

import asyncpg
import httpx2
from tests.support.console.page_plans import PlanLog, sizes
from tests.support.gateway.console_runs import finished_run, waiting_run

from crowd.addresses import addresses
from crowd.cloned_runs import clone_runs
from crowd.other_rows import add_other_rows
from crowd.platform_rows import settle
from towpath_embedded.platform import Platform

FINISHED, WAITING, OTHERS = 1_500, 700, 700
"""Far more of each than one page shows; with their logs some 100,000 rows."""

SMALL = 400
"""A table of so many rows may be read whole; those that grow have more here."""

MOST = 450
"""Rows of one table that a statement may read, where nothing else is said: twice the largest page."""

BOUNDED: Mapping[str, int] = {
    "-- Which runs a page has": 10_000,  # a filter that may match nothing
    "-- How far $4 runs": 10_000,
    "-- Those closed last, of as many": 2_000,
    "-- Every group of the window": 200_000,
    "SELECT count(*) FROM ( SELECT FROM tas.audit_entry": 200_000,  # the window of the audit, which a rare filter reads
    "-- $13 and $14 bound what is looked through": 200_000,
    "SELECT leaf_index, hash FROM tas.audit_leaf": 512,
    "-- Who holds how much of the room": 10_000,  # of no page: what goes on, for admission
    "-- What people have limited": 501,  # one more tells whether there are more
    "-- How far $4 gates": 10_000,
    "-- Those that wait for people": 2_000,  # of no page: gauges, every 15 s, from the index alone
    "-- The highest used share": 5_000,  # of no page, likewise
    "-- Those of the project and those without one": 5_000,  # of which others may be other projects', by their runs
    "-- One plan is made for all values: each way in": 5_000,  # likewise, of one status
    "SELECT notice_id": 5_000,
}
"""Statements that may read more, and how many rows their own limits let them."""

KNOWN = {
    "network": "support",
    "tool": "orders.refund",
    "step": "1",
    "letter_id": "1",
    "entry_id": "10",
    "version": "1",
    "worker_id": "0" * 32,
}
"""What stands for the parts of addresses, beside what is made here."""


async def too_much_read(platform: Platform, api: httpx2.AsyncClient) -> list[str]:
    """Fill the database, open every page, and return which statements read more than they may."""
    run_id, (waiting_run_id, gate) = await finished_run(api), await waiting_run(api)
    known = {"run_id": run_id, "waiting_run_id": waiting_run_id, "gate_id": gate["gate_id"], **KNOWN}
    owner = await asyncpg.connect(platform.dsn())
    try:
        counts = {UUID(known["run_id"]): FINISHED, UUID(known["waiting_run_id"]): WAITING}
        await clone_runs(owner, counts, timedelta(days=2))
        await add_other_rows(owner, OTHERS)
        await settle(owner)
        log, rows = PlanLog(platform.log("postgres")), await sizes(owner)
        await log.begin(owner)
    finally:
        await owner.close()
    known["erasure_id"] = (await api.get("/v1/erasures?limit=1")).json()["erasures"][0]["erasure_id"]
    paths = addresses({**known, "early_run_id": run_id})
    wrong: list[str] = []
    for path in [paths[0], *paths]:
        answer = await api.get(path)
        for _ in range(300):  # while sessions are opened anew
            if answer.status_code < 500:
                break
            await asyncio.sleep(0.2)
            answer = await api.get(path)
        if answer.status_code != 200:
            wrong.append(f"{path}: {answer.status_code}")
        if len(answer.content) > 200_000:
            wrong.append(f"{path}: {len(answer.content)} bytes")
        for read in log.table_reads():
            limit = next((most for words, most in BOUNDED.items() if words in read.statement), MOST)
            if read.rows > limit or ("Seq Scan" in read.how and rows.get(read.table, 0) > SMALL):
                wrong.append(f"{path}: {read.how} of {read.rows} rows of {read.table}: {read.statement[:120]}")
    return wrong

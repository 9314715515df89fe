"""Pages of the audit in a real Postgres: each fits an answer, and all together have every entry."""

from collections.abc import AsyncIterator

import pytest
from tests.conftest import DatabaseUrl
from tests.support.tas.audit_log import PROJECT, AuditLog, audit_log, fill

from towpath_contracts.tools.access import AuditQuery
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.app.audit.audit_queries import AuditQueries

LARGEST_ANSWER = 1_000_000


@pytest.fixture
async def log(database: DatabaseUrl) -> AsyncIterator[AuditLog]:
    """The log of a database of the test's own."""
    async with audit_log(database(), database("tas")) as found:
        yield found


@pytest.mark.parametrize("names", ['"', "é", "\x01"])
async def test_pages_with_long_details_have_as_many_entries_as_fit_an_answer(log: AuditLog, names: str) -> None:
    """Names of arguments stand in the details of a decision: a few calls kept others from reading any page."""
    await fill(log, 3)
    detail = {"origin": {"args": {names * 40_000: "unknown"}}}
    await log.write(*(platform_audit_row(PROJECT, "wide", "x", actor="", detail=detail) for _ in range(20)))
    queries, seen, before, pages = AuditQueries(log.pool), [], None, 0
    while pages == 0 or before is not None:
        page = await queries.query(AuditQuery(project=PROJECT, limit=100, before=before))
        assert len(page.model_dump_json()) < LARGEST_ANSWER
        seen += [entry.entry_id for entry in page.entries]
        before, pages = page.next_before, pages + 1
    stored = await log.owner("SELECT entry_id FROM tas.audit_record WHERE project = $1 ORDER BY 1 DESC", PROJECT)
    assert seen == [row["entry_id"] for row in stored]
    assert pages > 1


async def test_a_page_has_one_entry_however_long_that_is(log: AuditLog) -> None:
    await log.write(platform_audit_row(PROJECT, "wide", "x", actor="", detail={"reason": "x" * 950_000}))
    page = await AuditQueries(log.pool).query(AuditQuery(project=PROJECT, limit=100))
    assert [entry.phase for entry in page.entries] == ["wide"]


async def test_entries_are_found_by_the_digest_of_the_arguments_that_they_are_about(log: AuditLog) -> None:
    await fill(log, 3)
    everything = await AuditQueries(log.pool).query(AuditQuery(project=PROJECT, limit=1_000))
    digest = next(entry.args_digest for entry in everything.entries if entry.args_digest)
    page = await AuditQueries(log.pool).query(AuditQuery(project=PROJECT, args_digest=digest))
    expected = [entry.entry_id for entry in everything.entries if entry.args_digest == digest]
    assert [entry.entry_id for entry in page.entries] == expected and page.total == len(expected)
    run_id = page.entries[0].run_id
    for other in ({"run_id": run_id, "args_digest": digest}, {"args_digest": "sha256:none"}):
        found = await AuditQueries(log.pool).query(AuditQuery.model_validate({"project": PROJECT, **other}))
        wanted = [e.entry_id for e in page.entries if "run_id" in other and e.run_id == run_id]
        assert [entry.entry_id for entry in found.entries] == wanted and found.total == len(wanted)

"""The audit log in a real Postgres: sealing, exporting, erasing, retention, and what the service's role may not do."""

from collections.abc import AsyncIterator

import pytest
from tests.conftest import DatabaseUrl
from tests.support.audit_log import AuditLog, audit_log, fill

from towpath_audit.verifier import verify


@pytest.fixture
async def log(database: DatabaseUrl) -> AsyncIterator[AuditLog]:
    """The log of a database of the test's own."""
    async with audit_log(database(), database("tas")) as found:
        yield found


async def test_a_bundle_of_a_live_log_verifies(log: AuditLog) -> None:
    await fill(log, 30, seal_every=7)
    lines = await log.export()
    report = verify(lines, checkpoints=log.kept.notes, keys=[log.notes.public.fingerprint])
    assert report.faults == []
    assert report.figures["leaves"] == 1 + 1 + 30 * 3
    assert report.figures["decisions"] == 30

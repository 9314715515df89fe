"""Bundles of what one transaction sees, and what `verify` says of them; the transaction is undone afterwards."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry
from tests.support.tas.audit_log import Kept, add_run

from towpath_audit import bundle
from towpath_audit.notes import PublicKey, Signer
from towpath_audit.report import AuditReport
from towpath_audit.verifier import verify
from towpath_contracts.tools.audit import ExportAudit
from towpath_tas.app.audit.audit_export import AuditLogRequests
from towpath_tas.app.audit.sealer import QUERIES, Sealer
from towpath_tas.metrics import TasMetrics


class OneConnection:
    """A pool of one connection, inside a transaction that is rolled back."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @contextlib.asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        yield self._connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Exported:
    """Exports what a transaction sees, with a sealer of its own."""

    def __init__(self, connection: Any, project: str) -> None:
        self._connection = connection
        self._pool = OneConnection(connection)
        self._project = project
        self._signer = Signer("towpath.local/audit", Ed25519PrivateKey.generate())
        self.kept = Kept()

    async def report(self, **asked: Any) -> AuditReport:
        """Verify a bundle of the project, of the time that is *asked* for."""
        metrics = TasMetrics(CollectorRegistry())
        await self._connection.execute(QUERIES.seal_lock)  # else the service may seal for the first time after the keys
        stored = await self._connection.fetch("SELECT public_key FROM tas.audit_key")
        keys = [PublicKey.read(row["public_key"]) for row in stored]
        sealer = Sealer(self._pool, self._signer, [self.kept], metrics, structlog.get_logger(), other_keys=keys)
        sealer._key_stored = bool(self.kept.notes)
        if not self.kept.notes:
            self.kept.notes.append((await sealer.current()).note)
        exports = AuditLogRequests(self._pool, sealer)
        request, lines = ExportAudit(project=self._project, actor="ann", **asked), list[str]()
        while True:
            piece = await exports.export(request)
            lines += piece.lines
            if piece.cursor is None:
                break
            request = request.model_copy(update={"cursor": piece.cursor, "previous": bundle.digest(piece.lines[-1])})
        return verify(lines, checkpoints=self.kept.notes)

    async def add_runs(self) -> None:
        """Store runs that ask for the calls of the ledger: in tests of the service alone nobody else does."""
        rows = await self._connection.fetch(
            "SELECT run_id, array_agg(execution_id) AS calls, min(caller) AS caller FROM tas.tool_call t"
            " WHERE project = $1 AND NOT EXISTS (SELECT FROM runs.run_event e WHERE e.run_id = t.run_id)"
            " GROUP BY run_id",
            self._project,
        )
        for row in rows:
            await add_run(self._connection, row["run_id"], row["calls"], self._project, row["caller"])


@contextlib.asynccontextmanager
async def exported(dsn: str, project: str) -> AsyncIterator[tuple[Any, Exported]]:
    """Give a connection whose changes are undone, and the exports of what it sees, with the runs of the ledger."""
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute("SET LOCAL session_replication_role = replica")
        found = Exported(connection, project)
        await found.add_runs()
        yield connection, found
    finally:
        await transaction.rollback()
        await connection.close()

"""Seals the audit log: gives every committed entry its leaf in the Merkle tree, and signs checkpoints of the tree.

One sealer at a time holds the lock, in whichever replica. Leaves and checkpoint are stored in one commit, and a
checkpoint is published only after it. A log that does not match its own last checkpoint is never sealed again: a
signature would confirm the change of whoever altered it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import asyncpg

from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, NoteError, PublicKey, Signer, open_note
from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.metrics import TasMetrics

QUERIES = Queries.load("towpath_tas.adapters", "audit.sql")

MAX_LEAVES_PER_SEAL = 10_000
"""Leaves in one seal. More would hold the lock, and the memory, for longer than the next seal should wait."""


class AuditLogMismatchError(Exception):
    """The stored log does not match its last checkpoint; the message says how."""


class CheckpointPublisher(Protocol):
    """Publishes checkpoints outside of the database."""

    async def publish(self, note: str) -> None:
        """Publish a checkpoint; a failure is logged, never raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A checkpoint as it is stored: the edge of the tree that it covers, when it was signed, and the signed note."""

    seal_id: int
    edge: MerkleFrontier
    at: datetime
    note: str


class Sealer:
    """Seals for one replica, every *every_s* seconds; without new entries, it signs that every *idle_s* seconds.

    At least *publish_s* pass between two published checkpoints; the newest one is always published in the end.
    """

    def __init__(
        self,
        pool: Any,
        signer: Signer,
        publishers: Sequence[CheckpointPublisher],
        metrics: TasMetrics,
        log: Logger,
        *,
        every_s: float = 1.0,
        idle_s: float = 300.0,
        publish_s: float = 10.0,
    ) -> None:
        self.signer = signer
        self._pool = pool
        self._publishers = tuple(publishers)
        self._metrics = metrics
        self._log = log
        self._every_s = every_s
        self._idle = timedelta(seconds=idle_s)
        self._publish_s = publish_s
        self._key_stored = False
        self._seen: StoredCheckpoint | None = None  # the last committed one that this sealer read or signed
        self._queued = 0  # the newest one that was queued for publishing
        self._unpublished: str | None = None
        self._published = -publish_s
        self._to_publish = asyncio.Event()

    async def run(self) -> None:
        """Seal and publish forever, in parallel: a publisher may be slow."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._keep_sealing())
            both.create_task(self._keep_publishing())

    async def _keep_publishing(self) -> None:
        while True:
            await self._to_publish.wait()
            await asyncio.sleep(self._every_s)
            await self._publish_newest()
            if self._unpublished is None:
                self._to_publish.clear()

    async def _keep_sealing(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                if await self._due():
                    await self.seal()
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                self._log.warning("the audit was not sealed, its entries wait", error=str(error))
            except AuditLogMismatchError as error:
                self._metrics.seal_refusals.inc()
                self._log.error("the audit is not sealed any more", problem=str(error))

    async def seal(self) -> StoredCheckpoint | None:
        """Seal the waiting entries, or sign that there are none; None while another sealer holds the lock.

        Raises AuditLogMismatchError, and what `DATABASE_DOWN` lists: then nothing was sealed, and the entries wait.
        """
        await self._store_key()
        async with self._pool.acquire() as connection, connection.transaction():
            if not await connection.fetchval(QUERIES.try_seal_lock):
                return None
            sealed, _ = await self._seal(connection)
        self._committed(sealed)
        return sealed

    async def current(self, *, fresh: bool = False) -> StoredCheckpoint:
        """Return a checkpoint that covers everything committed before the call.

        That is the last one if nothing came since, unless it is older than *idle_s* or a *fresh* one is required.
        """
        await self._store_key()
        while True:
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(QUERIES.seal_lock)
                sealed, whole = await self._seal(connection, reuse=not fresh)
            self._committed(sealed)
            if whole:
                return sealed

    async def _due(self) -> bool:
        row = await self._pool.fetchrow(QUERIES.seal_due)
        return row["waiting"] or row["sealed_at"] is None or row["now"] - row["sealed_at"] >= self._idle

    def _committed(self, sealed: StoredCheckpoint) -> None:
        if self._seen is None or sealed.seal_id > self._seen.seal_id:
            self._seen = sealed
        if sealed.seal_id > self._queued:
            self._queued, self._unpublished = sealed.seal_id, sealed.note
            self._to_publish.set()

    async def _seal(self, connection: Any, *, reuse: bool = False) -> tuple[StoredCheckpoint, bool]:
        """Seal under the lock; also return whether nothing waits. *reuse*: a recent seal will do if nothing does."""
        last = await self.last(connection)
        try:
            rows = await connection.fetch(QUERIES.take_leaves, MAX_LEAVES_PER_SEAL)
        except asyncpg.UniqueViolationError as error:
            raise AuditLogMismatchError("leaves are stored that the last checkpoint does not cover") from error
        at = await connection.fetchval(QUERIES.now)
        if reuse and not rows and last is not None and at - last.at < self._idle:
            return last, True
        edge = last.edge if last is not None else MerkleFrontier()
        grown = edge.extended(row["hash"] for row in rows)
        checkpoint = Checkpoint(self.signer.public.name, grown.size, grown.root, at)
        sealed = StoredCheckpoint(
            seal_id=last.seal_id + 1 if last is not None else 1,
            edge=grown,
            at=at,
            note=self.signer.note(checkpoint.text()),
        )
        await connection.execute(
            QUERIES.add_seal, *(sealed.seal_id, grown.size, grown.root, grown.packed(), at, sealed.note)
        )
        self._metrics.sealed.inc(len(rows))
        return sealed, len(rows) < MAX_LEAVES_PER_SEAL

    async def last(self, connection: Any) -> StoredCheckpoint | None:
        """Return the last checkpoint, if there is one.

        Raises AuditLogMismatchError if no known key signed it, or it does not follow from the last one that this sealer
        saw.
        """
        await self._check_continues(connection)
        row = await connection.fetchrow(QUERIES.last_seal)
        if row is None:
            return None
        try:
            edge = MerkleFrontier.unpacked(row["size"], row["edge"])
            text, _ = open_note(row["note"], await known_keys(connection))
            signed = Checkpoint.read(text)
        except (ValueError, NoteError) as error:
            msg = f"checkpoint {row['seal_id']} can't be believed: {error}"
            raise AuditLogMismatchError(msg) from error
        if (signed.size, signed.root) != (edge.size, edge.root) or signed.root != row["root"]:
            msg = f"checkpoint {row['seal_id']} was signed for another tree than the stored one"
            raise AuditLogMismatchError(msg)
        last = StoredCheckpoint(seal_id=row["seal_id"], edge=edge, at=row["at"], note=row["note"])
        self._seen = last
        return last

    async def _check_continues(self, connection: Any) -> None:
        """Raise AuditLogMismatchError if seals that this sealer knows are missing or replaced (a database set back).

        The remaining log would match itself, and the next signature would start a second history of the same log.
        """
        if self._seen is None:
            return
        row = await connection.fetchrow(QUERIES.seal_known, self._seen.seal_id)
        if row["size"] is None and row["first"] is not None and row["first"] > self._seen.seal_id:
            return  # retention dropped it, and the rest continues from there
        if (row["size"], row["root"]) != (self._seen.edge.size, self._seen.edge.root):
            msg = f"checkpoint {self._seen.seal_id} over {self._seen.edge.size} leaves was signed, and is not stored"
            raise AuditLogMismatchError(msg)

    async def _store_key(self) -> None:
        """Store this sealer's public key before its first seal: bundles contain it, and the log records a new key."""
        if self._key_stored:
            return
        public = self.signer.public
        async with self._pool.acquire() as connection, connection.transaction():
            if await connection.fetchval(QUERIES.add_key, public.text) is not None:
                detail = {"key": public.text, "fingerprint": public.fingerprint}
                entry = platform_audit_row("", "audit.key", "used", actor="tas", detail=detail)
                await connection.execute(LEDGER.add_audit, [entry])
        self._key_stored = True

    async def _publish_newest(self) -> None:
        if self._unpublished is None or monotonic() - self._published < self._publish_s:
            return
        note, self._unpublished, self._published = self._unpublished, None, monotonic()
        for publisher in self._publishers:
            await publisher.publish(note)


async def known_keys(connection: Any) -> list[PublicKey]:
    """Return every public key that ever sealed this log, oldest first."""
    return [PublicKey.read(row["public_key"]) for row in await connection.fetch(QUERIES.keys)]

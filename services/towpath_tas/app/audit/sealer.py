"""Seals the audit log: gives every committed entry its leaf in the Merkle tree, and signs checkpoints of the tree.

One sealer at a time holds the lock, in whichever replica. Leaves and checkpoint are stored in one commit, and a
checkpoint is published only after it. A log that does not match its own last checkpoint is never sealed again: a
signature would confirm the change of whoever altered it. What the tables say of keys and of the time is not believed:
keys are this replica's own and the configured ones, and the time is that of its own clock.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol

import asyncpg

from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, NoteError, PublicKey, Signer, open_note
from towpath_audit.sealed_order import MAX_LEAVES_PER_SEAL
from towpath_fabric.clock import monotonic, wall
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.core.seal_times import clock_problem, seal_time
from towpath_tas.metrics import TasMetrics

QUERIES = Queries.load("towpath_tas.adapters", "audit.sql")


class SealRefusedError(Exception):
    """Nothing is sealed; the message says why, and *code* is that of the problem which requests are answered with."""

    code: ClassVar[str]


class AuditLogMismatchError(SealRefusedError):
    """The stored log does not match its last checkpoint; the message says how."""

    code = "audit_broken"


class SealClockError(SealRefusedError):
    """The clocks of this replica and of Postgres differ, or the last checkpoint is of a later time."""

    code = "audit_clock_differs"


class CheckpointPublisher(Protocol):
    """Publishes checkpoints outside of the database."""

    async def publish(self, note: str) -> None:
        """Publish a checkpoint; a failure is logged, never raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A checkpoint that was verified: the edge of the tree that it covers, its signed time, and the signed note."""

    seal_id: int
    edge: MerkleFrontier
    at: datetime
    note: str


class Sealer:
    """Seals for one replica, every *every_s* seconds; without new entries, it signs that every *idle_s* seconds.

    At least *publish_s* pass between two published checkpoints; the newest one is always published in the end.
    *other_keys* are those that checkpoints of this log may bear besides the signer's: earlier ones, or the next.
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
        other_keys: Sequence[PublicKey] = (),
        clock: Callable[[], datetime] = wall,
    ) -> None:
        self.signer = signer
        self._trusted = (signer.public, *other_keys)
        self._clock = clock
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
            except SealRefusedError as error:
                self._metrics.seal_refusals.inc()
                self._log.error("the audit is not sealed any more", problem=str(error), code=error.code)

    async def seal(self) -> StoredCheckpoint | None:
        """Seal the waiting entries, or sign that there are none; None while another sealer holds the lock.

        Raises SealRefusedError, and what `DATABASE_DOWN` lists: then nothing was sealed, and the entries wait.
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
        """Return whether something is to be signed; what other replicas sealed meanwhile is checked and remembered."""
        row = await self._pool.fetchrow(QUERIES.seal_due)
        if row["seal_id"] != (None if self._seen is None else self._seen.seal_id):
            async with self._pool.acquire() as connection:
                await self.last(connection)
        return row["waiting"] or row["sealed_at"] is None or abs(self._clock() - row["sealed_at"]) >= self._idle

    def _remember(self, found: StoredCheckpoint) -> None:
        if self._seen is None or found.seal_id > self._seen.seal_id:
            self._seen = found

    def _committed(self, sealed: StoredCheckpoint) -> None:
        self._remember(sealed)
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
        at = await self._time(connection, last)  # after the leaves were taken: a seal is not older than what it covers
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

        Raises AuditLogMismatchError if no key that is trusted signed it, or it does not follow from the last one that
        this sealer saw.
        """
        seen = self._seen  # before the tables are read: another task may seal meanwhile
        row = await connection.fetchrow(QUERIES.last_seal)
        last = None if row is None else self._verified(row)
        if seen is not None:
            await self._check_continues(connection, seen, last)
        if last is not None:
            self._remember(last)
        return last

    async def known_keys(self, connection: Any) -> list[PublicKey]:
        """Return the keys that sealed this log, oldest first: those of the table that are trusted here."""
        rows = await connection.fetch(QUERIES.keys)
        trusted = {key.text: key for key in self._trusted}
        return [trusted[row["public_key"]] for row in rows if row["public_key"] in trusted]

    async def _time(self, connection: Any, last: StoredCheckpoint | None) -> datetime:
        """Return the time to sign; raises SealClockError where this replica's clock can't be right."""
        own, last_at = self._clock(), None if last is None else last.at
        wrong = clock_problem(own, await connection.fetchval(QUERIES.now), last_at)
        if wrong is not None:
            raise SealClockError(wrong)
        return seal_time(own, last_at)

    def _verified(self, row: Any) -> StoredCheckpoint:
        """Return the checkpoint of a row as it was signed."""
        try:
            edge = MerkleFrontier.unpacked(row["size"], row["edge"])
            signed = Checkpoint.read(open_note(row["note"], self._trusted)[0])
        except (ValueError, NoteError) as error:
            msg = f"checkpoint {row['seal_id']} can't be believed: {error}; keys of before: TOWPATH_SEAL_OTHER_KEYS"
            raise AuditLogMismatchError(msg) from error
        if (signed.size, signed.root) != (edge.size, edge.root) or signed.root != row["root"] or signed.at is None:
            msg = f"checkpoint {row['seal_id']} was signed for another tree than the stored one"
            raise AuditLogMismatchError(msg)
        return StoredCheckpoint(seal_id=row["seal_id"], edge=edge, at=signed.at, note=row["note"])

    async def _check_continues(
        self, connection: Any, seen: StoredCheckpoint, last: StoredCheckpoint | None
    ) -> None:  # fmt: skip
        """Raise AuditLogMismatchError if seals that this sealer knows are missing or replaced (a database set back).

        The remaining log would match itself, and the next signature would start a second history of the same log.
        """
        row = await connection.fetchrow(QUERIES.seal_known, seen.seal_id)
        follows = last is not None and last.seal_id >= seen.seal_id and last.edge.size >= seen.edge.size
        if row is None:
            known = follows and await self._retention_dropped(connection, seen)
        else:
            known = follows and (row["size"], row["root"]) == (seen.edge.size, seen.edge.root)
        if not known:
            msg = f"checkpoint {seen.seal_id} over {seen.edge.size} leaves was signed, and is not stored"
            raise AuditLogMismatchError(msg)

    async def _retention_dropped(self, connection: Any, seen: StoredCheckpoint) -> bool:
        """Return whether what is missing was before what retention left, as an entry of the log says.

        The first checkpoint that is left then covers all that was *seen*, and the entry names it.
        """
        first = self._verified(await connection.fetchrow(QUERIES.first_seal))
        if first.seal_id <= seen.seal_id or first.edge.size < seen.edge.size:
            return False
        said: bool = await connection.fetchval(QUERIES.was_dropped, str(first.edge.size), first.edge.root.hex())
        return said

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

"""What becomes of messages that can't be handled (design §6).

Law: a message is counted only for failures of its own handling, never for a database or broker that is away. Malformed
ones go at once, others after five failures, and both are stored before they leave the stream.
"""

from typing import Any
from uuid import UUID

from nats.aio.msg import Msg

from towpath_fabric.db import DATABASE_DOWN
from towpath_fabric.logs import Logger
from towpath_fabric.pull import nak, term
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.metrics import Metrics

MAX_FAILURES = 5
MAX_BODY = 1_000_000
"""Bytes of a message that are kept; the broker takes no larger ones."""

RETRY_S = 0.5
"""Before a message that failed comes again; longer with every failure."""


class DeadLetters:
    """Sets messages of one stream aside."""

    def __init__(self, pool: Any, stream: str, metrics: Metrics, log: Logger) -> None:
        self._pool = pool
        self._stream = stream
        self._metrics = metrics
        self._log = log

    async def set_aside(self, message: Msg, reason: str, run_id: UUID | None = None, failures: int = 1) -> bool:
        """Store *message* as a dead letter, then take it out of the stream; False where it can not be stored now."""
        self._log.warning("message set aside", subject=message.subject, reason=reason)
        body = message.data[:MAX_BODY]
        try:
            await self._pool.execute(
                QUERIES.add_dead_letter, self._stream, message.subject, run_id, reason, body, failures
            )
        except DATABASE_DOWN:
            await nak(message, RETRY_S)
            return False
        self._metrics.dead.labels(self._stream).inc()
        await term(message)
        return True

    async def failed(self, message: Msg, error: str, run_id: UUID | None) -> None:
        """Count a failure of *message*'s own handling; hand it back, or set it aside when it has failed too often."""
        try:
            sequence = message.metadata.sequence.stream
            failures = await self._pool.fetchval(QUERIES.count_failure, self._stream, sequence)
        except DATABASE_DOWN:
            await nak(message, RETRY_S)
            return
        if failures >= MAX_FAILURES:
            await self.set_aside(message, error, run_id, failures)
        else:
            await nak(message, RETRY_S * failures)

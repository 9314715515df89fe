"""What becomes of messages that can't be handled (design §6).

Law: a message is counted only for failures of its own handling, never for a database or broker that is away, nor for a
process that died. Malformed ones are set aside at once, others after five failures; both are stored, and their run
hears of it, before they leave the stream.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from nats.aio.msg import Msg
from prometheus_client import Counter
from pydantic import ValidationError
from pydantic_core import from_json

from towpath_contracts.base import Message
from towpath_contracts.facts import MessageDead
from towpath_fabric.db import DATABASE_DOWN, Queries
from towpath_fabric.dead_reports import delivery_number
from towpath_fabric.logs import Logger
from towpath_fabric.ports import Database
from towpath_fabric.pull import nak, term

QUERIES = Queries.load("towpath_fabric", "dead_letters.sql")

MAX_FAILURES = 5
"""Failures of a message's own handling before it becomes a dead letter (design §6)."""

MAX_BODY = 1024 * 1024
"""Bytes of a message that are kept: the broker takes no larger ones."""

REASON_CHARS = 2_000

RETRY_S = 0.5
"""Before a message that failed comes again; longer with every failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Whose message it is, as far as is known: its run, and what of that run waits for an answer to it."""

    run_id: UUID | None = None
    effect_id: UUID | None = None
    attempt: int = 0
    project: str | None = None


NOBODY = About()

Tell = Callable[[MessageDead], Awaitable[bool]]
"""Hands the fact to the run; False where that can't be done now."""


class _Named(Message):
    """What a message may say of itself, also where the rest of it is unreadable."""

    run_id: UUID | None = None
    request_id: UUID | None = None
    execution_id: UUID | None = None
    attempt: int = 0
    project: str | None = None


def about_of(body: bytes) -> About:
    """Return whose message *body* says it is; NOBODY where that can't be read."""
    try:
        said = from_json(body)
        named = _Named.model_validate(
            {name: said[name] for name in _Named.model_fields if name in said and name != "schema_version"}
        )
    except (ValidationError, ValueError, TypeError):
        return NOBODY
    return About(
        run_id=named.run_id,
        effect_id=named.request_id or named.execution_id,
        attempt=named.attempt,
        project=named.project,
    )


async def store(
    pool: Database,
    stream: str,
    subject: str,
    body: bytes,
    reason: str,
    delivery: int,
    about: About,
    *,
    failures: int = 1,
) -> None:
    """Store a dead letter, once; raises what DATABASE_DOWN lists."""
    await pool.execute(
        QUERIES.add_dead_letter,
        *(stream, subject, about.run_id, reason[:REASON_CHARS].replace("\x00", "\ufffd"), body[:MAX_BODY], failures),
        *(about.project, about.effect_id, delivery),
    )


def dead_fact(stream: str, reason: str, run_id: UUID, about: About) -> MessageDead:
    """Return what the run is told."""
    told = reason[:REASON_CHARS]
    return MessageDead(run_id=run_id, stream=stream, reason=told, effect_id=about.effect_id, attempt=about.attempt)


class DeadLetters:
    """Sets messages of one stream aside, and counts those that fail."""

    def __init__(self, pool: Database, stream: str, counter: Counter, log: Logger, tell: Tell | None = None) -> None:
        """*counter* has the label `stream`; *tell* hands a fact to the run that a message was of."""
        self._pool = pool
        self._stream = stream
        self._counter = counter
        self._log = log
        self._tell = tell

    async def set_aside(self, message: Msg, reason: str, about: About = NOBODY, failures: int = 1) -> bool:
        """Store *message* as a dead letter, tell its run, take it out of the stream; False where that must wait."""
        self._log.warning("message set aside", subject=message.subject, reason=reason)
        try:
            await store(
                self._pool,
                self._stream,
                message.subject,
                message.data,
                reason,
                delivery_number(message),
                about,
                failures=failures,
            )
        except DATABASE_DOWN:
            await nak(message, RETRY_S)
            return False
        if not await self._told(reason, about):
            await nak(message, RETRY_S)
            return False
        self._counter.labels(self._stream).inc()
        await term(message)
        return True

    async def _told(self, reason: str, about: About) -> bool:
        if self._tell is None or about.run_id is None or about.effect_id is None:
            return True
        return await self._tell(dead_fact(self._stream, reason, about.run_id, about))

    async def failed(self, message: Msg, error: str, about: About = NOBODY) -> bool:
        """Count a failure of *message*'s own handling and hand it back; True where it was set aside instead."""
        try:
            failures = await self._pool.fetchval(QUERIES.count_failure, self._stream, delivery_number(message))
        except DATABASE_DOWN:
            await nak(message, RETRY_S)
            return False
        if failures >= MAX_FAILURES:
            return await self.set_aside(message, error, about, failures)
        await nak(message, RETRY_S * failures)
        return False

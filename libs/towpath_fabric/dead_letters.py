"""What becomes of messages that can't be handled.

A message is counted only for failures of its own handling, never for a database or broker that is away, nor for a
process that died. Malformed ones are set aside at once, others after five failures; both are stored, and their run
hears of it, before they leave the stream. What an unreadable message says of itself is checked before it is stored,
and never says whose it is: the run does.
"""

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from nats.aio.msg import Msg
from prometheus_client import Counter
from pydantic import Field, ValidationError
from pydantic_core import from_json

from towpath_contracts.base import Message
from towpath_contracts.dead_letters import ReportDead
from towpath_contracts.facts import MessageDead
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.nats.pull_consumer import nak, term
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATA_AT_FAULT, DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger

QUERIES = Queries.load("towpath_fabric", "dead_letters.sql")

MAX_FAILURES = 5
"""Failures of a message's own handling before it becomes a dead letter."""

MAX_BODY = 1024 * 1024
"""Bytes of a message that are kept: the broker takes no larger ones."""

REASON_CHARS = 2_000

MAX_REPORTED_BODY = 16 * 1024
"""Bytes that are kept of a message that others report: their word costs the owner of the stream no more than this."""

MAX_OPEN = 1_000
"""Open letters of one stream and project; beyond them only a count and a log line are kept."""

RETRY_S = 0.5
"""Before a message that failed comes again; longer with every failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Whose message it is, as far as is known: its run, and what of that run waits for an answer to it.

    `project` is what the one who stores it knows, for messages without a run; where there is a run, its own counts.
    """

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
    attempt: int = Field(default=0, ge=0, lt=2**31)


def about_of(body: bytes) -> About:
    """Return whose message *body* says it is, its project left out; NOBODY where that can't be read."""
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
    max_body: int = MAX_BODY,
) -> bool:
    """Store a dead letter, once, with at most *max_body* bytes of *body*; False where there are too many (MAX_OPEN).

    Raises what DATABASE_DOWN lists, and what DATA_AT_FAULT lists for values that no column can hold.
    """
    project = None if about.project is None else storable(about.project)
    kept: bool = await pool.fetchval(
        QUERIES.add_dead_letter,
        *(stream, storable(subject), about.run_id, storable(reason[:REASON_CHARS]), body[:max_body], failures),
        *(project, about.effect_id, delivery, len(body) > max_body, MAX_OPEN),
    )
    return kept


def storable(text: str) -> str:
    """Return *text* with what Postgres can't hold (U+0000, lone surrogates) made visible as such."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def dead_fact(stream: str, reason: str, run_id: UUID, about: About) -> MessageDead:
    """Return what the run is told."""
    told = reason[:REASON_CHARS]
    return MessageDead(run_id=run_id, stream=stream, reason=told, effect_id=about.effect_id, attempt=about.attempt)


async def store_reported(pool: Database, report: ReportDead, body: bytes, about: About) -> bool:
    """Store what somebody reports, once for one report; False and raises as `store`.

    The reporter's `delivery` alone would let it take the place of a letter that is yet to come.
    """
    named = hashlib.sha256(f"{report.delivery} {report.subject} ".encode("utf-8", "replace") + body).digest()
    delivery = int.from_bytes(named[:8], "big", signed=True)
    kept = (pool, report.stream, report.subject, body, report.reason, delivery, about)
    return await store(*kept, max_body=MAX_REPORTED_BODY)


def reported_body(report: ReportDead) -> bytes:
    """Return the message that is reported; raises ProblemError where it is not base64."""
    try:
        return base64.b64decode(report.body_base64, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ProblemError(problem("request_invalid", "body_base64 is not base64")) from error


class DeadLetters:
    """Sets messages of one stream aside, and counts those that fail."""

    def __init__(self, pool: Database, stream: str, counter: Counter, log: Logger, tell: Tell | None = None) -> None:
        """*counter* has the label `stream`; *tell* hands a fact to the run that a message was of."""
        self.pool = pool
        self._stream = stream
        self._counter = counter
        self._log = log
        self._tell = tell

    async def set_aside(self, message: Msg, reason: str, about: About = NOBODY, failures: int = 1) -> bool:
        """Store *message* as a dead letter, tell its run, take it out of the stream; False where that must wait."""
        self._log.warning("message set aside", subject=message.subject, reason=reason)
        try:
            await self._store(message, reason, about, failures)
        except DATABASE_DOWN:
            await nak(message, RETRY_S)
            return False
        if not await self._told(reason, about):
            await nak(message, RETRY_S)
            return False
        self._counter.labels(self._stream).inc()
        await term(message)
        return True

    async def _store(self, message: Msg, reason: str, about: About, failures: int) -> None:
        """Keep the letter; what no column can hold of what is known about it must not keep it in the stream."""
        kept = (self.pool, self._stream, message.subject, message.data, reason, delivery_number(message))
        try:
            there_is_room = await store(*kept, about, failures=failures)
        except DATA_AT_FAULT as error:
            self._log.warning("a letter is kept without what is said about it", error=str(error))
            there_is_room = await store(*kept, NOBODY)
        if not there_is_room:
            self._log.error("too many open dead letters, this one is only counted", stream=self._stream)

    async def _told(self, reason: str, about: About) -> bool:
        if self._tell is None or about.run_id is None or about.effect_id is None:
            return True
        return await self._tell(dead_fact(self._stream, reason, about.run_id, about))

    async def failed(self, message: Msg, error: str, about: About = NOBODY) -> bool:
        """Count a failure of *message*'s own handling and hand it back; True where it was set aside instead."""
        try:
            failures = await self.pool.fetchval(QUERIES.count_failure, self._stream, delivery_number(message))
        except DATABASE_DOWN:
            await nak(message, RETRY_S)
            return False
        if failures >= MAX_FAILURES:
            return await self.set_aside(message, error, about, failures)
        await nak(message, RETRY_S * failures)
        return False

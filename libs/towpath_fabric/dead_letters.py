"""Dead letters: messages that can't be handled are stored, their run is notified, and they leave the stream.

    malformed message ---------------------> set aside
    handling failed (own fault) -> counted -> fewer than MAX_FAILURES: redelivered, later each time
                                           -> else: set aside
    database or broker unreachable --------> redelivered, never counted
    set aside = stored, then the run notified, then removed from the stream; a crash in between repeats it

What an unreadable message claims about itself is validated before it is stored. Its project is never taken from it, but
from the run that it names.
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
from towpath_contracts.dead_letters import ReportDeadLetter
from towpath_contracts.facts import MessageDeadFact
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.nats.pull_consumer import nak, term
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN, INVALID_DATA, Queries
from towpath_fabric.telemetry.logs import Logger

QUERIES = Queries.load("towpath_fabric", "dead_letters.sql")

MAX_FAILURES = 5
"""Failures of a message's own handling before it becomes a dead letter."""

MAX_BODY = 1024 * 1024
"""Bytes of a message that are kept: the broker takes no larger ones."""

REASON_CHARS = 2_000

MAX_REPORTED_BODY = 16 * 1024
"""Bytes that are stored of a message that another process reports: bounds what a report costs the stream's owner."""

MAX_OPEN = 1_000
"""Open letters of one stream and project; further ones are only counted and logged."""

RETRY_S = 0.5
"""Delay before a failed message is redelivered; multiplied by the number of failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterOwner:
    """Whose message it is, as far as is known: its run, and the effect of that run that waits for an answer to it.

    `project` is only used for messages without a run, and comes from the process that stores the letter.
    """

    run_id: UUID | None = None
    effect_id: UUID | None = None
    attempt: int = 0
    project: str | None = None


UNKNOWN_OWNER = DeadLetterOwner()

NotifyRun = Callable[[MessageDeadFact], Awaitable[bool]]
"""Hands the fact to the run; False where that isn't possible now."""


class _OwnerFields(Message):
    """The fields that name a message's run and effect; they may be readable where the rest is not."""

    run_id: UUID | None = None
    request_id: UUID | None = None
    execution_id: UUID | None = None
    attempt: int = Field(default=0, ge=0, lt=2**31)


def owner_of_message(body: bytes) -> DeadLetterOwner:
    """Return the run and effect that *body* names; UNKNOWN_OWNER where it can't be read."""
    try:
        fields = from_json(body)
        named = _OwnerFields.model_validate(
            {name: fields[name] for name in _OwnerFields.model_fields if name in fields and name != "schema_version"}
        )
    except (ValidationError, ValueError, TypeError):
        return UNKNOWN_OWNER
    return DeadLetterOwner(
        run_id=named.run_id,
        effect_id=named.request_id or named.execution_id,
        attempt=named.attempt,
    )


def owner_in_run(run_id: UUID, body: bytes) -> DeadLetterOwner:
    """Return the owner of a message that came on the subject of *run_id*: only the effect is taken from *body*."""
    return DeadLetterOwner(run_id=run_id, effect_id=owner_of_message(body).effect_id)


async def store_dead_letter(
    pool: Database,
    stream: str,
    subject: str,
    body: bytes,
    reason: str,
    delivery: int,
    owner: DeadLetterOwner,
    *,
    failures: int = 1,
    max_body: int = MAX_BODY,
) -> bool:
    """Store a dead letter, once, with at most *max_body* bytes of *body*; False where there are too many (MAX_OPEN).

    Raises what DATABASE_DOWN lists, and what INVALID_DATA lists for values that no column can hold.
    """
    project = None if owner.project is None else storable_text(owner.project)
    kept: bool = await pool.fetchval(
        QUERIES.add_dead_letter,
        *(
            stream,
            storable_text(subject),
            owner.run_id,
            storable_text(reason[:REASON_CHARS]),
            body[:max_body],
            failures,
        ),
        *(project, owner.effect_id, delivery, len(body) > max_body, MAX_OPEN),
    )
    return kept


def storable_text(text: str) -> str:
    """Return *text* with what Postgres can't hold (U+0000, lone surrogates) made visible as such."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def message_dead_fact(stream: str, reason: str, run_id: UUID, owner: DeadLetterOwner) -> MessageDeadFact:
    return MessageDeadFact(
        run_id=run_id, stream=stream, reason=reason[:REASON_CHARS], effect_id=owner.effect_id, attempt=owner.attempt
    )


async def store_reported_dead_letter(
    pool: Database, report: ReportDeadLetter, body: bytes, owner: DeadLetterOwner
) -> bool:
    """Store a letter that another process reports, once per report; returns and raises as `store_dead_letter` does.

    The key is a hash of the whole report: the reporter's `delivery` alone could block a later, genuine letter.
    """
    named = hashlib.sha256(f"{report.delivery} {report.subject} ".encode("utf-8", "replace") + body).digest()
    delivery = int.from_bytes(named[:8], "big", signed=True)
    kept = (pool, report.stream, report.subject, body, report.reason, delivery, owner)
    return await store_dead_letter(*kept, max_body=MAX_REPORTED_BODY)


def decode_reported_body(report: ReportDeadLetter) -> bytes:
    """Return the reported message; raises ProblemError where it is not base64."""
    try:
        return base64.b64decode(report.body_base64, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ProblemError(problem("request_invalid", "body_base64 is not base64")) from error


class DeadLetters:
    """Stores dead messages of one stream, and counts failures."""

    def __init__(
        self, pool: Database, stream: str, counter: Counter, log: Logger, notify_run: NotifyRun | None = None
    ) -> None:
        """*counter* has the label `stream`; *notify_run* hands a fact to the run that a message was of."""
        self.pool = pool
        self._stream = stream
        self._counter = counter
        self._log = log
        self._notify_run = notify_run

    async def set_aside(
        self, message: Msg, reason: str, owner: DeadLetterOwner = UNKNOWN_OWNER, failures: int = 1
    ) -> bool:
        """Store *message* as a dead letter, notify its run, remove it from the stream; False where that has to wait."""
        self._log.warning("message set aside", subject=message.subject, reason=reason)
        try:
            await self._store(message, reason, owner, failures)
        except DATABASE_DOWN:
            await nak(message, RETRY_S)
            return False
        if not await self._notify(reason, owner):
            await nak(message, RETRY_S)
            return False
        self._counter.labels(self._stream).inc()
        await term(message)
        return True

    async def _store(self, message: Msg, reason: str, owner: DeadLetterOwner, failures: int) -> None:
        """Store the letter; without its owner where no column can hold that, so that it still leaves the stream."""
        kept = (self.pool, self._stream, message.subject, message.data, reason, delivery_number(message))
        try:
            there_is_room = await store_dead_letter(*kept, owner, failures=failures)
        except INVALID_DATA as error:
            self._log.warning("a dead letter is stored without its owner", error=str(error))
            there_is_room = await store_dead_letter(*kept, UNKNOWN_OWNER)
        if not there_is_room:
            self._log.error("too many open dead letters, this one is only counted", stream=self._stream)

    async def _notify(self, reason: str, owner: DeadLetterOwner) -> bool:
        if self._notify_run is None or owner.run_id is None or owner.effect_id is None:
            return True
        return await self._notify_run(message_dead_fact(self._stream, reason, owner.run_id, owner))

    async def failed(self, message: Msg, error: str, owner: DeadLetterOwner = UNKNOWN_OWNER) -> bool:
        """Count a failure of *message*'s own handling and have it redelivered; True where it was set aside instead."""
        try:
            failures = await self.pool.fetchval(QUERIES.count_failure, self._stream, delivery_number(message))
        except DATABASE_DOWN:
            await nak(message, RETRY_S)
            return False
        if failures >= MAX_FAILURES:
            return await self.set_aside(message, error, owner, failures)
        await nak(message, RETRY_S * failures)
        return False

"""Dead letters: messages that can't be handled are stored, their run is notified, and they leave the stream.

    malformed message ---------------------> set aside
    handling failed (own fault) -> counted -> fewer than MAX_FAILURES: redelivered, later each time
                                           -> else: set aside
    database or broker unreachable --------> redelivered, never counted
    set aside = stored, then the run notified, then removed from the stream; a crash in between repeats it
    its project's letters are full --------> only counted, for a while without asking the database

Whoever may write to a stream may write anything, as often as it likes, and what is read from it waits behind that. So
all of a batch are stored by one statement, and what isn't stored any more costs none.

What an unreadable message claims about itself is validated before it is stored. Its project is never taken from it, but
from the run that it names.
"""

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable, Sequence
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
from towpath_fabric.clock import monotonic
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.nats.pull_consumer import nak, term
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.postgres.refused_values import INVALID_DATA
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

LOOK_AGAIN_S = 2.0
"""So long letters of a project that had too many open ones are only counted; then the database is asked again."""

MAX_CROWDED = 1_024
"""Projects without room that are remembered; beyond, all are looked up again."""

MAX_STORED_AT_ONCE = 4 * 1024 * 1024
"""Bytes of messages in one statement: a longer one would hold others up, and the memory."""

RETRY_S = 0.5
"""Delay before a failed message is redelivered; multiplied by the number of failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterOwner:
    """Whose message it is, as far as is known: its run, and the effect of that run that waits for an answer to it.

    `project` comes from the process that stores the letter; without one it is that of the run.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliverableMessage:
    """A message that becomes a dead letter; at most *kept_bytes* of it are kept."""

    message: Msg
    reason: str
    owner: DeadLetterOwner = UNKNOWN_OWNER
    failures: int = 1
    kept_bytes: int = MAX_BODY


@dataclass(frozen=True, slots=True, kw_only=True)
class _LetterRow:
    subject: str
    body: bytes
    reason: str
    delivery: int
    owner: DeadLetterOwner
    failures: int = 1
    kept_bytes: int = MAX_BODY


async def _store_rows(pool: Database, stream: str, rows: Sequence[_LetterRow]) -> list[bool]:
    """Store dead letters, each once; says of each whether there was room (MAX_OPEN).

    Raises what DATABASE_DOWN lists, and what INVALID_DATA lists for values that no column can hold.
    """
    stored = await pool.fetch(
        QUERIES.add_dead_letters,
        *(stream, MAX_OPEN),
        [storable_text(row.subject) for row in rows],
        [row.owner.run_id for row in rows],
        [storable_text(row.reason[:REASON_CHARS]) for row in rows],
        [row.body[: row.kept_bytes] for row in rows],
        [row.failures for row in rows],
        [None if row.owner.project is None else storable_text(row.owner.project) for row in rows],
        [row.owner.effect_id for row in rows],
        [row.delivery for row in rows],
        [len(row.body) > row.kept_bytes for row in rows],
    )
    return [row["has_room"] for row in stored]


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
    """Store a letter that another process reports, once per report; False where there are too many (MAX_OPEN).

    Raises what DATABASE_DOWN lists, and what INVALID_DATA lists for values that no column can hold. The key is a hash
    of the whole report: the reporter's `delivery` alone could block a later, genuine letter.
    """
    named = hashlib.sha256(f"{report.delivery} {report.subject} ".encode("utf-8", "replace") + body).digest()
    delivery = int.from_bytes(named[:8], "big", signed=True)
    row = _LetterRow(
        subject=report.subject,
        body=body,
        reason=report.reason,
        delivery=delivery,
        owner=owner,
        kept_bytes=MAX_REPORTED_BODY,
    )
    (has_room,) = await _store_rows(pool, report.stream, [row])
    return has_room


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
        self._crowded: dict[str, float] = {}
        """Until when letters of a project, or of none, are only counted."""

    async def set_aside(
        self, message: Msg, reason: str, owner: DeadLetterOwner = UNKNOWN_OWNER, failures: int = 1
    ) -> bool:
        """Store *message* as a dead letter, notify its run, remove it from the stream; False where that has to wait."""
        dead = UndeliverableMessage(message=message, reason=reason, owner=owner, failures=failures)
        (done,) = await self.set_aside_all([dead])
        return done

    async def set_aside_all(self, messages: Sequence[UndeliverableMessage]) -> list[bool]:
        """Set all of them aside; says of each whether that is done, False where it has to wait."""
        counted = [dead for dead in messages if self._has_no_room(dead.owner)]
        if counted:
            first = counted[0]
            self._log.error(
                "too many open dead letters, these are only counted",
                stream=self._stream,
                count=len(counted),
                subject=first.message.subject,
                reason=first.reason,
            )
        skipped = {id(dead) for dead in counted}
        stored = await self._store([dead for dead in messages if id(dead) not in skipped])
        return [await self._remove(dead, stored=id(dead) in skipped or id(dead) in stored) for dead in messages]

    async def _remove(self, dead: UndeliverableMessage, *, stored: bool) -> bool:
        """Notify the run and remove the message from the stream; give it back where that can't be done yet."""
        if not stored or not await self._notify(dead.reason, dead.owner):
            await nak(dead.message, RETRY_S)
            return False
        self._counter.labels(self._stream).inc()
        await term(dead.message)
        return True

    def _has_no_room(self, owner: DeadLetterOwner) -> bool:
        """Return whether the project of a letter is known to have too many; without one only the database knows it."""
        if owner.project is None and owner.run_id is not None:
            return False
        return self._crowded.get(owner.project or "", 0.0) > monotonic()

    async def _store(self, messages: Sequence[UndeliverableMessage]) -> set[int]:
        """Store letters; returns the identities of those that need not be stored again."""
        stored: set[int] = set()
        for group in _groups(messages):
            for dead in group:
                self._log.warning("message set aside", subject=dead.message.subject, reason=dead.reason)
            try:
                await self._store_group(group)
            except DATABASE_DOWN:
                break
            stored.update(map(id, group))
        return stored

    async def _store_group(self, group: Sequence[UndeliverableMessage]) -> None:
        """Store these; without its owner what no column can hold with it, so that it still leaves the stream."""
        try:
            rooms = await _store_rows(self.pool, self._stream, [_row(dead) for dead in group])
        except INVALID_DATA as error:
            if len(group) > 1:
                for dead in group:
                    await self._store_group([dead])
                return
            self._log.warning("a dead letter is stored without its owner", error=str(error))
            rooms = await _store_rows(self.pool, self._stream, [_row(group[0], UNKNOWN_OWNER)])
        refused = [dead for dead, has_room in zip(group, rooms, strict=True) if not has_room]
        if not refused:
            return
        self._log.error("too many open dead letters, these are only counted", stream=self._stream, count=len(refused))
        if len(self._crowded) >= MAX_CROWDED:
            self._crowded.clear()
        for dead in refused:
            if dead.owner.project is not None or dead.owner.run_id is None:
                self._crowded[dead.owner.project or ""] = monotonic() + LOOK_AGAIN_S

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


def requeue_id(dead_letter_id: int, body: bytes) -> str:
    """Return the id under which a letter is published again, the same each time: an unclear publish may be repeated.

    Its number alone can be guessed, and whoever may write to a part of the stream could store another message under
    that id before; the broker would then take this one for its copy.
    """
    return f"dead:{dead_letter_id}:{hashlib.sha256(body).hexdigest()}"


def _row(dead: UndeliverableMessage, owner: DeadLetterOwner | None = None) -> _LetterRow:
    return _LetterRow(
        subject=dead.message.subject,
        body=dead.message.data,
        reason=dead.reason,
        delivery=delivery_number(dead.message),
        owner=dead.owner if owner is None else owner,
        failures=dead.failures if owner is None else 1,
        kept_bytes=dead.kept_bytes,
    )


def _groups(messages: Sequence[UndeliverableMessage]) -> list[list[UndeliverableMessage]]:
    """Return *messages* in groups of at most MAX_STORED_AT_ONCE bytes, or of one."""
    groups: list[list[UndeliverableMessage]] = []
    size = 0
    for dead in messages:
        bytes_kept = min(len(dead.message.data), dead.kept_bytes)
        if not groups or size + bytes_kept > MAX_STORED_AT_ONCE:
            groups.append([])
            size = 0
        groups[-1].append(dead)
        size += bytes_kept
    return groups

"""Poison messages: those whose handling ends the process are found, handled alone, and set aside in the end.

The broker delivers a message again after a death, but also when a process was slow, stopped or gave it back, so the
count of deliveries accuses nobody. It only says whom to watch: a watched message is handled alone, and a mark is stored
before and removed after. Only the end of the process leaves the mark behind, so marks count deaths.

    first deliveries, and those after an answer --> handled in batches, nothing stored
    after two that nobody answered ---------------> marked, handled alone, unmarked: also when the process stops
    max_deaths marks left behind -----------------> refused: set aside, and who waits for it is answered
    two more left behind -------------------------> refused without being read: reading it may be what ends the process

A mark that is found is a death only if it is another process's, and so old that the broker has delivered the message
again because of it: a younger one is at work in a replica that got another copy. The ack wait of a watched message is
extended meanwhile, so that there are few copies. While the database is away the message waits for its mark, and goes to
a replica that has one; once it is marked it stays here, since a copy elsewhere would take the mark for a death.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, TypeVar
from uuid import uuid4

from nats.aio.msg import Msg

from towpath_contracts.streams import ConsumerSpec
from towpath_fabric.clock import monotonic
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.dead_letters import QUERIES
from towpath_fabric.nats.pull_consumer import ack, deliveries, in_progress, nak
from towpath_fabric.ports import Database, MessageConsumer
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.redelivery.answered_messages import AnsweredMessages
from towpath_fabric.telemetry.logs import Logger

UNREAD_AFTER = 2
"""Deaths by refusing a message, after which it is refused without being read."""

DEATH_AGE = 0.5
"""Part of the ack wait after which a mark that is found is a death. The last extension before a mark is up to a third
of the ack wait older than it, so a mark that led to a redelivery is at least two thirds old."""

RETRY_S = 0.25

TELL_S = 60.0
"""Between two lines of the log that say how many messages are handled alone."""

UNMARK_S = 2
"""How long a process that stops tries to remove its mark."""

Refuse = Callable[[Msg, str, bool], Awaitable[object]]
"""Sets a message aside for a reason, and answers who waits for it; reads it only if the last argument says so."""

Answer = TypeVar("Answer")


Withdraw = Callable[[], Awaitable[None]]
"""Removes the mark of a message that is no longer alone."""


class MarkStatements(NamedTuple):
    """The statements over a service's table of marks: `begin` returns how many deaths are known."""

    begin: str
    end: str


RUN_MARKS = MarkStatements(QUERIES.begin_handling, QUERIES.end_handling)


class HandlingTurn:
    """Whose turn it is to handle a watched message: one at a time in a process, so that a death accuses one.

    Two that are at work would both be accused, each time, since they come again at about the same time. Some consumers
    wait for other services meanwhile, and would hold up everybody for seconds; these yield:

        a consumer that doesn't yield --> waits for others of its kind; what is at work and yields loses its mark
        one that yields ----------------> begins when no other is at work, and loses its mark when another begins
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._free = asyncio.Event()
        self._free.set()
        self._withdrawals: list[Withdraw] = []

    @property
    def is_alone(self) -> bool:
        """Whether no consumer that doesn't yield is at work."""
        return self._free.is_set()

    @contextlib.asynccontextmanager
    async def take(self, withdraw: Withdraw | None) -> AsyncIterator[None]:
        """Wait for the turn and hold it in this context; whoever yields says how to *withdraw* the mark."""
        if withdraw is not None:
            await self._free.wait()
            self._withdrawals.append(withdraw)
            try:
                yield
            finally:
                self._withdrawals.remove(withdraw)
            return
        async with self._lock:
            self._free.clear()
            try:
                for withdrawal in list(self._withdrawals):
                    await withdrawal()
                yield
            finally:
                self._free.set()


class PoisonGuard:
    """Watches the messages of one consumer."""

    def __init__(
        self,
        pool: Database,
        turn: HandlingTurn,
        log: Logger,
        spec: ConsumerSpec,
        feed: MessageConsumer,
        *,
        max_deaths: int,
        marks: MarkStatements = RUN_MARKS,
        yields: bool = False,
        key_of: Callable[[Msg], int] = delivery_number,
    ) -> None:
        """*turn* is the same for all guards of a process; *max_deaths* of a message handled alone set it aside.

        No other consumer waits for one that *yields*. *key_of* returns the same number for copies of one message.
        """
        self._pool = pool
        self._turn = turn
        self._log = log
        self._spec = spec
        self._feed = feed
        self._max_deaths = max_deaths
        self._marks = marks
        self._yields = yields
        self._key_of = key_of
        self._answered = AnsweredMessages(most=spec.max_ack_pending, ack_wait_s=spec.ack_wait_s)
        self._watched = 0
        self._told_s = -TELL_S
        self._holder = uuid4()
        """Whose marks these are: what this process left while it lives is no death."""

    def apart(self, messages: list[Msg]) -> tuple[list[Msg], list[Msg]]:
        """Return the messages that are handled together, and those that are watched."""
        together: list[Msg] = []
        watched: list[Msg] = []
        for message in messages:
            (watched if self._answered.is_suspect(message) else together).append(message)
        if watched:
            self._tell(len(watched))
        return together, watched

    def _tell(self, messages: int) -> None:
        """Say it seldom: a few are usual after a death, and many make a service slow."""
        self._watched += messages
        if monotonic() - self._told_s >= TELL_S:
            said = "messages come again that nobody has answered, and are handled one by one"
            self._log.warning(said, stream=self._spec.stream, messages=self._watched)
            self._told_s, self._watched = monotonic(), 0

    async def give_back(self, message: Msg, delay_s: float) -> None:
        """Return a message to the stream, and remember that it was answered: its handling ended nothing."""
        self._answered.note(message, settled=False)
        await nak(message, delay_s)

    async def settle(self, message: Msg) -> None:
        """Acknowledge a message whose handling is committed, and remember that for copies that wait here."""
        if deliveries(message) > 1:
            self._answered.note(message, settled=True)
        await ack(message)

    @contextlib.asynccontextmanager
    async def alone(self, message: Msg, refuse: Refuse) -> AsyncIterator[bool]:
        """Handle *message* in this context if it yields True; else it was refused, or settled by this process before.

        A context that ends by an error leaves the mark behind, since a loop that fails ends its process.
        """
        if self._answered.is_settled(message):
            await ack(message)
            yield False
            return
        marked = asyncio.Event()
        extending = asyncio.create_task(self._extend(message, marked))
        try:
            withdraw = functools.partial(self._unmark, message, survived=False) if self._yields else None
            async with self._turn.take(withdraw):
                deaths = await self._begin(message)
                marked.set()
                if withdraw is not None and not self._turn.is_alone:
                    await withdraw()
                refused = deaths >= self._max_deaths
                if refused:
                    await self._set_aside(message, deaths, refuse)
                yield not refused
                await self._unmark(message, survived=not refused)
        except (
            asyncio.CancelledError
        ):  # the process stops, whatever it was at; while the database is away the mark stays
            with contextlib.suppress(*DATABASE_DOWN):
                async with asyncio.timeout(UNMARK_S):
                    await self._end(message, survived=False)
            raise
        finally:
            extending.cancel()

    async def _begin(self, message: Msg) -> int:
        """Store a mark; return how many deaths have left one behind."""
        age_s = self._spec.ack_wait_s * DEATH_AGE
        values = (self._spec.stream, self._key_of(message), age_s, self._holder)
        deaths: int = await self._until_stored(lambda: self._pool.fetchval(self._marks.begin, *values))
        return deaths

    async def _unmark(self, message: Msg, *, survived: bool) -> None:
        await self._until_stored(lambda: self._end(message, survived=survived))

    async def _end(self, message: Msg, *, survived: bool) -> None:
        """Remove this process's mark; a message whose handling the process has *survived* has caused no death."""
        values = (self._spec.stream, self._key_of(message), survived, self._holder)
        await self._pool.execute(self._marks.end, *values)

    async def _until_stored(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask until the database answers; meanwhile no more messages are fetched."""
        while True:
            try:
                answer = await ask()
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, a message waits", stream=self._spec.stream, error=str(error))
                self._feed.paused = True
                await asyncio.sleep(RETRY_S)
            else:
                self._feed.paused = False
                return answer

    async def _set_aside(self, message: Msg, deaths: int, refuse: Refuse) -> None:
        reads = deaths < self._max_deaths + UNREAD_AFTER
        self._log.error(
            "a message is refused: its handling ended the process",
            stream=self._spec.stream,
            subject=message.subject[:200],
            size=len(message.data),
            deaths=deaths,
            is_read=reads,
        )
        await refuse(message, poison_reason(deaths), reads)

    async def _extend(self, message: Msg, marked: asyncio.Event) -> None:
        """Extend the ack wait while this process lives and its event loop runs; before the mark, with a database."""
        while True:
            if marked.is_set() or not self._feed.paused:
                await in_progress(message)
            await asyncio.sleep(self._spec.ack_wait_s / 3)


def poison_guards(
    pool: Database, log: Logger, *, max_deaths: int, marks: MarkStatements = RUN_MARKS
) -> functools.partial[PoisonGuard]:
    """Return what makes the guards of one process from a consumer and its feed: one for each."""
    return functools.partial(PoisonGuard, pool, HandlingTurn(), log, max_deaths=max_deaths, marks=marks)


def poison_reason(deaths: int) -> str:
    """Return the reason of a dead letter for a message whose handling has ended so many processes."""
    return f"poison_message: handling it alone ended the process {deaths} times"

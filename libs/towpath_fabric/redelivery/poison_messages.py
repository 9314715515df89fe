"""Poison messages: those whose handling ends the process are found, handled alone, and set aside in the end.

The broker delivers a message again after a death, but also when a process was slow, stopped or gave it back, so the
count of deliveries accuses nobody. It only says whom to watch: a watched message is handled alone, and a mark is stored
before and removed after. Only the end of the process leaves the mark behind, so marks count deaths.

    first and second delivery --> handled in batches, nothing stored
    every later one ------------> marked, handled alone, unmarked: also when it is given back or the process stops
    max_deaths marks left ------> refused: set aside, and who waits for it is answered
    two more left --------------> refused without being read: reading it may be what ends the process

One watched message is handled at a time in a process, whichever stream it comes from, and its ack wait is extended
meanwhile, so that no other replica has it too. While the database is away the message waits for its mark, and a mark
whose answer was lost is not counted as a death.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

from nats.aio.msg import Msg

from towpath_contracts.streams import ConsumerSpec
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.dead_letters import QUERIES
from towpath_fabric.nats.pull_consumer import deliveries, in_progress
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger

WATCHED_FROM = 3
"""From this delivery on a message is handled alone: one crash costs the messages that shared its batch nothing."""

UNREAD_AFTER = 2
"""Deaths by refusing a message, after which it is refused without being read."""

RETRY_S = 0.25

Refuse = Callable[[Msg, str, bool], Awaitable[object]]
"""Sets a message aside for a reason, and answers who waits for it; reads it only if the last argument says so."""


class MarkStatements(NamedTuple):
    """The statements over a service's table of marks: `begin` returns how many were left behind before."""

    begin: str
    end: str


RUN_MARKS = MarkStatements(QUERIES.begin_handling, QUERIES.end_handling)


class PoisonGuard:
    """Watches the messages of one consumer."""

    def __init__(
        self,
        pool: Database,
        spec: ConsumerSpec,
        turn: asyncio.Lock,
        log: Logger,
        *,
        max_deaths: int,
        marks: MarkStatements = RUN_MARKS,
    ) -> None:
        """*turn* is the same for all guards of a process; *max_deaths* of a message handled alone set it aside."""
        self._pool = pool
        self._spec = spec
        self._turn = turn
        self._log = log
        self._max_deaths = max_deaths
        self._marks = marks

    @contextlib.asynccontextmanager
    async def alone(self, message: Msg, refuse: Refuse) -> AsyncIterator[bool]:
        """Handle *message* in this context if it yields True; else it was refused.

        A context that ends by an error leaves the mark behind, since a loop that fails ends its process.
        """
        async with self._turn:
            deaths = await self._begin(message)
            if deaths >= self._max_deaths:
                await self._set_aside(message, deaths, refuse)
                yield False
                return
            extending = asyncio.create_task(self._extend(message))
            try:
                yield True
            except asyncio.CancelledError:  # the process stops: while the database is away the mark stays, as a death
                with contextlib.suppress(*DATABASE_DOWN):
                    await self._write(message, 0)
                raise
            finally:
                extending.cancel()
            await self._write_until_stored(message, 0)

    async def _begin(self, message: Msg) -> int:
        """Store a mark; return how many deaths have left one behind."""
        own = 0  # marks of this process that may be stored although their answers were lost: they are no deaths
        while True:
            try:
                left: int = await self._pool.fetchval(self._marks.begin, self._spec.stream, delivery_number(message))
            except DATABASE_DOWN as error:
                own += 1
                self._log.warning("postgres is away, a message waits", stream=self._spec.stream, error=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            deaths = max(0, left - own)
            if deaths < left:
                await self._write_until_stored(message, deaths + 1)
            return deaths

    async def _write(self, message: Msg, marks: int) -> None:
        await self._pool.execute(self._marks.end, self._spec.stream, delivery_number(message), marks)

    async def _write_until_stored(self, message: Msg, marks: int) -> None:
        while True:
            try:
                await self._write(message, marks)
            except DATABASE_DOWN:
                await asyncio.sleep(RETRY_S)
            else:
                return

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
        await self._write_until_stored(message, deaths)

    async def _extend(self, message: Msg) -> None:
        """Extend the ack wait as long as this process lives and its event loop runs."""
        while True:
            await in_progress(message)
            await asyncio.sleep(self._spec.ack_wait_s / 3)


def poison_guards(
    pool: Database, log: Logger, *, max_deaths: int, marks: MarkStatements = RUN_MARKS
) -> Callable[[ConsumerSpec], PoisonGuard]:
    """Return what makes the guards of one process: one for each consumer."""
    turn = asyncio.Lock()
    return lambda spec: PoisonGuard(pool, spec, turn, log, max_deaths=max_deaths, marks=marks)


def poison_reason(deaths: int) -> str:
    """Return the reason of a dead letter for a message whose handling has ended so many processes."""
    return f"poison_message: handling it alone ended the process {deaths} times"


def apart(messages: Sequence[Msg]) -> tuple[list[Msg], list[Msg]]:
    """Return the messages that are handled together, and those that are watched."""
    together: list[Msg] = []
    watched: list[Msg] = []
    for message in messages:
        (watched if deliveries(message) >= WATCHED_FROM else together).append(message)
    return together, watched

"""Follows the logs of many runs while the processes that could report them are being killed.

Events that NATS publishes are taken as they come, and Postgres is polled for those that were missed. An entry counts
from the moment at which it was first seen.
"""

import asyncio
import contextlib
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import asyncpg
from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_contracts import subjects
from towpath_embedded.chaos.plan import StrikeTrigger
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.broker_owner import connect
from towpath_fabric.postgres.pool import DATABASE_DOWN

_log = logging.getLogger(__name__)

POLL_S = 0.25
QUERY_TIMEOUT_S = 5.0
_NEWS = (
    "SELECT e.run_id::text, e.seq, e.type FROM unnest($1::uuid[], $2::bigint[]) AS known (run_id, seq)"
    " JOIN runs.run_event e ON e.run_id = known.run_id AND e.seq > known.seq"
)


class DatabaseReader:
    """Asks Postgres, with a new connection whenever the old one is gone."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None
        self._turn = asyncio.Lock()

    async def rows(self, statement: str, *arguments: object) -> list[Any] | None:
        """Return the rows, or None while the database is down."""
        async with self._turn:
            try:
                if self._connection is None:
                    self._connection = await asyncpg.connect(self._dsn, timeout=QUERY_TIMEOUT_S)
                found: list[Any] = await self._connection.fetch(statement, *arguments, timeout=QUERY_TIMEOUT_S)
            except DATABASE_DOWN:
                self._drop()
                return None
            return found

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
        self._connection = None

    async def close(self) -> None:
        self._drop()


@dataclass(slots=True)
class ObservedRunLog:
    """The entries of one run as they were seen: types by seq, and when each was seen first (monotonic)."""

    types: dict[int, str] = field(default_factory=dict)
    seen_at: dict[int, float] = field(default_factory=dict)
    grew: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, seq: int, event: str) -> None:
        """Add an entry; one that is known already changes nothing."""
        if seq not in self.types:
            self.types[seq] = event
            self.seen_at[seq] = monotonic()
            self.grew.set()

    @property
    def contiguous(self) -> int:
        """The last seq up to which nothing is missing."""
        seq = 0
        while seq + 1 in self.types:
            seq += 1
        return seq

    @property
    def ended(self) -> bool:
        """Whether the run has its final status."""
        return "run_finished" in self.types.values()

    def has(self, boundary: StrikeTrigger) -> bool:
        """Return whether the log has reached *boundary*."""
        return Counter(self.types.values())[boundary.event] >= boundary.nth

    def first_after(self, moment: float) -> float | None:
        """Return when the first entry after *moment* was seen."""
        return min((at for at in self.seen_at.values() if at > moment), default=None)


class RunWatcher:
    """Follows the logs of runs; see `follow`. Use as a context manager, with `poll` as a task beside it."""

    def __init__(self, nats_url: str, dsn: str) -> None:
        self._nats_url = nats_url
        self._reader = DatabaseReader(dsn)
        self._nats: Client | None = None
        self._early: dict[str, ObservedRunLog] = {}
        self.logs: dict[str, ObservedRunLog] = {}

    async def __aenter__(self) -> Self:
        self._nats = await connect(
            self._nats_url,
            owner=os.geteuid(),
            inbox_prefix=b"_INBOX_gateway",
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.1,
            error_cb=_log_connection_error,
        )
        await self._nats.subscribe(subjects.RUN_EVENT_ALL, cb=self._on_events)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._nats is not None:
            await self._nats.close()
        await self._reader.close()

    def follow(self, run_id: str) -> ObservedRunLog:
        """Begin to follow *run_id*; events that arrived before its submitter knew the run id count as well."""
        log = self.logs[run_id] = self.logs.get(run_id) or self._early.pop(run_id, None) or ObservedRunLog()
        return log

    async def until(self, run_id: str, condition: Callable[[ObservedRunLog], bool], timeout_s: float) -> bool:
        """Wait until the log of *run_id* is as wanted, or has ended; return whether it is as wanted."""
        log = self.logs[run_id]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not condition(log) and not log.ended:
                    log.grew.clear()
                    await log.grew.wait()
        return condition(log)

    def open(self) -> list[str]:
        """Return the runs that have not been seen to end."""
        return [run_id for run_id, log in self.logs.items() if not log.ended]

    async def _on_events(self, message: Msg) -> None:
        message_body = json.loads(message.data)
        log = self.logs.get(message_body["run_id"]) or self._early.setdefault(message_body["run_id"], ObservedRunLog())
        for entry in message_body["entries"]:
            log.add(entry["seq"], entry["event"]["type"])

    async def poll(self) -> None:
        """Read from Postgres what NATS did not deliver, until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            incomplete = {run_id: log for run_id, log in self.logs.items() if not _is_complete(log)}
            if not incomplete:
                continue
            known = [log.contiguous for log in incomplete.values()]
            for run_id, seq, event in await self._reader.rows(_NEWS, list(incomplete), known) or ():
                incomplete[run_id].add(seq, event)


def _is_complete(log: ObservedRunLog) -> bool:
    return log.ended and log.contiguous == max(log.types)


async def _log_connection_error(error: Exception) -> None:
    """nats-py would log an error with a traceback, and here the broker is killed on purpose."""
    _log.debug("nats: %s", error)


def types_in_order(log: ObservedRunLog) -> Sequence[str]:
    """Return the types of a log that was seen whole."""
    return [log.types[seq] for seq in sorted(log.types)]

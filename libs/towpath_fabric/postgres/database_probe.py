"""Whether the database answers at all, asked while a request takes long.

A server that is stopped, or whose disk hangs, refuses nothing: whoever waits for it would be told no more than that no
answer came. What is asked costs nothing while requests are short.
"""

import asyncio
from typing import Any

from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.subjects import TASK_SUBMIT_ANONYMOUS
from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.database_hosts import DatabaseHosts

SILENT_AFTER_S = 1.5
"""With the time after which requests are looked at it is less than callers wait for an answer."""

CONNECTS_AFTER_S = 0.3
"""A pool that answers saves the connection: requests that wait for the end of a run are looked at while it goes on."""

BELIEVED_S = 0.5
"""What was found serves all requests that are looked at within this time, however many wait."""

REMEDY = (
    "Look at the database server: whether it runs, is not stopped, and has room on its disk; towpath doctor says what "
    "waits for it. Accepted runs are safe, and go on by themselves; "
)

ASK_AGAIN = "send this request again."
SUBMIT_AGAIN = "submit again under the same idempotency key."


_NAMES = {"tas": "tool-access service", "log_writer": "log-writer"}
"""How people call a role, where that is not its name."""


class DatabaseProbe:
    """Asks the database of *role* at *dsn*, over *pool* and over a connection of its own: either may be busy."""

    def __init__(self, pool: Any, dsn: str, role: str) -> None:
        self._pool = pool
        self._hosts = DatabaseHosts(dsn)
        self._role = role
        self._found: asyncio.Future[bool] | None = None
        self._found_at = 0.0

    async def silence(self, subject: str = "") -> Problem | None:
        """Return what to tell whoever waits for an answer on *subject*; None where the database answers."""
        if self._found is None or (self._found.done() and monotonic() - self._found_at > BELIEVED_S):
            self._found = asyncio.ensure_future(self._ask())
        return database_silent(self._role, subject) if await asyncio.shield(self._found) else None

    async def _ask(self) -> bool:
        try:
            return await self._is_silent()
        finally:
            self._found_at = monotonic()

    async def _is_silent(self) -> bool:
        asked = {asyncio.ensure_future(self._pool.fetchval("SELECT 1"))}
        try:
            if await _one_answers(asked, CONNECTS_AFTER_S):
                return False
            asked.add(asyncio.ensure_future(self._connect()))
            return not await _one_answers(asked, SILENT_AFTER_S - CONNECTS_AFTER_S)
        finally:
            for one in asked:
                one.add_done_callback(_forget)
                one.cancel()  # not waited for: a connection that hangs is given back when the server goes on

    async def _connect(self) -> None:
        connection = await self._hosts.connect()
        await connection.close(timeout=SILENT_AFTER_S)


async def _one_answers(asked: set["asyncio.Future[Any]"], seconds: float) -> bool:
    waiting, until = asked, monotonic() + seconds
    while waiting:
        done, waiting = await asyncio.wait(
            waiting, timeout=max(0.0, until - monotonic()), return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            return False
        if any(one.exception() is None for one in done):
            return True
    return False


def database_silent(role: str, subject: str = "") -> Problem:
    """Return the problem of whoever waits for *role* on *subject*, which waits for the database."""
    again = SUBMIT_AGAIN if subject.startswith(TASK_SUBMIT_ANONYMOUS) else ASK_AGAIN
    detail = f"Postgres does not answer the {_NAMES.get(role, role)}"
    return problem("unavailable", detail, retry_after_s=2, remedy=f"{REMEDY}{again}")


def _forget(one: "asyncio.Future[Any]") -> None:
    if not one.cancelled():
        one.exception()

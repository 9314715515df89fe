"""Where services touch the world: a database, a wire to the broker, feeds of messages.

What decides, and what keeps the order of commit, send and acknowledge, sees the world through these alone. In a
process they are asyncpg's pool, `Bus` and `PullConsumer`; in the simulation, tables and a broker in memory.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from nats.aio.msg import Msg
from pydantic import BaseModel

from towpath_contracts.base import Message
from towpath_contracts.rpc import Method
from towpath_fabric.fair_request_queue import Rules

R = TypeVar("R", bound=Message)
B = TypeVar("B", bound=BaseModel)


class Session(Protocol):
    """One connection: every statement is its own transaction, unless one is open. Raises what `DATABASE_DOWN` lists."""

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        """Run a statement and return its rows."""

    async def fetchrow(self, query: str, *values: Any) -> Any:
        """Run a statement and return its first row, or None."""

    async def fetchval(self, query: str, *values: Any) -> Any:
        """Run a statement and return the first column of its first row, or None."""

    async def execute(self, query: str, *values: Any) -> str:
        """Run a statement."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Commit what is done inside together, at the end of the block."""


class Acquiring(Awaitable[Any], AbstractAsyncContextManager[Any], Protocol):
    """A session that is being taken: awaited, it is the caller's to release; in a block, it goes back by itself."""


class Database(Protocol):
    """A pool of sessions; a statement runs on any of them."""

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        """Run a statement and return its rows."""

    async def fetchrow(self, query: str, *values: Any) -> Any:
        """Run a statement and return its first row, or None."""

    async def fetchval(self, query: str, *values: Any) -> Any:
        """Run a statement and return the first column of its first row, or None."""

    async def execute(self, query: str, *values: Any) -> str:
        """Run a statement."""

    def acquire(self) -> Acquiring:
        """Take one session."""

    async def release(self, connection: Any) -> None:
        """Give a session back."""


class Ear(Protocol):
    """A subscription."""

    async def stop(self) -> None:
        """Hear no more."""


class Wire(Protocol):
    """A connection to the broker. What each promises, and what not, is said at `towpath_fabric.nats.bus.Bus`."""

    @property
    def connected(self) -> bool:
        """Whether there is a broker at the other end, as far as is known."""

    @property
    def reconnects(self) -> int:
        """How often the connection was made anew."""

    async def post(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> bool:
        """Send without waiting."""

    async def store(
        self, subject: str, body: bytes, headers: Mapping[str, str] | None = None, timeout_s: float = 2.0
    ) -> bool:
        """Publish into a stream and wait for the broker's word."""

    async def ask(self, method: Method, request: Message, timeout_s: float = 5.0) -> Any:
        """Ask another service."""

    async def listen(self, subject: str, heard: Callable[[Msg], Awaitable[None]], *, shared: bool = False) -> Ear:
        """Call *heard* for every message on *subject*."""

    def answer(self, method: Method, handler: Callable[[Any], Awaitable[Message]]) -> None:
        """Serve a method."""

    def answer_subject(
        self,
        subject: str,
        request: type[B],
        handler: Callable[[B, str], Awaitable[Message]],
        *,
        strict: bool = False,
        at_once: int = ...,
    ) -> None:
        """Serve requests on a subject."""

    async def answer_in_turns(
        self,
        words: tuple[str, ...],
        request: type[B],
        handler: Callable[[B, str], Awaitable[Message]],
        rules: Rules,
    ) -> Callable[[], Awaitable[None]]:
        """Serve requests on subjects, in turns of who asks; returns what stops that."""


class Feed(Protocol):
    """Messages of one consumer. `paused` asks for no more, for as long as the database is away."""

    paused: bool

    @property
    def waiting(self) -> int:
        """Messages that are here and not taken."""

    async def take(self, most: int) -> list[Msg]:
        """Wait for at least one message; return up to *most* that are here."""

    def take_now(self, most: int) -> list[Msg]:
        """Return what is here, possibly nothing."""

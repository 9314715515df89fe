"""The ports through which services reach the outside world: database, message bus, message source.

Application code uses these protocols only. In a process they are asyncpg's pool, `Bus` and `PullConsumer`; in the
simulation they are tables and a broker in memory, so that what is simulated is the code that runs.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from nats.aio.msg import Msg

from towpath_contracts.base import Message
from towpath_contracts.rpc import RpcMethod
from towpath_fabric.turns.fair_request_queue import FairQueueLimits

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Message]])


class DatabaseConnection(Protocol):
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


class ConnectionAcquisition(Awaitable[Any], AbstractAsyncContextManager[Any], Protocol):
    """A connection that is being acquired: awaited, the caller releases it; as a context manager, it is released."""


class Database(Protocol):
    """A pool of connections; a statement runs on any of them."""

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        """Run a statement and return its rows."""

    async def fetchrow(self, query: str, *values: Any) -> Any:
        """Run a statement and return its first row, or None."""

    async def fetchval(self, query: str, *values: Any) -> Any:
        """Run a statement and return the first column of its first row, or None."""

    async def execute(self, query: str, *values: Any) -> str:
        """Run a statement."""

    def acquire(self) -> ConnectionAcquisition:
        """Acquire one connection."""

    async def release(self, connection: Any) -> None:
        """Release a connection."""


class Subscription(Protocol):
    """A running subscription; `stop` ends it."""

    async def stop(self) -> None:
        """End the subscription."""


class MessageBus(Protocol):
    """A connection to the broker; `towpath_fabric.nats.bus.Bus` documents what each method guarantees."""

    @property
    def connected(self) -> bool:
        """Whether the broker is reachable, as far as is known."""

    @property
    def reconnects(self) -> int:
        """How often the connection was re-established."""

    async def wait_reconnect(self, seen: int) -> int:
        """Wait until the connection was re-established more than *seen* times and is there; returns how often."""

    async def publish(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> bool:
        """Publish without waiting for the broker."""

    async def store(
        self, subject: str, body: bytes, headers: Mapping[str, str] | None = None, timeout_s: float = 2.0
    ) -> bool:
        """Publish into a stream and wait for the broker's acknowledgement."""

    async def request(self, method: RpcMethod, request: Message, timeout_s: float = 5.0) -> Any:
        """Call a method of another service."""

    async def subscribe(
        self, subject: str, handler: Callable[[Msg], Awaitable[None]], *, shared: bool = False
    ) -> Subscription:
        """Call *handler* for every message on *subject*."""

    def subscriber(self, address: RpcMethod | str) -> Callable[[Handler], Handler]:
        """Return the decorator for a handler of the requests on *address*."""

    async def subscribe_fairly(
        self,
        subjects: tuple[str, ...],
        handler: Callable[[Any, str], Awaitable[Message]],
        limits: FairQueueLimits,
    ) -> Callable[[], Awaitable[None]]:
        """Answer the requests on *subjects* in turns of their callers; returns what stops that."""


class MessageConsumer(Protocol):
    """Messages of one consumer. Where `paused` is set, no more are requested: the database is unreachable."""

    paused: bool

    @property
    def waiting(self) -> int:
        """Messages that were received and not taken yet."""

    async def take(self, limit: int) -> list[Msg]:
        """Wait for at least one message; return up to *limit* received ones."""

    def take_now(self, limit: int) -> list[Msg]:
        """Return up to *limit* received messages, possibly none."""

    def take_in_turns(self, limit: int, most_of_one: int, owner_of: Callable[[Msg], str]) -> list[Msg]:
        """Return received messages in turns of their owners: up to *limit*, of one owner up to *most_of_one*."""

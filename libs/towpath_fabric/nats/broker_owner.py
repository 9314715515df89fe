"""Connections to a broker that has to be a process of one OS user.

Whoever listens at the address of a broker that is down is taken for it, and would be sent the login and the messages.
Where the owner is given, the kernel is asked whose socket the other end of the connection is, after its first line and
before it is believed or sent a byte: only then has a process accepted the connection. A stranger is hung up on, and the
client tries again as if nobody were there. The rule sits in the transport, so that no path of nats-py goes around it.
With TLS the handshake comes first. Other systems than Linux don't show whose sockets they are; there whoever answers is
taken for the broker.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.errors import Error as NatsError

from towpath_fabric.nats.cancellable_nats_client import CancellableNatsClient
from towpath_fabric.socket_owners import connection_user


class BrokerOwnerError(NatsError):
    """The process at the broker's address is not the broker's owner's; nothing was sent to it."""


@contextmanager
def _hung_up() -> Iterator[None]:
    """Turn what uvloop raises where the other end has gone into the error after which nats-py tries again."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionResetError("the broker has hung up") from error


class OwnerCheckedTransport(TcpTransport):
    """Sends nothing before the other end is known to be *owner*'s; what is written earlier is thrown away.

    nats-py keeps the transport of a client between connections, and makes one only where this one says that it is none.
    """

    def __init__(self, owner: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._owner = owner
        self._is_checked = False

    def __bool__(self) -> bool:
        return True

    async def connect(self, *arguments: Any, **options: Any) -> None:
        """Connect; the new connection is not checked yet."""
        self._is_checked = False
        await super().connect(*arguments, **options)

    async def readline(self) -> bytes:
        """Return the next line; raises BrokerOwnerError instead of the first one of a stranger."""
        try:
            line: bytes = await super().readline()  # type: ignore[no-untyped-call]
            if line and not self._is_checked:
                self._check()
                self._is_checked = True
        except (BrokerOwnerError, ValueError) as error:
            self.close()  # type: ignore[no-untyped-call]
            if isinstance(error, ValueError):  # a line without an end: nats-py would never try again
                raise BrokerOwnerError("who answers in place of the broker does not speak as one") from error
            raise
        return line

    def write(self, payload: bytes) -> None:
        """Write, or throw away what would go to nobody knows whom."""
        if self._is_checked:
            with _hung_up():
                super().write(payload)  # type: ignore[no-untyped-call]

    def writelines(self, payload: list[bytes]) -> None:
        """Write, or throw away what would go to nobody knows whom."""
        if self._is_checked:
            with _hung_up():
                super().writelines(payload)  # type: ignore[no-untyped-call]

    async def drain(self) -> None:
        """Wait until what was written is on its way."""
        if self._is_checked:
            with _hung_up():
                await super().drain()  # type: ignore[no-untyped-call]

    def _check(self) -> None:
        if sys.platform != "linux":
            return
        assert self._io_writer is not None
        ends = [self._io_writer.get_extra_info(name) for name in ("sockname", "peername")]
        if None in ends:
            raise BrokerOwnerError("who answered in place of the broker has gone again")
        here, there = (end[:2] for end in ends)
        owner = connection_user(there, here)
        if owner == self._owner:
            return
        place = f"{there[0]}:{there[1]}"
        whose = "no process that this machine knows" if owner is None else f"a process of another user ({owner})"
        msg = f"at {place}, in place of the broker of user {self._owner}, answers {whose}; it was sent nothing"
        raise BrokerOwnerError(msg)


def client_of(owner: int | None) -> CancellableNatsClient:
    """Return a client that talks to a broker of *owner* alone, to any where it is None; it is not connected yet."""
    client = CancellableNatsClient()
    if owner is not None:
        client._transport = OwnerCheckedTransport(owner)
    return client


async def connect(addresses: str | Sequence[str], *, owner: int | None, **options: Any) -> Client:
    """Connect as `nats.connect` does, to a broker of *owner* alone: to one address, or to any node of a cluster."""
    client = client_of(owner)
    await client.connect([addresses] if isinstance(addresses, str) else list(addresses), **options)
    return client

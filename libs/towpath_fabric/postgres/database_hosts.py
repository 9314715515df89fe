"""Several hosts of one database, of which one takes writes: the primary, and standbys that may be promoted.

asyncpg asks one host after the other. A host that is frozen, or a machine that is gone from the network, takes a
connection or loses it and never says a word, so the promoted standby behind it would not be asked at all; and a
statement that was sent to it would be waited for until its own timeout. Here a host that is silent delays no other, and
is left. An address with a single host is left to asyncpg: there is nowhere else to go.
"""

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from weakref import WeakSet

import asyncpg

DEFAULT_PORT = 5432
HEAD_START_S = 0.5
"""A host is asked so long before the next one, so that a healthy first one is the only one that is asked."""

LAST_HEAD_START_S = 3.0
"""The host that took the last connection has more, unless it fell silent: an old primary that is back is faster than a
promoted host under load."""

ASK_AGAIN_S = 0.3
"""A host that refused is asked again so often while another one is silent: it may be promoted meanwhile."""

GIVEN_UP_S = 10.0
"""How long one connection is tried for; whoever needs it tries again, and tells of it."""

SILENT_AFTER_S = 3.0
"""A statement may last: only whether its server answers a new connection is looked at, after so long each time."""

PROBED_FOR_S = 2.0
"""A server that does not answer a new connection for so long is left: a promotion takes longer to be decided on."""

Host = tuple[str, int]
AskHost = Callable[[Host], Awaitable[Any]]
REFUSED = (OSError, asyncpg.PostgresError, asyncpg.TargetServerAttributeNotMatched)
NO_FILES_LEFT = (errno.EMFILE, errno.ENFILE)
"""This machine's own trouble, which says nothing about a host."""


class HostConnection(asyncpg.Connection):  # type: ignore[misc]
    """Knows its host, where there are several."""

    host: Host | None = None


class DatabaseHosts:
    """The hosts of the address *dsn*. Whichever took a connection last is asked first.

    So a process stays with the promoted host, also where the old primary comes back and takes writes, too: what
    connections it still has there are ended, idle or not, as soon as another host has taken one.
    """

    def __init__(self, dsn: str) -> None:
        self.hosts = hosts_of(dsn)
        self._dsn = dsn
        self._last: Host | None = None
        self._fell_silent: set[Host] = set()
        self._connections: WeakSet[Any] = WeakSet()
        self._probes: dict[Host, asyncio.Task[bool | None]] = {}

    @property
    def are_several(self) -> bool:
        """Whether there is another host to go to."""
        return len(self.hosts) > 1

    async def connect(self, **options: Any) -> Any:
        """Connect to the first host that takes writes; raises what one of them says where none does."""
        if not self.are_several:
            return await asyncpg.connect(self._dsn, **options)
        options = {"connection_class": HostConnection, **options, **_writes(self._dsn)}

        async def ask(host: Host) -> Any:
            connection = await asyncpg.connect(self._dsn, host=host[0], port=host[1], timeout=GIVEN_UP_S, **options)
            connection.host = host
            return connection

        in_order = sorted(self.hosts, key=lambda host: host != self._last)
        is_known = in_order[0] == self._last and self._last not in self._fell_silent
        head_start = LAST_HEAD_START_S if is_known else HEAD_START_S
        connection = await ConnectionAttempt(in_order, ask, head_start).first_to_accept()
        self._accepted(connection)
        return connection

    def _accepted(self, connection: Any) -> None:
        """Stay with the host of *connection*, and end what is left of those to the other hosts."""
        self._last = connection.host
        self._fell_silent.discard(connection.host)
        for other in [one for one in self._connections if one.host != connection.host]:
            self._connections.discard(other)
            other.terminate()
        self._connections.add(connection)

    async def should_leave(self, host: Host) -> bool:
        """Return whether *host* is silent and another one answers; where none does, this process may be cut off."""
        if await self._answers(host) is not False:
            return False
        self._fell_silent.add(host)
        return True in await asyncio.gather(*(self._answers(other) for other in self.hosts if other != host))

    async def _answers(self, host: Host) -> bool | None:
        """Return whether *host* answers, None where that can't be told; asked once for all that wait for it."""
        if (probe := self._probes.get(host)) is None:
            probe = self._probes[host] = asyncio.create_task(self._probe(host), name="probe a host of postgres")
            probe.add_done_callback(lambda _probe: self._probes.pop(host))
        return await asyncio.shield(probe)

    async def _probe(self, host: Host) -> bool | None:
        """Ask *host* for a connection: an answer of any kind is one."""
        options = {"timeout": PROBED_FOR_S, "target_session_attrs": "any"}
        try:
            connection = await asyncpg.connect(self._dsn, host=host[0], port=host[1], **options)
        except OSError as error:  # a timeout is one
            return None if error.errno in NO_FILES_LEFT else False
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            return True
        connection.terminate()
        return True


class StatementWatch:
    """Watches over one statement: its connection, and with it the statement, ends where its server is to be left."""

    def __init__(self, hosts: DatabaseHosts, connection: Any, host: Host) -> None:
        self._hosts = hosts
        self._connection = connection
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(SILENT_AFTER_S, self._look)
        self._probe: asyncio.Task[None] | None = None

    def over(self) -> None:
        """The statement was answered."""
        self._timer.cancel()
        if self._probe is not None:
            self._probe.cancel()

    def _look(self) -> None:
        self._probe = self._loop.create_task(self._probe_host(), name="watch over a statement")

    async def _probe_host(self) -> None:
        if await self._hosts.should_leave(self._host):
            self._connection.terminate()
        else:
            self._timer = self._loop.call_later(SILENT_AFTER_S, self._look)


class ConnectionAttempt:
    """Asks several hosts for one connection; over once each has refused, or after GIVEN_UP_S."""

    def __init__(self, hosts: Sequence[Host], ask: AskHost, head_start: float = HEAD_START_S) -> None:
        self._ask = ask
        self._errors: dict[Host, Exception] = {}
        self._refused = {host: asyncio.Event() for host in hosts}
        self._asked = {host: asyncio.Event() for host in hosts}
        self._head_starts = dict.fromkeys(hosts, HEAD_START_S) | {hosts[0]: head_start}

    async def first_to_accept(self) -> Any:
        """Return what the first host that accepts gives; raise what they said where none does."""
        befores = (None, *self._refused)
        tasks = [
            asyncio.create_task(self._ask_until_accepted(host, before))
            for host, before in zip(self._refused, befores, strict=False)
        ]
        over = asyncio.create_task(self._all_refused())
        accepted: Any = None
        try:
            await asyncio.wait([*tasks, over], timeout=GIVEN_UP_S, return_when=asyncio.FIRST_COMPLETED)
            answered = next((task for task in tasks if task.done()), None)
            if answered is None:
                raise _why(tuple(self._refused), self._errors)
            accepted = answered.result()  # what is no refusal, such as a value that can't be read, is raised
            return accepted
        finally:
            await _end([*tasks, over], accepted)

    async def _ask_until_accepted(self, host: Host, before: Host | None) -> Any:
        """Ask *host*, once the one before has refused or had its head start, until it accepts."""
        if before is not None:
            await self._asked[before].wait()
            waiting = asyncio.ensure_future(self._refused[before].wait())
            try:
                await asyncio.wait([waiting], timeout=self._head_starts[before])
            finally:
                waiting.cancel()
        self._asked[host].set()
        while True:
            try:
                return await self._ask(host)
            except REFUSED as error:
                self._errors[host] = error
                self._refused[host].set()
            await asyncio.sleep(ASK_AGAIN_S)

    async def _all_refused(self) -> None:
        for event in self._refused.values():
            await event.wait()


async def _end(tasks: Sequence["asyncio.Task[Any]"], accepted: Any) -> None:
    """End what is under way, and every connection but the *accepted* one; where this is cancelled, that one too."""

    def leave(task: "asyncio.Task[Any]") -> None:
        if task.cancelled() or task.exception() is not None:
            return
        if (found := task.result()) is not None and found is not accepted:
            found.terminate()

    for task in tasks:
        task.add_done_callback(leave)
        task.cancel()
    try:
        await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        if accepted is not None:
            accepted.terminate()
        raise


def hosts_of(dsn: str) -> tuple[Host, ...]:
    """Return the hosts that *dsn* names, none where it can't be read: asyncpg then says why."""
    try:
        parts = urlsplit(dsn)
        options = parse_qs(parts.query)
        named = unquote(parts.netloc.rpartition("@")[2]) or options.get("host", [""])[-1]
        ports = options.get("port", [""])[-1].split(",")
        places = named.split(",")
        default = ports if len(ports) == len(places) else ports[:1] * len(places)
        return tuple(_host(place, port) for place, port in zip(places, default, strict=True) if place)
    except ValueError:
        return ()


def _host(place: str, port: str) -> Host:
    if place.startswith("/"):
        return place, int(port or DEFAULT_PORT)
    name, _, own = place.rpartition(":") if ":" in place.rpartition("]")[2] else (place, "", "")
    return name.strip("[]"), int(own or port or DEFAULT_PORT)


def _writes(dsn: str) -> dict[str, str]:
    """Return what makes a connection look for the primary, unless *dsn* says otherwise: services always write."""
    return {} if "target_session_attrs" in parse_qs(urlsplit(dsn).query) else {"target_session_attrs": "read-write"}


def _why(hosts: Sequence[Host], errors: dict[Host, Exception]) -> Exception:
    """Return the error of a host that has another reason than that it can't be reached, or all reasons in one."""
    if len({type(error) for error in errors.values()}) == 1 and len(errors) == len(hosts):
        return errors[hosts[0]]
    for error in errors.values():
        waits = isinstance(error, OSError | asyncpg.TargetServerAttributeNotMatched)
        if not waits or isinstance(error, ssl.SSLCertVerificationError):
            return error
    said = [f"{host[0]}:{host[1]}: {_reason(errors.get(host))}" for host in hosts]
    return ConnectionError(f"no host takes writes; {'; '.join(said)}")


def _reason(error: Exception | None) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "it is a standby, or takes no writes"
    return "it does not answer" if error is None or not str(error) else str(error).splitlines()[0]

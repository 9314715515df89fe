"""Which hosts an address names, and which of several is gone to."""

import asyncio
import errno
from collections import Counter
from typing import Any

import asyncpg
import pytest

from towpath_fabric.postgres import database_hosts
from towpath_fabric.postgres.database_hosts import ConnectionAttempt, DatabaseHosts, Host, hosts_of

ADDRESSES = {
    "postgresql://u:p@db/towpath": (("db", 5432),),
    "postgresql://u:p@db:6432/towpath": (("db", 6432),),
    "postgresql://u:a,b@one:1,two/towpath?sslmode=require": (("one", 1), ("two", 5432)),
    "postgresql://u@[::1]:7,[fe80::2]/towpath": (("::1", 7), ("fe80::2", 5432)),
    "postgresql://u@/towpath?host=/run/a&port=5433": (("/run/a", 5433),),
    "postgresql://u@/towpath?host=/run/a,/run/b&port=1,2": (("/run/a", 1), ("/run/b", 2)),
    "postgresql://u@/towpath?host=one,two&port=6": (("one", 6), ("two", 6)),
    "postgresql://u@%2Frun%2Fa/towpath": (("/run/a", 5432),),
    "postgresql:///towpath": (),
    "postgresql://u@db:port/towpath": (),
    "postgresql://u@[::1/towpath": (),
}

ONE: Host = ("one", 1)
TWO: Host = ("two", 2)


class Connected:
    """A connection, which can be ended."""

    def __init__(self, host: Host | None = None) -> None:
        self.host = host
        self.ended = False

    def terminate(self) -> None:
        self.ended = True


@pytest.mark.parametrize("dsn", ADDRESSES)
def test_the_hosts_of_an_address_are_read(dsn: str) -> None:
    assert hosts_of(dsn) == ADDRESSES[dsn]
    assert DatabaseHosts(dsn).are_several is (len(ADDRESSES[dsn]) > 1)


async def test_a_standby_that_is_promoted_while_the_other_host_is_silent_is_found() -> None:
    asked: list[Host] = []
    connected = Connected()

    async def ask(host: Host) -> Connected:
        asked.append(host)
        if host == ONE:
            await asyncio.Event().wait()
        if asked.count(TWO) < 3:
            raise asyncpg.TargetServerAttributeNotMatched
        return connected

    assert await ConnectionAttempt((ONE, TWO), ask).first_to_accept() is connected
    assert asked == [ONE, TWO, TWO, TWO] and not connected.ended


async def test_an_attempt_is_over_once_every_host_has_refused() -> None:
    async def ask(host: Host) -> Connected:
        if host == ONE:
            raise ConnectionRefusedError("refused")
        raise asyncpg.TargetServerAttributeNotMatched

    with pytest.raises(ConnectionError) as raised:
        await ConnectionAttempt((ONE, TWO), ask).first_to_accept()
    assert str(raised.value) == "no host takes writes; one:1: refused; two:2: it is a standby, or takes no writes"


async def test_standbys_alone_and_a_login_that_is_denied_are_told_as_asyncpg_does() -> None:
    errors: dict[Host, Exception] = dict.fromkeys((ONE, TWO), asyncpg.TargetServerAttributeNotMatched("none"))

    async def ask(host: Host) -> Connected:
        raise errors[host]

    with pytest.raises(asyncpg.TargetServerAttributeNotMatched):
        await ConnectionAttempt((ONE, TWO), ask).first_to_accept()
    errors[TWO] = asyncpg.InvalidPasswordError("denied")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await ConnectionAttempt((ONE, TWO), ask).first_to_accept()


async def test_a_second_connection_is_ended() -> None:
    made = {ONE: Connected(), TWO: Connected()}
    both = asyncio.Event()

    async def ask(host: Host) -> Connected:
        if host == TWO:
            both.set()
        await both.wait()
        return made[host]

    chosen = await ConnectionAttempt((ONE, TWO), ask).first_to_accept()
    assert [one.ended for one in made.values() if one is not chosen] == [True] and not chosen.ended


async def test_no_connection_stays_open_where_the_attempt_is_cancelled_at_its_end() -> None:
    accepted = Connected()
    both, cancelled = asyncio.Event(), asyncio.Event()

    async def ask(host: Host) -> Connected:
        if host == TWO:
            both.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                await asyncio.Event().wait()
        await both.wait()
        return accepted

    attempt = asyncio.create_task(ConnectionAttempt((ONE, TWO), ask, head_start=0).first_to_accept())
    await cancelled.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert accepted.ended


async def test_no_task_is_left_of_a_host_that_was_not_asked() -> None:
    connected = Connected(ONE)

    async def ask(_host: Host) -> Connected:
        await asyncio.sleep(0)  # until the other host waits for its turn
        return connected

    assert await ConnectionAttempt((ONE, TWO), ask, head_start=30).first_to_accept() is connected
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_is_no_refusal_is_raised() -> None:
    async def ask(_host: Host) -> Connected:
        raise ValueError("an address that can't be read")

    with pytest.raises(ValueError, match="can't be read"):
        await ConnectionAttempt((ONE, TWO), ask).first_to_accept()


async def test_the_head_start_of_the_first_host_delays_every_other_one() -> None:
    asked: list[Host] = []
    three: Host = ("three", 3)
    waiting = asyncio.Event()

    async def ask(host: Host) -> Connected:
        asked.append(host)
        if host != three:
            waiting.set()
            await asyncio.Event().wait()
        return Connected(host)

    attempt = asyncio.create_task(ConnectionAttempt((ONE, TWO, three), ask, head_start=30).first_to_accept())
    await waiting.wait()
    await asyncio.sleep(2 * database_hosts.HEAD_START_S)
    assert asked == [ONE], "the third one waits for the second one to be asked"
    attempt.cancel()
    assert (await ConnectionAttempt((ONE, TWO, three), ask, head_start=0).first_to_accept()).host == three


class Servers:
    """Stands in for the network: which hosts take connections, which are silent, and what this machine lacks."""

    def __init__(self) -> None:
        self.asked: Counter[Host] = Counter()
        self.refusals: dict[Host, Exception] = {}
        self.silent: set[Host] = set()
        self.delays: dict[Host, float] = {}
        self.both_asked: asyncio.Event | None = None

    async def connect(self, _dsn: str, *, host: str, port: int, **_options: Any) -> Connected:
        place = (host, port)
        self.asked[place] += 1
        await asyncio.sleep(self.delays.get(place, 0))
        if self.both_asked is not None:
            if len(self.asked) > 1:
                self.both_asked.set()
            await self.both_asked.wait()
        if place in self.silent:
            raise TimeoutError
        if place in self.refusals:
            raise self.refusals[place]
        return Connected(place)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Two servers, ONE and TWO, which take every connection."""
    found = Servers()
    monkeypatch.setattr(asyncpg, "connect", found.connect)
    return found


@pytest.fixture
def hosts() -> DatabaseHosts:
    """The address of both servers."""
    return DatabaseHosts("postgresql://u@one:1,two:2/towpath")


async def test_connections_to_the_host_that_was_left_are_ended(servers: Servers, hosts: DatabaseHosts) -> None:
    old = [await hosts.connect(), await hosts.connect()]
    assert [one.host for one in old] == [ONE, ONE] and not any(one.ended for one in old)
    servers.refusals[ONE] = ConnectionRefusedError()
    new = await hosts.connect()
    assert new.host == TWO and not new.ended and all(one.ended for one in old)
    servers.refusals.clear()
    assert (await hosts.connect()).host == TWO, "an old primary that is back is not asked"
    assert not new.ended


async def test_the_last_host_may_be_slower_than_an_old_primary_that_is_back(
    servers: Servers, hosts: DatabaseHosts
) -> None:
    first = await hosts.connect()
    servers.delays[ONE] = 2 * database_hosts.HEAD_START_S
    second = await hosts.connect()
    assert second.host == ONE and not first.ended and not servers.asked[TWO]


async def test_a_last_host_that_fell_silent_has_no_longer_head_start(
    servers: Servers, hosts: DatabaseHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_hosts, "LAST_HEAD_START_S", 60.0)
    await hosts.connect()
    servers.silent.add(ONE)
    assert await hosts.should_leave(ONE)
    servers.silent.clear()
    servers.delays[ONE] = 30
    async with asyncio.timeout(20):
        assert (await hosts.connect()).host == TWO


async def test_a_connection_that_is_not_the_accepted_one_does_not_say_which_host_was_last(
    servers: Servers, hosts: DatabaseHosts
) -> None:
    servers.both_asked = asyncio.Event()
    accepted = await hosts.connect()
    assert accepted.host == ONE and servers.asked == {ONE: 1, TWO: 1}
    servers.both_asked = None
    assert (await hosts.connect()).host == ONE and servers.asked[TWO] == 1 and not accepted.ended


async def test_all_statements_that_wait_for_a_host_share_one_question(servers: Servers, hosts: DatabaseHosts) -> None:
    servers.silent.add(ONE)
    servers.delays[ONE] = 0.1
    assert await asyncio.gather(*(hosts.should_leave(ONE) for _ in range(16))) == [True] * 16
    assert servers.asked == {ONE: 1, TWO: 1}
    servers.silent.clear()
    assert not await hosts.should_leave(ONE), "what was found is not kept"


async def test_a_statement_that_ends_does_not_end_the_question_of_the_others(
    servers: Servers, hosts: DatabaseHosts
) -> None:
    servers.silent.add(ONE)
    servers.delays[ONE] = 0.1
    ended, waits = (asyncio.create_task(hosts.should_leave(ONE)) for _ in range(2))
    await asyncio.sleep(0)
    ended.cancel()
    assert await waits and servers.asked[ONE] == 1


async def test_a_host_is_left_only_where_another_one_answers(servers: Servers, hosts: DatabaseHosts) -> None:
    servers.silent |= {ONE, TWO}
    assert not await hosts.should_leave(ONE), "this process may be cut off"
    servers.silent.discard(TWO)
    for refusal in (asyncpg.InvalidPasswordError("no"), asyncpg.CannotConnectNowError("starting")):
        servers.refusals[TWO] = refusal
        assert await hosts.should_leave(ONE), "any answer is one"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
async def test_a_machine_without_free_files_learns_nothing_about_its_hosts(
    code: int, servers: Servers, hosts: DatabaseHosts
) -> None:
    servers.refusals[ONE] = OSError(code, "too many open files")
    assert not await hosts.should_leave(ONE)
    servers.silent.add(ONE)
    servers.refusals[TWO] = OSError(code, "too many open files")
    assert not await hosts.should_leave(ONE)

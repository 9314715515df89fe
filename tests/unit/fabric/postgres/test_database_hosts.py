"""Which hosts an address names, and which of several is gone to."""

import asyncio

import asyncpg
import pytest

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

    def __init__(self) -> None:
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


async def test_what_is_no_refusal_is_raised() -> None:
    async def ask(_host: Host) -> Connected:
        raise ValueError("an address that can't be read")

    with pytest.raises(ValueError, match="can't be read"):
        await ConnectionAttempt((ONE, TWO), ask).first_to_accept()

"""A database that says nothing is found silent; one that answers on any connection is not, however busy the pool is."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.postgres import database_probe
from towpath_fabric.postgres.database_probe import DatabaseProbe
from towpath_gateway.adapters import key_store


class FullPool:
    """All connections are busy."""

    async def fetchval(self, _query: str) -> None:
        await asyncio.Event().wait()


class AnsweringPool:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def fetchval(self, _query: str) -> int:
        self.asked += 1
        return 1


@pytest.fixture
async def silent_dsn(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The address of a server that takes connections and never says a word, as one does that is stopped."""
    monkeypatch.setattr(database_probe, "SILENT_AFTER_S", 0.1)
    met: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: met.append(writer), "127.0.0.1", 0)
    yield f"postgresql://nobody@127.0.0.1:{server.sockets[0].getsockname()[1]}/none"
    for writer in met:
        writer.close()
    server.close()


async def test_a_server_that_says_nothing_is_silent(silent_dsn: str) -> None:
    found = await DatabaseProbe(FullPool(), silent_dsn, "tas").silence()
    assert found is not None and found.code == "unavailable" and found.retryable
    assert found.detail == "Postgres does not answer the tool-access service" and "towpath doctor" in found.remedy


@pytest.mark.parametrize(
    ("subject", "again"),
    [
        ("task.submit.crm", "submit again under the same idempotency key."),
        ("task.get.crm", "send this request again."),
        ("", "send this request again."),
    ],
)
async def test_who_only_asked_is_not_told_to_submit(subject: str, again: str, silent_dsn: str) -> None:
    found = await DatabaseProbe(FullPool(), silent_dsn, "tas").silence(subject)
    assert found is not None and found.remedy.endswith(f"by themselves; {again}")


async def test_a_pool_that_answers_saves_the_connection(silent_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []
    monkeypatch.setattr("asyncpg.connect", connected.append)
    assert await DatabaseProbe(AnsweringPool(), silent_dsn, "tas").silence() is None and connected == []
    assert database_probe.CONNECTS_AFTER_S == 0.3, "the rest of the time is enough for a connection over TLS"


async def test_one_connection_that_answers_suffices(silent_dsn: str) -> None:
    assert await DatabaseProbe(AnsweringPool(), silent_dsn, "tas").silence() is None


async def test_a_new_connection_answers_for_a_pool_that_is_full(database: Callable[..., str]) -> None:
    assert await DatabaseProbe(FullPool(), database(), "tas").silence() is None


async def test_whoever_asks_at_the_same_time_gets_one_answer(silent_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = AnsweringPool()
    probe = DatabaseProbe(pool, silent_dsn, "orchestrator")
    await asyncio.gather(*(probe.silence() for _ in range(9)))
    await probe.silence()
    assert pool.asked == 1, "what was just found is believed"
    monkeypatch.setattr(database_probe, "BELIEVED_S", 0.0)
    await asyncio.sleep(0.01)
    await probe.silence()
    assert pool.asked == 2


async def test_a_look_at_the_keys_of_a_gateway_ends_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_store, "ANSWER_S", 0.01)
    with pytest.raises(ProblemError) as caught:
        await key_store._query(asyncio.Event().wait)
    assert caught.value.problem.code == "unavailable"
    assert caught.value.problem.detail == "Postgres does not answer the gateway"

"""`towpath doctor` and `towpath db` find what would end a service, or keep it waiting, without starting one."""

import asyncio
import json
from collections.abc import Callable

import asyncpg
import pytest
from tests.conftest import DatabaseUrl

from towpath.cli import main
from towpath.cli.administration.server_checks import DoctorCheck, check_servers

NEWER = "INSERT INTO public.towpath_migration (owner, version, name, checksum) VALUES ('towpath_tas', '9001', 'x', '')"
OLDER = "DELETE FROM public.towpath_migration WHERE owner = 'towpath_log_writer'"

Environment = Callable[..., None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Sets the variables that are named, without TOWPATH_ before them, and no other one of these."""

    def put(**variables: str) -> None:
        for name in ("NATS_URL", "NATS_USER", "NATS_PASSWORD", "DATABASE_URL", "DATABASE_POOL"):
            monkeypatch.delenv(f"TOWPATH_{name}", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(f"TOWPATH_{name}", value)

    return put


async def run(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def only() -> DoctorCheck:
    """Return the one check; a failing one has a remedy."""
    (found,) = await check_servers()
    assert found.good is not False or found.remedy
    return found


async def test_without_addresses_the_doctor_asks_no_server(environment: Environment) -> None:
    environment()
    assert await check_servers() == []


async def test_the_doctor_finds_what_is_wrong_with_a_broker(environment: Environment, nats_url: str) -> None:
    environment(NATS_URL=nats_url)
    assert await only() == ("broker", True, "lets this login in", "")
    environment(NATS_URL="nats://127.0.0.1:1")
    found = await only()
    assert not found.good and "no broker answers: " in found.detail
    environment(NATS_URL="nats://127.0.0.1:port")
    assert (await only()).detail.startswith("settings_invalid: TOWPATH_NATS_URL: address 1 of 1 can't be read")
    environment(NATS_URL=nats_url, DATABASE_POOL="many")
    found = await only()
    assert found.detail.startswith("settings_invalid: ") and "TOWPATH_DATABASE_POOL" in found.detail


async def test_the_doctor_asks_every_node_of_a_list_of_brokers(environment: Environment, nats_url: str) -> None:
    environment(NATS_URL=f"{nats_url}, {nats_url.replace('127.0.0.1', 'localhost')}")
    assert await only() == ("broker", True, "each of its 2 nodes lets this login in", "")
    environment(NATS_URL=f"nats://tas:secret@127.0.0.1:1,{nats_url}")
    found = await only()
    assert found.good is None and found.remedy
    assert found.detail.startswith("1 of 2 nodes lets this login in; 127.0.0.1:1: ") and "secret" not in found.detail
    environment(NATS_URL="nats://127.0.0.1:1,nats://127.0.0.1:2")
    found = await only()
    assert not found.good and found.detail.startswith("no broker answers: ")


async def test_the_doctor_finds_what_is_wrong_with_a_database(
    environment: Environment, database: DatabaseUrl, postgres_dsn: str
) -> None:
    environment(DATABASE_URL=database("tas"))
    assert await only() == ("database", True, "lets this login in, and is migrated", "")
    environment(DATABASE_URL=postgres_dsn)
    assert (await only()).detail.startswith("database_not_migrated: ")
    environment(DATABASE_URL="postgresql://127.0.0.1:1/towpath")
    assert (await only()).detail.startswith("unavailable: ")
    await run(database(), NEWER)
    environment(DATABASE_URL=database("tas"))
    found = await only()
    assert found.good is None and "towpath_tas/9001_x" in found.detail
    await run(database(), OLDER)
    found = await only()
    assert "1 of 7 migrations are missing" in found.detail and "towpath db migrate" in found.remedy


@pytest.mark.prints("db status")
async def test_the_status_of_a_newer_database_says_that_it_is_newer(
    database: DatabaseUrl, capsys: pytest.CaptureFixture[str]
) -> None:
    await run(database(), NEWER)
    status = ["db", "status", "--database-url", database(), "-o", "json"]
    assert await asyncio.to_thread(main, status) == 0
    said = capsys.readouterr()
    assert "newer than this version" in said.err
    rows = json.loads(said.out)["migrations"]
    assert [row["version"] for row in rows if row["newer"]] == ["9001"]
    await run(database(), OLDER)
    assert await asyncio.to_thread(main, status) == 1


@pytest.mark.parametrize(
    ("path", "code", "status"),
    [("/elsewhere", "database_missing", 2), ("/postgres?nonsense=1", "database_setting_refused", 2)],
)
async def test_a_wrong_address_is_told_to_who_migrates(
    path: str, code: str, status: int, postgres_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place, _, query = postgres_dsn.partition("?")
    name, _, more = path.partition("?")
    address = f"{place.rpartition('/')[0]}{name}?{'&'.join(text for text in (query, more) if text)}"
    assert await asyncio.to_thread(main, ["db", "migrate", "--database-url", address]) == status
    assert capsys.readouterr().err.startswith(code)

"""A start that can't succeed ends the process in seconds: one line with a problem, and the exit code of its kind."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.service_process import started

from towpath_contracts.authority import USERS
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres_identity import temporary_folder

SOON_S = 45
"""Of a start that is refused at the first answer; the machine may be busy."""

WITH_TABLES = ("orchestrator", "tas", "gateway", "log_writer")
WITHOUT_TABLES = ("decider", "watchdog")


@pytest.fixture(scope="module")
def broker() -> Iterator[Nats]:
    """A broker with the users of the services, shared by all that is tried here."""
    with temporary_folder() as folder:
        server = Nats(folder, users=USERS)
        asyncio.run(server.start())
        yield server
        asyncio.run(server.stop())


class Ended(NamedTuple):
    """How a process ended."""

    status: int
    problem: dict[str, Any]
    log: str


async def ended(role: str, folder: Path, environment: dict[str, str]) -> Ended:
    """Start *role* and wait for its end, which has to come soon, with one line about a problem and no traceback."""
    if role == "tas":
        environment = {"TOWPATH_TICKET_KEY_FILE": str(folder / "ticket.key"), "TOWPATH_EMBEDDED": "1", **environment}
    began = time.monotonic()
    with started(role, folder=folder, environment=environment) as service:
        status = await service.ended(60)
        log = service.log.read_text()
    assert time.monotonic() - began < SOON_S
    assert "Traceback" not in log
    problems = [line for line in map(json.loads, log.splitlines()) if "code" in line]
    assert len(problems) == 1, log
    assert problems[0]["remedy"]
    return Ended(status, problems[0], log)


def login(broker: Nats, role: str, **changes: str) -> dict[str, str]:
    """What the environment of *role* says of the broker."""
    return {
        "TOWPATH_NATS_URL": broker.url(),
        "TOWPATH_NATS_USER": role,
        "TOWPATH_NATS_PASSWORD": broker.password(role),
        **changes,
    }


def other(dsn: str, **changes: str) -> str:
    """Return *dsn* with another `user`, `database` or `query`."""
    parts = urlsplit(dsn)
    netloc = parts.netloc
    if "user" in changes:
        netloc = f"{changes['user']}:wrong@{netloc.rpartition('@')[2]}"
    query = "&".join(text for text in (parts.query, changes.get("query", "")) if text)
    return urlunsplit(
        (parts.scheme, netloc, f"/{changes['database']}" if "database" in changes else parts.path, query, "")
    )


@pytest.mark.parametrize("role", [*WITH_TABLES, *WITHOUT_TABLES])
async def test_a_wrong_password_of_the_broker_ends_every_service(
    role: str, broker: Nats, database: DatabaseUrl, folder: Path
) -> None:
    tables = {"TOWPATH_DATABASE_URL": database(role)} if role in WITH_TABLES else {}
    found = await ended(role, folder, {**tables, **login(broker, role, TOWPATH_NATS_PASSWORD="never-said")})
    assert (found.status, found.problem["code"]) == (4, "broker_denied")
    assert "never-said" not in found.log
    assert f"the broker knows no user {role} with this password" in found.problem["detail"]


@pytest.mark.parametrize("url", ["nats://127.0.0.1:port", "nats://"])
async def test_an_address_of_the_broker_that_can_t_be_read_ends_a_service(url: str, broker: Nats, folder: Path) -> None:
    found = await ended("decider", folder, login(broker, "decider", TOWPATH_NATS_URL=url))
    assert (found.status, found.problem["code"]) == (2, "settings_invalid")
    assert "TOWPATH_NATS_URL: address 1 of 1 " in found.problem["detail"]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        (lambda dsn: other(dsn, user="towpath_nobody"), 4, "database_denied"),
        (lambda dsn: other(dsn, database="elsewhere"), 2, "database_missing"),
        (lambda dsn: other(dsn, query="plan_cash_mode=auto"), 2, "database_setting_refused"),
        (lambda dsn: other(dsn, query="work_mem=much"), 2, "database_setting_refused"),
        (lambda dsn: f"mysql{dsn.removeprefix('postgresql')}", 2, "database_address_invalid"),
        (lambda _dsn: "postgresql://u:p@ss@[::1/name", 2, "database_address_invalid"),
    ],
    ids=["user", "name", "unknown_parameter", "value", "scheme", "malformed"],
)
async def test_a_wrong_address_of_the_database_ends_a_service(
    change: Callable[[str], str], status: int, code: str, broker: Nats, database: DatabaseUrl, folder: Path
) -> None:
    dsn = change(database("log_writer"))
    found = await ended("log_writer", folder, {"TOWPATH_DATABASE_URL": dsn, **login(broker, "log_writer")})
    assert (found.status, found.problem["code"]) == (status, code)
    assert "TOWPATH_DATABASE_URL" in found.problem["remedy"]
    assert "p@ss" not in found.log


@pytest.mark.parametrize("role", [role for role in WITH_TABLES if role != "gateway"])
async def test_a_service_with_tables_ends_without_an_address_of_the_database(
    role: str, broker: Nats, folder: Path
) -> None:
    found = await ended(role, folder, login(broker, role))
    assert (found.status, found.problem["code"]) == (2, "settings_invalid")
    assert "TOWPATH_DATABASE_URL is not set" in found.problem["detail"]


@pytest.mark.parametrize("role", [*WITH_TABLES, *WITHOUT_TABLES])
async def test_a_setting_that_can_t_be_used_ends_every_service(role: str, folder: Path) -> None:
    found = await ended(role, folder, {"TOWPATH_DATABASE_POOL": "many", "TOWPATH_NATS_TLS_CERT": "/nowhere.pem"})
    assert (found.status, found.problem["code"]) == (2, "settings_invalid")
    assert all(name in found.problem["detail"] for name in ("TOWPATH_DATABASE_POOL", "TOWPATH_NATS_TLS_CERT"))


@pytest.mark.parametrize(
    ("statement", "code", "told"),
    [
        ("DROP TABLE public.towpath_migration", "database_not_migrated", "has no tables of Towpath"),
        (
            "DELETE FROM public.towpath_migration WHERE (owner, version) = ('towpath_tas', '0002')",
            "database_not_migrated",
            "1 of 6 migrations are missing, the first is towpath_tas/0002_ledger",
        ),
        (
            "UPDATE public.towpath_migration SET checksum = 'sha256:other' WHERE owner = 'towpath_gateway'",
            "migration_changed",
            "towpath_gateway/0001_gateway is not the one that this database has",
        ),
        (
            "INSERT INTO public.towpath_migration VALUES ('towpath_tas', '9001', 'x', '', now(), '99.1')",
            "version_too_old",
            "towpath_tas/9001_x is applied, with which services work from 99.1 on; this is ",
        ),
        (
            "REVOKE SELECT ON public.towpath_migration FROM towpath_log_writer",
            "database_not_migrated",
            "this login can't read which migrations are applied",
        ),
    ],
    ids=["never", "older", "changed", "too new", "unreadable"],
)
async def test_a_database_that_is_not_migrated_ends_a_service(
    statement: str, code: str, told: str, broker: Nats, database: DatabaseUrl, folder: Path
) -> None:
    await run(database(), statement)
    found = await ended(
        "log_writer", folder, {"TOWPATH_DATABASE_URL": database("log_writer"), **login(broker, "log_writer")}
    )
    assert (found.status, found.problem["code"]) == (2, code)
    assert told in found.problem["detail"]


async def test_a_service_that_lacks_a_right_of_the_database_ends_and_names_the_table(
    broker: Nats, database: DatabaseUrl, folder: Path
) -> None:
    await run(database(), "REVOKE ALL ON history.sweep FROM towpath_log_writer")
    found = await ended(
        "log_writer", folder, {"TOWPATH_DATABASE_URL": database("log_writer"), **login(broker, "log_writer")}
    )
    assert (found.status, found.problem["code"]) == (4, "database_denied")
    assert "sweep" in found.problem["detail"]


async def test_a_service_works_on_a_newer_database_and_says_so(
    broker: Nats, database: DatabaseUrl, folder: Path
) -> None:
    await run(
        database(),
        "INSERT INTO public.towpath_migration (owner, version, name, checksum) VALUES ('towpath_tas', '9001', 'x', '')",
    )
    environment = {"TOWPATH_DATABASE_URL": database("orchestrator"), **login(broker, "orchestrator")}
    with started("orchestrator", folder=folder, environment=environment) as service:
        await service.wait_ready()
        log = service.log.read_text()
    assert "the database is newer than this version" in log
    assert "towpath_tas/9001_x" in log


async def run(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()

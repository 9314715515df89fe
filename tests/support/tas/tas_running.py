"""A real TAS process with a caller beside it, for tests of the service.

Tests that do the process no harm share one per module and have a project each; the others start their own.
"""

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from tests.support.service_process import ServiceProcess, service_process
from tests.support.tas.audit_bundle import exported
from tests.support.tas.tas_caller import TasCaller

from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres_identity import temporary_folder

Start = Callable[..., "contextlib.AbstractContextManager[ServiceProcess]"]


@dataclass
class Running:
    """A TAS; `dsn` is the database as its owner, `start` starts another replica."""

    caller: TasCaller
    service: ServiceProcess
    dsn: str
    nats: Nats
    start: Start


@dataclass
class Shared:
    """What the tests of a module share."""

    service: ServiceProcess
    dsn: str
    nats: Nats
    start: Start


def starter(nats: Nats, dsn: str, folder: Path, **settings: str) -> Start:
    """Return what starts a replica, by default as the embedded platform does."""

    def start(**more: str) -> "contextlib.AbstractContextManager[ServiceProcess]":
        key = {"ticket_key_file": str(folder / "ticket.key"), "embedded": "1"}
        return service_process("tas", folder, nats.url(), database_url=dsn, **{**key, **settings, **more})

    return start


@contextlib.asynccontextmanager
async def running(nats: Nats, database: Callable[..., str], folder: Path, **settings: str) -> AsyncIterator[Running]:
    """Start a TAS of the test's own with *settings*."""
    start = starter(nats, database("tas"), folder, **settings)
    with start() as process:
        await process.wait_ready()
        async with TasCaller(nats.url()) as caller:
            yield Running(caller=caller, service=process, dsn=database(), nats=nats, start=start)


@pytest.fixture(scope="module")
def shared_tas(postgres_dsn: str, template_database: str) -> Iterator[Shared]:
    """One TAS with its own broker and database for a module."""
    name = f"towpath_tas_{uuid.uuid4().hex[:12]}"
    asyncio.run(_execute(postgres_dsn, f'CREATE DATABASE "{name}" TEMPLATE "{template_database}"'))
    owner = urlunsplit(urlsplit(postgres_dsn)._replace(path=f"/{name}"))
    login = owner.partition("@")[2]
    with temporary_folder() as folder:
        nats = Nats(folder / "nats")
        asyncio.run(nats.start())
        start = starter(nats, f"postgresql://towpath_tas:towpath-test@{login}", folder)
        try:
            with start() as process:
                asyncio.run(process.wait_ready())
                yield Shared(service=process, dsn=owner, nats=nats, start=start)
        finally:
            asyncio.run(nats.stop())
            asyncio.run(_execute(postgres_dsn, f'DROP DATABASE "{name}" WITH (FORCE)'))


@pytest.fixture
async def tas(shared_tas: Shared) -> AsyncIterator[Running]:
    """The module's TAS, and a project where the toolset `orders` is registered and everything is allowed."""
    project = f"p{os.urandom(6).hex()}"
    async with TasCaller(shared_tas.nats.url(), project) as caller:
        await caller.set_up()
        yield Running(
            caller=caller,
            service=shared_tas.service,
            dsn=shared_tas.dsn,
            nats=shared_tas.nats,
            start=shared_tas.start,
        )


@pytest.fixture(autouse=True)
async def audit_holds(tas: Running) -> AsyncIterator[None]:
    """For modules that import it: whatever a test let people and calls do, a bundle of it holds afterwards."""
    yield
    async with exported(tas.dsn, tas.caller.project) as (_, bundles):
        assert (await bundles.report()).faults == []


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()

"""Where docker answers the tests' servers are containers: a service works on what the session's fixtures start there.

Docker is a stub that starts this machine's servers for the images: none is needed, and none that is there is asked.
"""

import asyncio
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests import conftest
from tests.support.platform.containers import docker_answers
from tests.support.platform.stub_docker import StubDocker, machine_servers, use_stub_docker
from tests.support.service_process import service_process
from tests.support.tas.tas_caller import TasCaller


def of(fixture: Any) -> Any:
    """Return what a fixture of the session does, as a block."""
    return contextmanager(fixture.__wrapped__)


def test_f7_a_service_works_on_the_servers_that_fixtures_start_in_containers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row F7: testcontainers, from `docker info` to a call that a tool-access service permits."""
    (folder / "docker").write_text('#!/bin/sh\n[ "$1" = info ]\n')
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    for name in ("TOWPATH_TEST_DATABASE_URL", "TOWPATH_TEST_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    assert docker_answers()
    with machine_servers(folder) as start_server:
        docker = StubDocker(start_server)
        use_stub_docker(monkeypatch, docker)
        with (
            of(conftest.postgres_dsn)() as dsn,
            of(conftest.nats_url)() as address,
            of(conftest.template_database)(dsn) as database,
        ):
            assert [one["image"].partition(":")[0] for one in docker.asked] == ["postgres", "nats"]
            assert dsn.startswith("postgresql://test:test@localhost:") and address.startswith("nats://localhost:")
            owner, tas = (conftest._with(dsn, user=user, database=database) for user in (None, "towpath_tas"))
            asyncio.run(decide(folder, address, tas, owner))
        assert all(container.removed for container in docker.made)


async def decide(folder: Path, address: str, dsn: str, owner: str) -> None:
    """Have a tool-access service permit a call, and look for its row in the ledger."""
    key = {"ticket_key_file": str(folder / "ticket.key"), "embedded": "1"}
    with service_process("tas", folder, address, database_url=dsn, **key) as service:
        await service.wait_ready()
        async with TasCaller(address) as caller:
            await caller.set_up()
            request = await caller.put(caller.request("orders.find"))
            await caller.dispatched(request)
    connection = await asyncpg.connect(owner)
    try:
        found = await connection.fetchval(
            "SELECT tool FROM tas.tool_call WHERE execution_id = $1", request.execution_id
        )
    finally:
        await connection.close()
    assert found == "orders.find"

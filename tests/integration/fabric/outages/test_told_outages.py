"""A running service tells of a server that goes away once, with the reason, and once when it is back."""

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
from tests.conftest import DatabaseUrl
from tests.support.service_process import ServiceProcess, started
from tests.support.waiting import eventually

from towpath_embedded.servers.nats import Nats


def events(service: ServiceProcess, server: str) -> list[dict[str, Any]]:
    """The lines of the service's log about *server*."""
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    return [line for line in lines if line["event"].startswith(server)]


async def test_an_outage_of_each_server_is_told_once_and_its_end_once(
    nats_server: Nats, database: DatabaseUrl, postgres_dsn: str, folder: Path
) -> None:
    environment = {"TOWPATH_DATABASE_URL": database("orchestrator"), "TOWPATH_NATS_URL": nats_server.url()}
    async with asyncpg.create_pool(postgres_dsn, min_size=1, max_size=1) as owner:
        await _try_outages(owner, nats_server, database, folder, environment)


async def _try_outages(
    owner: Any, nats_server: Nats, database: DatabaseUrl, folder: Path, environment: dict[str, str]
) -> None:
    with started("orchestrator", folder=folder, environment=environment) as service:
        await service.wait_ready()
        name = database().partition("?")[0].rpartition("/")[2]

        await owner.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        await owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        refused = "not currently accepting connections"
        await eventually(
            lambda: any(refused in line.get("reason", "") for line in events(service, "postgres")), within_s=30
        )
        await asyncio.sleep(1.5)
        await owner.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        await eventually(lambda: events(service, "postgres")[-1]["event"] == "postgres is back", within_s=30)
        told = events(service, "postgres")
        assert [line["event"] for line in (told[0], told[-1])] == ["postgres is away", "postgres is back"]
        assert len({line.get("reason") for line in told}) == len(told)
        assert told[-1]["away_since"] == told[0]["since"]
        assert told[-1]["came_back_after_s"] >= 1.5

        nats_server.process.kill()
        nats_server.process.wait()
        await eventually(lambda: events(service, "the broker"), within_s=30)
        await asyncio.sleep(1)
        await nats_server.start()
        await eventually(lambda: events(service, "the broker")[-1]["event"] == "the broker is back", within_s=30)
        assert [line["event"] for line in events(service, "the broker")] == ["the broker is away", "the broker is back"]
        assert "Traceback" not in service.log.read_text()


async def test_a_service_that_finds_nobody_says_so_and_starts_once_they_are_there(
    nats_server: Nats, database: DatabaseUrl, folder: Path
) -> None:
    nats_server.process.kill()
    nats_server.process.wait()
    nowhere = "postgresql://towpath_orchestrator@127.0.0.1:1/towpath"
    environment = {"TOWPATH_NATS_URL": nats_server.url()}
    with started("watchdog", folder=folder, environment=environment) as service:
        await eventually(lambda: events(service, "the broker"), within_s=30)
        assert "Connection refused" in events(service, "the broker")[0]["reason"]
        assert "TOWPATH_NATS_URL" in events(service, "the broker")[0]["remedy"]
        with started(
            "orchestrator", folder=folder, environment={**environment, "TOWPATH_DATABASE_URL": nowhere}
        ) as lost:
            await eventually(lambda: events(lost, "postgres"), within_s=30)
            assert "TOWPATH_DATABASE_URL" in events(lost, "postgres")[0]["remedy"]
            await asyncio.sleep(1.2)
            assert len(events(lost, "postgres")) == 1
        await nats_server.start()
        environment["TOWPATH_DATABASE_URL"] = database("orchestrator")
        with started("orchestrator", folder=folder, environment=environment) as streams:
            await streams.wait_ready()
            await service.wait_ready()
        assert [line["event"] for line in events(service, "the broker")] == ["the broker is away", "the broker is back"]

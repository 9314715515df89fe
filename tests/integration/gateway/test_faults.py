"""The gateway while parts of the platform are away: it says so, lets nobody in unchecked, and recovers by itself."""

import asyncio
import time
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from tests.support.gateway.gateway_process import gateway_process
from tests.support.platform.platform_peer import PlatformPeer

from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres import Postgres
from towpath_fabric.postgres.migrations import migrate
from towpath_gateway.adapters.key_store import CACHE_S, CreateKeyBody
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

TASK = {"network": "support", "user_message": "hello"}


async def test_without_postgres_nobody_is_let_in_and_all_is_well_again_by_itself(
    nats_server: Nats, folder: Path, tmp_path: Path
) -> None:
    postgres = Postgres(folder / "pg", durable=False)
    await postgres.start()
    try:
        owner, role = postgres.dsn(database="postgres"), postgres.dsn(user="towpath_gateway", database="postgres")
        await migrate(owner)
        new = CreateKeyBody(caller="alice", scopes=("runs:read", "runs:write"))
        key = await create_key(GatewaySettings(database_url=SecretStr(role)), new, "shop")
        with gateway_process(tmp_path, nats_server.url(), database_url=role) as gateway:
            await gateway.wait_ready()
            async with PlatformPeer(nats_server.url()) as peer, gateway.client(key) as client:
                peer.projects["alice"] = "shop"
                assert (await client.post("/v1/runs", json=TASK)).status_code == 202
                assert postgres.process is not None
                postgres.process.kill()
                postgres.process.wait()
                await asyncio.sleep(CACHE_S)
                answer = await client.post("/v1/runs", json=TASK)
                assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
                assert answer.headers["retry-after"] == "2"
                ready = await client.get("/readyz")
                assert (ready.status_code, ready.json()["checks"]["nats"]) == (503, "ok")
                assert (await client.get("/livez")).status_code == 200
                await postgres.start()
                until = time.monotonic() + 60
                while (await client.post("/v1/runs", json=TASK)).status_code != 202:
                    assert time.monotonic() < until
                    await asyncio.sleep(0.1)
    finally:
        await postgres.stop()


async def test_a_gateway_that_starts_before_the_broker_waits_for_it(nats_server: Nats, tmp_path: Path) -> None:
    await nats_server.stop()
    with gateway_process(tmp_path, nats_server.url(), embedded="true") as gateway:
        await asyncio.sleep(2)
        assert gateway.process.poll() is None
        await nats_server.start()
        await gateway.wait_ready()


async def test_a_busy_port_ends_the_process_with_a_word(nats_server: Nats, tmp_path: Path) -> None:
    with gateway_process(tmp_path, nats_server.url(), embedded="true") as gateway:
        await gateway.wait_ready()
        port = gateway.url.rpartition(":")[2]
        with gateway_process(tmp_path, nats_server.url(), embedded="true", gateway_port=port) as second:
            assert await asyncio.to_thread(second.process.wait, 60) != 0
            assert "address already in use" in second.log.read_text()


def test_an_open_gateway_listens_to_this_machine_only() -> None:
    with pytest.raises(ValidationError, match="loopback"):
        GatewaySettings(embedded=True, gateway_host="0.0.0.0")
    assert GatewaySettings(embedded=True, gateway_host="0.0.0.0", auth="on").asks_for_keys
    assert GatewaySettings(gateway_host="0.0.0.0").asks_for_keys

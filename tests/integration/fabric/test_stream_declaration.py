"""A service creates what is missing and changes nothing; a deployment updates what is declared, and says what."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from tests.support.waiting import eventually

from towpath.cli import main
from towpath_contracts.streams import CONSUMERS, STREAMS, TASKS_CONSUMER
from towpath_embedded.processes.ports import free_port
from towpath_embedded.servers.nats import Nats, nats_binary
from towpath_fabric.addresses.port_owners import port_owner
from towpath_fabric.nats.stream_declaration import declare_streams
from towpath_fabric.nats.streams import ask_broker, ensure_streams

MIB = 1024 * 1024


@pytest.fixture
async def client(nats_server: Nats) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url())
    yield client
    await client.close()


async def stream(client: Client, name: str = "TASKS") -> dict[str, Any]:
    return dict((await ask_broker(client, f"STREAM.INFO.{name}"))["config"])


async def ack_wait_s(client: Client) -> float:
    found = await ask_broker(client, f"CONSUMER.INFO.TASKS.{TASKS_CONSUMER.durable}")
    return float(found["config"]["ack_wait"] / 1e9)


async def alter(client: Client) -> None:
    """Do as an operator does: a larger stream with a description, and a longer wait for acks."""
    larger = {**await stream(client), "max_bytes": 300 * MIB, "description": "ours"}
    await ask_broker(client, "STREAM.UPDATE.TASKS", larger)
    place = f"TASKS.{TASKS_CONSUMER.durable}"
    found = (await ask_broker(client, f"CONSUMER.INFO.{place}"))["config"]
    asked = {"stream_name": "TASKS", "config": {**found, "ack_wait": int(9e9)}}
    await ask_broker(client, f"CONSUMER.DURABLE.CREATE.{place}", asked)


async def test_a_service_creates_what_is_missing_and_changes_nothing_that_is_there(client: Client) -> None:
    await ensure_streams(client)
    await alter(client)
    await ask_broker(client, "STREAM.DELETE.DECIDE")
    await ensure_streams(client)
    here = await stream(client)
    assert (here["max_bytes"], here["description"], await ack_wait_s(client)) == (300 * MIB, "ours", 9)
    assert (await stream(client, "DECIDE"))["num_replicas"] == 1


async def test_a_deployment_updates_what_is_declared_and_says_what_it_was(client: Client) -> None:
    created = await declare_streams(client)
    assert [one.name for one in created] == [spec.name for spec in STREAMS]
    assert all("created" in one.changes for one in created)
    assert sum(len(one.consumers) for one in created) == len(CONSUMERS)
    assert [one.changes for one in await declare_streams(client)] == [()] * len(STREAMS), "nothing differs now"
    await alter(client)
    changed = {one.name: one.changes for one in await declare_streams(client) if one.changes}
    told = (f"max_bytes {300 * MIB} → {256 * MIB}", "orchestrator: ack_wait 9000000000 → 5000000000")
    assert changed == {"TASKS": told}
    here = await stream(client)
    assert (here["max_bytes"], here["description"], await ack_wait_s(client)) == (256 * MIB, "ours", 5)


@pytest.mark.prints("streams ensure")
async def test_the_command_shows_copies_and_changes_and_refuses_more_copies_than_nodes(
    nats_server: Nats, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ensure(*words: str) -> int:
        command = ["streams", "ensure", "--nats-url", nats_server.url(), *words]
        return await asyncio.to_thread(main, command) or 0

    assert await ensure("-o", "json") == 0
    first = json.loads(capsys.readouterr().out)["streams"][0]
    assert (first["stream"], first["replicas"], first["changes"]) == ("TASKS", 1, ["created", "orchestrator created"])
    assert await ensure("--replicas", "3") == 6
    assert "3 copies of a stream" in capsys.readouterr().err
    assert await ensure("--replicas", "2") == 2
    assert "write 1, 3 or 5" in capsys.readouterr().err


async def test_a_node_that_has_not_found_its_cluster_is_told_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port, routes = free_port(), [free_port(), free_port()]
    config = tmp_path / "nats.conf"
    config.write_text(
        f"port: {port}\nserver_name: one\njetstream {{ store_dir: {tmp_path / 'store'} }}\ncluster {{ name: three, "
        f"port: {free_port()}, routes: [{', '.join(f'nats://127.0.0.1:{route}' for route in routes)}] }}\n"
    )
    node = await asyncio.create_subprocess_exec(nats_binary(), "-c", config, stderr=asyncio.subprocess.DEVNULL)
    try:
        await eventually(lambda: port_owner(port) is not None, within_s=20)
        command = ["streams", "ensure", "--nats-url", f"nats://127.0.0.1:{port}"]
        assert await asyncio.to_thread(main, command) == 6
    finally:
        node.terminate()
        await node.wait()
    said = capsys.readouterr().err
    assert said.startswith("unavailable  ")
    assert f"the broker at nats://127.0.0.1:{port} declares no streams" in said
    assert "start more than half of its nodes" in said

"""A cluster of three brokers loses the node that leads a stream of work, and hardly anybody notices."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.chaos.load.clustered_platform import clustered
from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.broker import finish
from tests.chaos.scenarios.broker_cluster import LEADS, LostNodes
from tests.chaos.servers.broker_cluster import NODES, BrokerCluster

from towpath.cli import main
from towpath.client.client import Client
from towpath_contracts.rpc import LIST_RUNS
from towpath_contracts.runs.views import ListRuns
from towpath_contracts.streams import STREAMS
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.clusters import CLUSTER_PING_S
from towpath_fabric.settings import Settings


async def copies(cluster: BrokerCluster, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[int, list[str]]]:
    """Ask the command for each stream, how many copies it has and what had to be changed."""
    capsys.readouterr()
    command = ["streams", "ensure", "--nats-url", cluster.url_of("deploy"), "-o", "json"]
    assert (await asyncio.to_thread(main, command) or 0) == 0
    rows = json.loads(capsys.readouterr().out)["streams"]
    return {row["stream"]: (row["replicas"], row["changes"]) for row in rows}


async def test_a_cluster_loses_the_leader_of_a_stream_and_no_run_is_lost(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, findings = BrokerCluster(folder), ScenarioFindings()
    async with SteadyLoad(folder, make=clustered(cluster), starts="fork", durable=False) as work:
        leader = await cluster.leader(LEADS)
        bus = Bus("gateway", Settings.load(nats_url=cluster.url_of("gateway", [leader])))
        await bus.connect()  # it was told of one node, and logs in to another one when that is lost
        run_id = (await work.submit(12, delay_ms=1_000))[0]
        async with Client(cluster.url) as client:
            assert str((await client.get(run_id)).run_id) == run_id
            await LostNodes(work, cluster, findings).kill_leader(down_s=11.0)
            assert str((await client.get(run_id)).run_id) == run_id
        assert bus.nc.options["ping_interval"] == CLUSTER_PING_S
        async with asyncio.timeout(10):
            page = await bus.request(LIST_RUNS, ListRuns(project="default"))
        assert len(page.runs) == 12
        assert bus.reconnects >= 1
        await bus.close()
        await finish(work, findings)
        untouched = {spec.name: (NODES, []) for spec in STREAMS}
        assert await copies(cluster, capsys) == untouched, "no service took a copy away"
    assert not findings.problems, (findings.problems, findings.figures)

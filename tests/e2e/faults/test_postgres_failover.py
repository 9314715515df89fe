"""A frozen primary of Postgres is left for its synchronous standby once that is promoted; nothing is lost or repeated.

The short form of `python -m tests.chaos --scenario postgres-failover`. A primary that is killed is easier to leave.
Lists are read at the standby while it is one.
"""

import asyncio
import re
from pathlib import Path
from urllib.request import urlopen

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.replicated_platform import replicated
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.postgres_failover import LostPrimary, judge_failovers
from tests.chaos.servers.postgres_pair import PostgresPair
from tests.support.orchestrator.run_log import wait_for

from towpath.client.client import Client
from towpath_embedded.processes.ports import LOOPBACK


async def test_a_frozen_primary_is_left_for_the_promoted_standby(folder: Path) -> None:
    findings, pair = ScenarioFindings(), PostgresPair(folder, durable=False)
    both = ",".join(f"{LOOPBACK}:{server.tcp_port}" for server in pair.servers)
    environment = {"TOWPATH_READ_DATABASE_HOSTS": both}
    async with SteadyLoad(folder, make=replicated(pair), starts="fork", durable=False, environment=environment) as work:
        await work.submit(12, steps=4, delay_ms=2_500)
        async with Client(work.platform.client_url) as client:
            await wait_for(lambda: lists_are_read_at(work, client, "replica"))
            await LostPrimary(work, pair, findings, first_moves_s=60).freeze(returns=False)
            await wait_for(lambda: lists_are_read_at(work, client, "primary"))
        await judge_failovers(work, findings)
    assert not findings.problems, (findings.problems, findings.figures)


async def lists_are_read_at(work: SteadyLoad, client: Client, server: str) -> bool:
    """List all runs; return whether that was read at *server*."""
    before = await asyncio.to_thread(reads_at, work, server)
    assert len((await client.runs(limit=100)).runs) == len(work.run_ids)
    return await asyncio.to_thread(reads_at, work, server) > before


def reads_at(work: SteadyLoad, server: str) -> float:
    text = urlopen(work.platform.health_url("orchestrator") + "/metrics").read().decode()
    counted = re.search(rf'^towpath_reads_total{{server="{server}"}} ([0-9.e+]+)$', text, re.MULTILINE)
    return float(counted[1]) if counted else 0.0

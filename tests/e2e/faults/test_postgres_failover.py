"""A frozen primary of Postgres is left for its synchronous standby once that is promoted; nothing is lost or repeated.

The short form of `python -m tests.chaos --scenario postgres-failover`. A primary that is killed is easier to leave.
"""

from pathlib import Path

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.replicated_platform import replicated
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.postgres_failover import LostPrimary, judge_failovers
from tests.chaos.servers.postgres_pair import PostgresPair


async def test_a_frozen_primary_is_left_for_the_promoted_standby(folder: Path) -> None:
    findings, pair = ScenarioFindings(), PostgresPair(folder, durable=False)
    async with SteadyLoad(folder, make=replicated(pair), starts="fork", durable=False) as work:
        await work.submit(12, steps=4, delay_ms=2_500)
        await LostPrimary(work, pair, findings, first_moves_s=60).freeze(returns=False)
        await judge_failovers(work, findings)
    assert not findings.problems, (findings.problems, findings.figures)

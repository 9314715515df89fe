"""What the harness of `towpath.testing` writes into a run's log, beside what a platform writes."""

from collections import Counter
from pathlib import Path

from tests.oracles.harness import compare, shop_platform

SEEDS = range(1, 21)
MUST_HAPPEN = {
    "gate_opened",
    "gate_closed",
    "tool_call_denied",
    "tool_call_finished",
    "agent_transferred",
    "decision_missed",
}


async def test_the_harness_writes_the_log_that_a_platform_writes(tmp_path: Path) -> None:
    seen = Counter[str]()
    async with shop_platform(tmp_path) as client:
        for seed in SEEDS:
            seen += await compare(client, seed)
    assert sorted(MUST_HAPPEN - set(seen)) == []
    assert seen["run_finished"] == len(SEEDS)

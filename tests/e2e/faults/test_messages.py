"""Hostile messages on every subject, and every message repeated: short forms of the catalogue's tests 12 and 13."""

from pathlib import Path

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.messages import TWO_OF_EACH, finish, repeat_messages, send_hostile_messages


async def test_hostile_messages_end_no_process_and_cause_nothing(folder: Path) -> None:
    findings = ScenarioFindings()
    async with SteadyLoad(folder, starts="fork") as work:
        injected = await send_hostile_messages(work, findings, seed=13, rounds=4)
        report = await finish(work, findings)
    assert report.problems == (), report
    assert injected.sent.keys() >= {"svc", "task", "tool", "run", "decide", "log"}


async def test_messages_repeated_late_and_in_any_order_change_nothing(folder: Path) -> None:
    findings = ScenarioFindings()
    async with SteadyLoad(folder, workers=2, replicas=TWO_OF_EACH, starts="fork") as work:
        await repeat_messages(work, findings, seed=12, runs=12, longest_s=2)
        report = await finish(work, findings)
    assert report.problems == (), report

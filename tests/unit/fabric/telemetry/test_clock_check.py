"""A machine's clock may be off: ids and records take the platform's time, and people are told once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from towpath_fabric import clock
from towpath_fabric.clock import NS, learn_platform_time, platform_time, use_simulated_clock, wall
from towpath_fabric.ids import new_run_id
from towpath_fabric.telemetry import clock_check
from towpath_fabric.telemetry.clock_check import CLOCK_OFF_S, ClockCheck
from towpath_fabric.telemetry.logs import get_logger

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Machine:
    """A machine whose clock is *ahead* of a server's; both go on when the test says so."""

    def __init__(self, ahead: timedelta = timedelta()) -> None:
        self.passed = 50.0
        self.ahead = ahead
        self.answer_s = 0.0
        self.fails = False

    @property
    def server(self) -> datetime:
        return NOW + timedelta(seconds=self.passed)

    async def ask(self) -> tuple[datetime, float]:
        if self.fails:
            raise ConnectionError
        asked = self.passed
        self.passed += self.answer_s / 2
        found = self.server
        self.passed += self.answer_s / 2
        return found, asked


@pytest.fixture
def machine() -> Any:
    found, began = Machine(), int(NOW.timestamp()) * NS
    with use_simulated_clock(lambda: found.passed, 0):
        clock._source.wall_ns = lambda: began + int((found.passed + found.ahead.total_seconds()) * NS)
        yield found


def ms_of(run_id: Any) -> datetime:
    return datetime.fromtimestamp((run_id.int >> 80) / 1000, UTC)


def check_of(machine: Machine) -> tuple[ClockCheck, CollectorRegistry]:
    registry = CollectorRegistry()
    return ClockCheck("postgres", machine.ask, (ConnectionError,), registry, get_logger("test")), registry


async def test_ids_take_the_platforms_time_once_it_is_known(machine: Machine) -> None:
    machine.ahead = timedelta(days=150)
    assert ms_of(new_run_id()) == machine.server + machine.ahead
    check, registry = check_of(machine)
    await check.check()
    machine.passed += 30
    assert ms_of(new_run_id()) == machine.server == platform_time()
    assert wall() == machine.server + machine.ahead
    assert registry.get_sample_value("towpath_clock_ahead_seconds") == 150 * 86400


async def test_half_of_the_time_that_an_answer_took_counts(machine: Machine) -> None:
    machine.answer_s = 2.0
    assert learn_platform_time(*await machine.ask()) == pytest.approx(0)
    assert platform_time() == machine.server


async def test_a_clock_that_is_off_is_told_once_and_once_when_it_is_right(machine: Machine) -> None:
    check, _registry = check_of(machine)
    with capture_logs() as logs:
        for ahead_s in (0, CLOCK_OFF_S, -CLOCK_OFF_S - 1, -CLOCK_OFF_S - 5, 5):
            machine.ahead = timedelta(seconds=ahead_s)
            await check.check()
    told = [(one["event"], one.get("ahead_s")) for one in logs if one["log_level"] == "warning"]
    assert told == [
        ("this machine's clock is off; the platform's is used", -61),
        ("this machine's clock is right again", None),
    ]


async def test_a_server_that_is_away_changes_nothing(machine: Machine) -> None:
    machine.ahead = timedelta(days=1)
    check, _registry = check_of(machine)
    await check.check()
    machine.fails = True
    machine.passed += 600
    await check.check()
    assert platform_time() == machine.server


async def test_an_answer_that_took_long_is_none(machine: Machine) -> None:
    machine.ahead, machine.answer_s = timedelta(days=1), clock_check.SLOW_S + 0.1
    check, _registry = check_of(machine)
    await check.check()
    assert platform_time() == wall()
    machine.answer_s = clock_check.SLOW_S - 0.1
    await check.check()
    assert platform_time() == machine.server


def test_how_often_and_from_when() -> None:
    assert (clock_check.CHECK_S, clock_check.CLOCK_OFF_S, clock_check.SLOW_S) == (60, 60, 1)

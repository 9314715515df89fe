"""An outage is told of once with its reason, again for another reason, and once when it is over."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from towpath_fabric.outages import outage
from towpath_fabric.outages.outage import MAX_REASONS, Outage, ServerGauge, reason_of

REFUSED, STARTING = ConnectionRefusedError(111, "nobody listens"), OSError("the database system is starting up")


class Clock:
    """The monotonic time that outages see."""

    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(outage, "monotonic", lambda: clock.now)
    return clock


def events(logs: Any) -> list[str]:
    return [one["event"] for one in logs]


async def test_the_same_reason_is_told_once_and_another_one_again() -> None:
    away = Outage("tas", "postgres", "Start it.")
    with capture_logs() as logs:
        for error in (REFUSED, REFUSED, STARTING, REFUSED, STARTING):
            away.failed(error)
    assert events(logs) == ["postgres is away", "postgres is still away, for another reason"]
    assert [one["reason"] for one in logs] == [reason_of(REFUSED), reason_of(STARTING)]
    assert {one["remedy"] for one in logs} == {"Start it."}
    assert away.is_on


async def test_reasons_that_differ_for_ever_are_bounded() -> None:
    away = Outage("tas", "postgres", "Start it.")
    with capture_logs() as logs:
        for number in range(100):
            away.failed(OSError(f"attempt {number}"))
    assert len(logs) == MAX_REASONS == 20


async def test_the_end_is_told_once_and_says_how_long_it_took(clock: Clock) -> None:
    away = Outage("tas", "postgres", "Start it.", quiet_s=0)
    with capture_logs() as logs:
        away.worked()
        away.failed(REFUSED)
        clock.now += 12.34
        away.worked()
        away.worked()
        away.failed(REFUSED)
    assert events(logs) == ["postgres is away", "postgres is back", "postgres is away"]
    assert logs[1]["came_back_after_s"] == 12.3
    assert logs[1]["away_since"] == logs[0]["since"]


async def test_one_success_among_failures_is_no_end() -> None:
    away = Outage("tas", "postgres", "Start it.", quiet_s=0.05)
    with capture_logs() as logs:
        for _ in range(3):
            away.failed(REFUSED)
            away.worked()
        away.failed(REFUSED)
        await asyncio.sleep(0.1)
        assert events(logs) == ["postgres is away"]
        away.worked()
        await asyncio.sleep(0.1)
    assert events(logs) == ["postgres is away", "postgres is back"]
    assert not away.is_on


async def test_an_outage_is_over_two_seconds_after_the_last_failure() -> None:
    assert Outage("tas", "postgres", "")._quiet_s == 2.0


def test_an_error_without_words_is_told_by_its_kind() -> None:
    assert reason_of(TimeoutError()) == "TimeoutError"
    assert reason_of(OSError("a\nb")) == "OSError: a"
    assert len(reason_of(OSError("x" * 1_000))) == len("OSError: ") + 300


async def test_a_server_counts_as_up_until_something_fails_and_again_once_it_works() -> None:
    registry, away = CollectorRegistry(), Outage("tas", "postgres", "Start it.", quiet_s=0)
    ServerGauge(registry).watch("postgres", away)

    def is_up() -> float | None:
        return registry.get_sample_value("towpath_server_up", {"server": "postgres"})

    assert is_up() == 1
    away.failed(OSError("refused"))
    assert is_up() == 0
    away.worked()
    assert is_up() == 1

"""A broker that is away is told of once, and not at once: it may just be starting."""

import pytest
from structlog.testing import capture_logs

from towpath_fabric.nats.broker_errors import BrokerErrors
from towpath_fabric.outages import outage

GONE = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 4222)")


async def test_a_broker_that_is_away_is_told_of_once_after_a_second_and_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(outage, "monotonic", lambda: now)
    complain = BrokerErrors("worker", lambda _subject: False)
    away = complain.outage
    told = []
    for after_s in (0.0, 0.99, 1.0, 1.5, 30.0):
        now = 100.0 + after_s
        with capture_logs() as logs:
            await complain(GONE)
        told.append([(one["event"], "TOWPATH_NATS_URL" in one["remedy"]) for one in logs])
    assert told == [[], [], [("the broker is away", True)], [], []]
    with capture_logs() as logs:
        away.worked()
        away.worked()
    assert [(one["event"], one["came_back_after_s"]) for one in logs] == [("the broker is back", 30.0)]


async def test_a_broker_that_is_back_within_a_second_is_not_told_of() -> None:
    complain = BrokerErrors("worker", lambda _subject: False)
    with capture_logs() as logs:
        await complain(GONE)
        complain.outage.worked()
    assert logs == []

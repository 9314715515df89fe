"""A process that no broker answers says so, and not at once: a server may just be starting."""

import pytest
from structlog.testing import capture_logs

from towpath_fabric.nats import broker_errors
from towpath_fabric.nats.broker_errors import BrokerErrors


async def test_a_broker_that_is_not_there_is_told_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(broker_errors, "monotonic", lambda: now)
    complain = BrokerErrors("worker", lambda _subject: False)
    told = []
    for after_s in (0.0, 9.9, 10.0, 19.9, 20.0):
        now = 100.0 + after_s
        with capture_logs() as logs:
            await complain(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 4222)"))
        told.append([(one["event"], "TOWPATH_NATS_URL" in one["remedy"]) for one in logs])
    said = [("no broker answers; it is tried again", True)]
    assert told == [[], [], said, [], said]

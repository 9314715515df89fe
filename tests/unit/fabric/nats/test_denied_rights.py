"""What the broker denies is logged once for all subjects that begin alike, unless somebody who waits is told of it."""

from collections.abc import Iterator

import pytest
import structlog
from nats.errors import Error
from structlog.testing import capture_logs

from towpath_fabric.nats import broker_errors
from towpath_fabric.nats.broker_errors import MAX_DENIED, BrokerErrors


@pytest.fixture(autouse=True)
def every_level() -> Iterator[None]:
    """Log every level here: a service that an earlier test had in this process has configured its own for all."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)


def denied(what: str, subject: str) -> Error:
    return Error(f'nats: Permissions Violation for {what} to "{subject}"')


async def logged(complain: BrokerErrors, *errors: Error) -> list[tuple[str, str]]:
    with capture_logs() as logs:
        for error in errors:
            await complain(error)
    assert all("towpath streams authority" in one["remedy"] for one in logs)
    return [(one["right"], one["subject"]) for one in logs]


async def test_each_right_that_is_missing_is_logged_once() -> None:
    complain = BrokerErrors("gateway", lambda _subject: False)
    said = [denied("Publish", "task.live.Shop.1"), denied("Publish", "task.live.other.2")]
    heard = [denied("Subscription", f"agents.{word}.*") for word in ("info", "status")]
    heard.append(denied("Subscription", "_INBOX_gateway.x.*"))  # who asks hears nothing there, and says so
    assert await logged(complain, *said, *heard, *said, *heard) == [
        ("publish", "task.live.Shop.1"),
        ("subscribe", "agents.info.*"),
    ]


async def test_who_waits_for_an_answer_is_told_instead() -> None:
    waits = {"svc.tas.beat"}
    complain = BrokerErrors("worker", lambda subject: subject in waits)
    assert await logged(complain, denied("Publish", "svc.TAS.beat")) == []
    assert await logged(complain, denied("Subscription", "tool.confirm.default.stock.X")) == [], "a worker ends instead"
    waits.clear()
    assert await logged(complain, denied("Publish", "svc.TAS.beat")) == [("publish", "svc.TAS.beat")]


@pytest.mark.parametrize("subject", ["_R_.cm9xos.hmtviz", "_GR_.a.b.c", "_INBOX_shop.x.1", "_INBOX.x.1"])
async def test_an_answer_that_the_broker_takes_no_longer_is_no_lack_of_rights(subject: str) -> None:
    with capture_logs() as logs:
        await BrokerErrors("tas", lambda _subject: False)(denied("Publish", subject))
    (said,) = logs
    assert (said["log_level"], said["subject"]) == ("debug", subject) and "came too late" in said["event"]
    assert "remedy" not in said


async def test_no_more_than_a_hundred_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    complain = BrokerErrors("worker", lambda _subject: False)
    assert len(await logged(complain, *(denied("Publish", f"word{n}.x") for n in range(101)))) == MAX_DENIED == 100
    monkeypatch.setattr(broker_errors, "MAX_DENIED", 101)
    assert len(await logged(complain, denied("Publish", "word100.x"))) == 1

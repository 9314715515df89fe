"""What the broker denies a program with a connection of its own is told with what ends it."""

import pytest
from nats.errors import Error

from towpath.client.nats import tell_broker_error


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('permissions violation for subscription to "task.live.shop.*"', "subscribe to task.live.shop.*. Put the name"),
        ('Permissions Violation for Publish to "task.submit.shop"', "ask on task.submit.shop. Put the name"),
        ('permissions violation for subscription to "task.live.>"', "subscribe to task.live.>. Who may ask"),
        ('permissions violation for publish to "svc.tas.x"', "ask on svc.tas.x. Who may ask"),
    ],
)
def test_a_denial_is_told_with_its_cure(said: str, told: str) -> None:
    text = tell_broker_error(Error(f"nats: {said}"))
    assert text.startswith(f"forbidden: the broker lets nobody of this credential {told}")
    assert ("in the place of shop" in text) == ("shop" in said)


def test_what_is_no_denial_is_told_as_it_is() -> None:
    assert tell_broker_error(Error("nats: timeout")) == "nats: timeout"

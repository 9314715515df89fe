"""What the broker denies a program is told with what ends it."""

import pytest
from nats.errors import Error

from towpath.client.nats import _denied, tell_broker_error

OWN_NAME = (
    "With a credential put its own name in the place of shop. On a deployment towpath clients credential add shop "
)
NO_LIVE = "Without a user and password no live events are heard: read the events of a run page by page with Client("


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'permissions violation for subscription to "task.live.shop.*"',
            [
                "this program subscribe to task.live.shop.*. Without",
                NO_LIVE,
                OWN_NAME,
                "; start the broker again then.",
            ],
        ),
        (
            'Permissions Violation for Publish to "task.submit.shop"',
            ["ask on task.submit.shop. Without a user and password ask on task.submit.anonymous. ", OWN_NAME],
        ),
        (
            'permissions violation for subscription to "task.live.>"',
            ["subscribe to task.live.>. It asks and hears on "],
        ),
        ('permissions violation for publish to "svc.tas.x"', ["ask on svc.tas.x. It asks", "such as task.get.NAME"]),
    ],
)
def test_a_denial_is_told_with_its_cure(said: str, told: list[str]) -> None:
    text = tell_broker_error(Error(f"nats: {said}"))
    assert text.startswith("forbidden: the broker does not let this program ")
    assert all(part in text for part in told), text
    assert ("in the place of shop" in text) == ("shop" in said)


@pytest.mark.parametrize("caller", ["s", "submit", "sub", "k", "anonymous"])
def test_the_name_of_the_caller_alone_is_replaced(caller: str) -> None:
    text = tell_broker_error(Error(f'nats: permissions violation for publish to "task.submit.{caller}"'))
    assert " ask on task.submit.anonymous. With a credential " in text


def test_what_is_no_denial_is_told_as_it_is() -> None:
    assert tell_broker_error(Error("nats: timeout")) == "nats: timeout"


NAMED = "caller='shop' is named without the user and password of shop, so the broker does not let this program"
CONNECT = "Client('nats://{}:PASSWORD@HOST:PORT', caller='{}')"
ADD = "On a deployment towpath clients credential add {} makes one for {}; start the broker again then."


@pytest.mark.parametrize(
    ("caller", "user", "detail", "remedy"),
    [
        (
            "shop",
            None,
            f"{NAMED} begin runs as shop",
            f"Leave caller= out; or, on a broker that lists shop, connect as it: {CONNECT.format('shop', 'shop')}.",
        ),
        (
            "anonymous",
            None,
            "the broker does not let a program without a user and password begin runs",
            "Connect with a credential: Client('nats://NAME:PASSWORD@HOST:PORT', caller='NAME'). "
            + ADD.format("NAME", "NAME"),
        ),
        (
            "shop",
            "desk",
            "the broker does not let the user desk begin runs as shop",
            "Name the caller that this credential is listed as: caller='desk'. Or connect as shop: "
            "Client('nats://shop:PASSWORD@HOST:PORT', caller='shop'). " + ADD.format("shop", "shop"),
        ),
        (
            "anonymous",
            "",
            "the broker does not let this credential begin runs as anonymous",
            "Name the caller that this credential is listed as: caller=NAME (towpath clients credential list has it).",
        ),
    ],
)
def test_a_client_is_told_by_whether_it_has_a_credential(
    caller: str, user: str | None, detail: str, remedy: str
) -> None:
    found = _denied(f"task.submit.{caller}", caller, user)
    assert (found.detail, found.remedy) == (detail, remedy)


def test_a_credential_that_may_not_pause_runs_is_told_how_it_may() -> None:
    assert _denied("task.pause.shop", "shop", "shop").remedy == (
        "Let it operate runs: towpath clients credential add shop --operates; start the broker again then."
    )
    assert "--operates" not in _denied("task.pause.shop", "shop", "desk").remedy

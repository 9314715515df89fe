"""What a worker is told whose credential the broker does not know, or that serves other toolsets than its tools."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nats.errors import AuthorizationError

from towpath_contracts.problems.registry import Problem
from towpath_fabric.addresses.port_owners import PortOwner
from towpath_fabric.nats import broker_errors
from towpath_fabric.nats.broker_errors import broker_denied, connect_refusal
from towpath_fabric.settings import Settings

OWN = (
    "With towpath up on this machine: unset TOWPATH_NATS_URL, TOWPATH_NATS_USER and TOWPATH_NATS_PASSWORD, and start "
    "{} in the folder that holds .towpath. After towpath up --data FOLDER start it so instead: towpath up --only "
    "worker --data FOLDER --worker FILE. After towpath up --ephemeral stop that, and start it again with the tools: "
    "towpath up --ephemeral --worker FILE."
)


Owned = Callable[[str], None]


@pytest.fixture(autouse=True)
def owned(monkeypatch: pytest.MonkeyPatch) -> Owned:
    """Have nobody be seen at the port of the broker, whatever runs on this machine; or the platform on a folder."""
    monkeypatch.setattr(broker_errors, "port_owner", lambda _port: None)

    def by(data: str) -> None:
        monkeypatch.setattr(broker_errors, "port_owner", lambda _port: PortOwner("the Towpath", Path(data)))

    return by


def denied(subject: str, **login: Any) -> Problem:
    return broker_denied(Settings(nats_url="nats://127.0.0.1:4222", **login), subject).problem


def test_a_denied_worker_is_told_the_toolset_and_both_ways_out() -> None:
    found = denied("svc.tas.register_tools.shop.default", nats_user="orders", nats_password="p")
    assert found.detail == "the broker does not let the user orders register the toolset default of the project shop"
    assert "credential add orders --project shop --toolset default and the others" in found.remedy
    assert "Or name one of those in @tool(toolset=…)." in found.remedy


def test_a_worker_without_a_credential_is_told_first_how_it_finds_the_platform_of_its_machine() -> None:
    found = denied("svc.tas.register_tools.shop.crm")
    assert found.detail == (
        "this worker has no user and password, so the broker does not let it register the toolset crm of the "
        "project shop"
    )
    assert found.remedy == (
        f"{OWN.format('the worker')} On a deployment: towpath workers credential add shop-crm --project shop "
        "--toolset crm, start the broker again, and set TOWPATH_NATS_USER=shop-crm and TOWPATH_NATS_PASSWORD from "
        "deploy/secrets/shop-crm.env."
    )


def test_another_subject_has_no_toolset() -> None:
    assert denied("svc.tas.ticket_keys", nats_user="orders", nats_password="p").detail == (
        "the user orders may not say svc.tas.ticket_keys"
    )


def test_a_user_that_the_broker_does_not_know_is_told_where_its_password_is_and_since_when_it_counts() -> None:
    settings = Settings(nats_url="nats://127.0.0.1:4222", nats_user="crm", nats_password="p")
    refused = connect_refusal(settings, AuthorizationError())
    assert refused is not None
    found = refused.problem
    assert found.detail == (
        "the broker knows no user crm with this password: one of the two is wrong, or newer than its start"
    )
    assert found.remedy == (
        f"{OWN.format('it')} On a deployment the password of crm is in deploy/secrets/crm.env, and counts once "
        "the broker was started after it was made; towpath workers credential list names the users of workers."
    )


UNSET = "unset TOWPATH_NATS_URL"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("/srv/shop/.towpath", f"of /srv/shop: start the worker there: cd /srv/shop and {UNSET}."),
        (
            "/srv/a b",
            f"on /srv/a b: {UNSET}, and start the worker so: towpath up --only worker --data '/srv/a b' --worker FILE.",
        ),
    ],
)
def test_where_the_platform_of_the_broker_is_seen_the_worker_is_told_its_folder_and_what_would_go_before_that(
    owned: Owned, data: str, told: str
) -> None:
    owned(data)
    assert denied("svc.tas.register_tools.shop.crm").remedy == f"The broker is that of the Towpath {told}"


def test_all_that_the_environment_says_of_a_login_is_to_be_unset(owned: Owned, tmp_path: Path) -> None:
    owned("/srv/shop/.towpath")
    secret = tmp_path / "secret"
    secret.write_text("SUAsecret")
    logins: list[dict[str, Any]] = [
        {"nats_user": "crm", "nats_password": "p"},
        {"nats_user": "crm", "nats_password_file": secret},
        {"nats_nkey_file": secret},
        {"nats_creds_file": secret},
    ]
    for login in logins:
        refused = connect_refusal(Settings(nats_url="nats://127.0.0.1:4222", **login), AuthorizationError())
        assert refused is not None
        named = ", ".join(f"TOWPATH_{name.upper()}" for name in login)
        assert refused.problem.remedy.endswith(f"cd /srv/shop and {UNSET}, {named}.")
        assert "SUAsecret" not in str(refused.problem)


def test_of_a_broker_elsewhere_nobody_on_this_machine_is_told(owned: Owned) -> None:
    owned("/srv/shop/.towpath")
    for address in ("nats://broker.example:4222", "nats://127.0.0.1:4222,nats://127.0.0.1:4223"):
        found = broker_denied(Settings(nats_url=address), "svc.tas.register_tools.shop.crm").problem
        assert found.remedy.startswith(OWN.format("the worker"))

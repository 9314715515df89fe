"""What a worker is told whose credential the broker does not know, or that serves other toolsets than its tools."""

from typing import Any

from nats.errors import AuthorizationError

from towpath_contracts.problems.registry import Problem
from towpath_fabric.nats.broker_errors import broker_denied, connect_refusal
from towpath_fabric.settings import Settings

OWN = (
    "With towpath up on this machine: unset TOWPATH_NATS_URL, TOWPATH_NATS_USER and TOWPATH_NATS_PASSWORD, and start "
    "{} in the folder that holds .towpath. After towpath up --data FOLDER start it so instead: towpath up --only "
    "worker --data FOLDER --worker FILE. After towpath up --ephemeral stop that, and start it again with the tools: "
    "towpath up --ephemeral --worker FILE."
)


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

"""What a worker is told whose credential serves another toolset than its tools name."""

from towpath_fabric.nats.broker_errors import broker_denied
from towpath_fabric.settings import Settings


def test_a_denied_worker_is_told_the_toolset_and_both_ways_out() -> None:
    settings = Settings(nats_url="nats://127.0.0.1:4222", nats_user="orders", nats_password="p")
    found = broker_denied(settings, "svc.tas.register_tools.shop.default").problem
    assert found.detail == (
        "the user orders may not say svc.tas.register_tools.shop.default, "
        "as it lacks the toolset default of the project shop"
    )
    assert "--project shop --toolset default" in found.remedy
    assert "Or name one of those in @tool(toolset=…)." in found.remedy


def test_another_subject_has_no_toolset() -> None:
    settings = Settings(nats_url="nats://127.0.0.1:4222", nats_user="orders", nats_password="p")
    assert broker_denied(settings, "svc.tas.ticket_keys").problem.detail == (
        "the user orders may not say svc.tas.ticket_keys"
    )

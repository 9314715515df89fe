"""The broker's address is one or several, and what is wrong with it is told at the start, without a password."""

from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.support.places import ROOT

from towpath.client.contexts import is_address, shown_address
from towpath.client.settings import is_same_place
from towpath.tools.platform_address import PlatformAddressSettings
from towpath_fabric.addresses.broker_addresses import BrokerAddressError, broker_addresses
from towpath_fabric.nats.login import connect_options
from towpath_fabric.redaction import secret_values
from towpath_fabric.settings import Settings, describe_wrong_settings

THREE = "nats://a:4222, nats://b:4223,nats://c"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nats://127.0.0.1:4222", ("nats://127.0.0.1:4222",)),
        (THREE, ("nats://a:4222", "nats://b:4223", "nats://c")),
        ("a,b:4223", ("nats://a", "nats://b:4223")),
        ("tls://u:pass%2Cword@a:4222,tls://u:p@[::1]:4222", ("tls://u:pass%2Cword@a:4222", "tls://u:p@[::1]:4222")),
        ("nats://a:4222,nats://a:4222", ("nats://a:4222",)),
    ],
)
def test_an_address_names_a_broker_or_each_node_of_its_cluster(text: str, found: tuple[str, ...]) -> None:
    assert broker_addresses(text) == found


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ("", "names no broker", "nats://one:4222,nats://two:4222"),
        (" , ", "names no broker", "nats://one:4222"),
        ("nats://a:4222,", "address 2 of 2 is empty", "take a comma away"),
        ("nats://a:4222,,nats://c:4222", "address 2 of 3 is empty", "take a comma away"),
        ("nats://a:4222,http://b:4222", "address 2 of 2 begins with neither", "nats://one:4222"),
        ("nats://u:hun,ter2@a:4222", "address 1 of 2 can't be read", "%2C"),
        ("nats://a:99999", "address 1 of 1 can't be read", "up to 65535"),
        ("nats://a:4222,nats://b:hunter2", "address 2 of 2 can't be read", "a port is a number"),
        ("nats://u:hun/ter2@a:4222", "address 1 of 1 can't be read", "%2F"),
        ("nats://a:0", "address 1 of 1 has no host", "nats://host:4222"),
        ("nats://", "address 1 of 1 has no host", "nats://host:4222"),
        ("nats://a b:4222", "address 1 of 1 has no host, a blank", "nats://host:4222"),
        ("nats://u?hunter2@a:4222", "address 1 of 1 has a login that ends early", "%3F"),
    ],
)
def test_a_wrong_entry_is_told_by_its_place_and_with_the_cure(text: str, place: str, remedy: str) -> None:
    with pytest.raises(BrokerAddressError) as wrong:
        broker_addresses(text)
    assert place in str(wrong.value)
    assert remedy in str(wrong.value)
    assert "hun" not in str(wrong.value)


def test_a_process_with_a_wrong_entry_ends_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_NATS_URL", "nats://a:4222,nats://u:hunter2@b:port")
    with pytest.raises(ValidationError) as refused:
        Settings.load()
    told = describe_wrong_settings(refused.value)
    assert told.startswith("TOWPATH_NATS_URL: ")
    assert "address 2 of 2 can't be read" in told
    assert "hunter2" not in f"{told}{refused.value}"


def test_tls_of_one_node_is_tls_of_all() -> None:
    certificates = next(Path("/etc/ssl/certs").glob("*"), ROOT)
    assert certificates.exists()
    assert "tls" not in connect_options(Settings(nats_url=THREE))
    assert connect_options(Settings(nats_url=f"{THREE},tls://d"))["tls_handshake_first"] is True


def test_no_password_of_any_node_is_told() -> None:
    listed = "nats://u:hunter2hunter2@a:4222,nats://u:hunter3hunter3@b:4222"
    assert shown_address(listed) == "nats://***@a:4222,nats://***@b:4222"
    assert {"hunter2hunter2", "hunter3hunter3"} <= secret_values({"TOWPATH_NATS_URL": listed})


def test_a_client_takes_a_list_of_brokers_and_of_nothing_else() -> None:
    assert is_address("nats://u:p@a:4222, tls://u:p@b:4222")
    for wrong in ("nats://a:4222,", "nats://a:4222,http://b", "nats://a:4222,b:4222", "http://a,nats://b:4222"):
        assert not is_address(wrong), wrong
    assert is_same_place("nats://u:p@a:1,nats://b:2", "nats://a:1,nats://b:2")
    assert not is_same_place("nats://a:1,nats://b:2", "nats://a:1")


def test_tools_reach_the_port_of_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_NATS_URL", THREE)
    assert PlatformAddressSettings().broker_ports() == {4222, 4223}
    monkeypatch.delenv("TOWPATH_NATS_URL")
    assert PlatformAddressSettings().broker_ports() == frozenset()


def test_streams_have_one_copy_unless_more_are_asked_for_and_never_an_even_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TOWPATH_STREAM_REPLICAS", raising=False)
    assert Settings.load().stream_replicas == 1
    for given in ("1", "3", "5"):
        monkeypatch.setenv("TOWPATH_STREAM_REPLICAS", given)
        assert Settings.load().stream_replicas == int(given)
    for wrong in ("0", "2", "4", "7"):
        monkeypatch.setenv("TOWPATH_STREAM_REPLICAS", wrong)
        with pytest.raises(ValidationError, match="stream_replicas"):
            Settings.load()

"""Which addresses and hosts a tool may fetch from."""

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from towpath import ToolError
from towpath.tools.egress import EgressClient, headers_for
from towpath.tools.egress_rules import EgressRules, is_public
from towpath.tools.egress_settings import HttpEgressSettings


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "168.63.129.16",
        "192.0.0.192",
        "192.88.99.1",
        "fec0::1",
        "3fff::1",
        "::ffff:168.63.129.16",
    ],
)
def test_an_address_that_is_not_public_is_known_in_every_form(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8"])
def test_a_public_address_is_known(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("following", "kept"),
    [
        ("https://a.example/other", {"X-Api-Key", "Authorization", "Accept", "X-Goog-Token"}),
        ("https://b.example/", {"Accept"}),
        ("http://a.example/", {"Accept"}),
        ("https://a.example:8443/", {"Accept"}),
    ],
)
def test_a_redirect_takes_no_key_to_another_origin(following: str, kept: set[str]) -> None:
    sent = {"X-Api-Key": "k", "Authorization": "Bearer k", "Accept": "text/html", "X-Goog-Token": "k"}
    found = headers_for(httpx2.URL(following), httpx2.URL("https://a.example/"), sent)
    assert {*found} == kept


async def refusal(egress: EgressClient, url: str) -> str:
    with pytest.raises(ToolError) as caught:
        await egress.resolve(url)
    return caught.value.code


async def test_no_host_is_allowed_by_default() -> None:
    egress = EgressClient(HttpEgressSettings(_env_file=None).rules())
    assert await refusal(egress, "http://127.0.0.1/") == "http_host_not_allowed"
    assert await refusal(egress, "https://example.com/") == "http_host_not_allowed"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:5432/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://0/",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
async def test_an_allowed_name_does_not_open_a_private_address(url: str) -> None:
    assert await refusal(EgressClient(EgressRules(allowed=("*",))), url) in {
        "http_address_not_allowed",
        "http_host_unknown",
    }


async def test_a_private_address_is_opened_only_by_name() -> None:
    egress = EgressClient(EgressRules(allowed=("localhost", "127.0.0.1"), allowed_private=("localhost",)))
    assert (await egress.resolve("http://localhost:81/x")).port == 81
    assert [(await egress.resolve(f"{kind}://localhost/")).port for kind in ("http", "https")] == [80, 443]
    assert await refusal(egress, "http://127.0.0.1/") == "http_address_not_allowed"


async def test_a_pattern_with_a_port_opens_that_port_alone() -> None:
    names = ("localhost:8443", "*.localhost:80", "[::1]:81", "::1")
    egress = EgressClient(EgressRules(allowed=names, allowed_private=names))
    for url in ("http://localhost:8443/", "http://[::1]:81/", "http://[::1]:82/"):
        await egress.resolve(url)
    assert await refusal(egress, "http://localhost:8787/") == "http_host_not_allowed"
    assert await refusal(egress, "http://localhost/") == "http_host_not_allowed"
    wide = EgressClient(EgressRules(allowed=("localhost",), allowed_private=("localhost:81",)))
    assert await refusal(wide, "http://localhost:82/") == "http_address_not_allowed"


async def test_the_ports_of_the_platform_are_never_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {
        "gateway_url": "http://127.0.0.1:8787",
        "nats_url": "nats://127.0.0.1:8222",
        "pid": 7,
        "processes": {"tas": {"health_url": "http://127.0.0.1:9001"}, "nats": {"pid": 1}},
    }
    place = tmp_path / "state.json"
    for name, value in (
        ("TOWPATH_HTTP_ALLOW", "*"),
        ("TOWPATH_HTTP_ALLOW_PRIVATE", "*"),
        ("TOWPATH_NATS_URL", "nats://127.0.0.1:4222"),
        ("TOWPATH_STATE_FILE", str(place)),
    ):
        monkeypatch.setenv(name, value)
    egress = EgressClient(HttpEgressSettings().rules())
    assert await refusal(egress, "http://127.0.0.1:81/") == "http_address_not_allowed", (
        "nobody can say whose port it is"
    )
    await egress.resolve("http://10.77.1.2:81/")
    place.write_text(json.dumps(state))
    await egress.resolve("http://127.0.0.1:81/")
    await egress.resolve("http://10.77.1.2:9001/")  # another machine has services of its own at these ports
    assert await refusal(egress, "http://10.77.1.2:4222/") == "http_address_not_allowed", "the broker may be there"
    for port in (8787, 8222, 9001, 4222):
        for host in ("127.0.0.1", "[::1]", "127.8.8.8", "[::ffff:127.0.0.1]"):
            assert await refusal(egress, f"http://{host}:{port}/") == "http_address_not_allowed"
    state["processes"]["tas"]["health_url"] = "http://127.0.0.1:9002"
    place.write_text(json.dumps(state))
    assert await refusal(egress, "http://127.0.0.1:9002/") == "http_address_not_allowed"


async def test_a_port_of_the_platform_is_not_reached_by_a_public_address_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "towpath.tools.egress_rules._is_of_this_machine", lambda address: str(address) == "93.184.216.34"
    )
    rules = EgressRules(allowed=("*",), own_ports=lambda: {8787}, broker_ports=(4222,))
    assert await rules.address_of("93.184.216.34", 443) == "93.184.216.34"
    for port in (8787, 4222):
        with pytest.raises(ToolError) as refused:
            await rules.address_of("93.184.216.34", port)
        assert refused.value.code == "http_address_not_allowed"
        assert await rules.address_of("8.8.8.8", port) == "8.8.8.8"


async def test_patterns_are_whole_names() -> None:
    egress = EgressClient(EgressRules(allowed=("*.example.test", "api.test"), allowed_private=("*",)))
    for url in (
        "http://example.test/",
        "http://notapi.test/",
        "http://api.test.evil/",
        "http://evil.test/?api.test",
        "http://xexample.test/",
    ):
        assert await refusal(egress, url) == "http_host_not_allowed"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://localhost/",
        "file:///etc/passwd",
        "localhost",
        "http://",
        "http://user:secret@localhost/",
        "http://localhost:x/",
    ],
)
async def test_what_is_no_address_to_fetch_is_refused(url: str) -> None:
    assert await refusal(EgressClient(EgressRules(allowed=("*",), allowed_private=("*",))), url) == "http_url_invalid"


@pytest.mark.parametrize("host", ["a b", "a..b", "x" * 70, "nowhere.invalid"])
async def test_a_name_that_leads_nowhere_is_a_refusal(host: str) -> None:
    assert await refusal(EgressClient(EgressRules(allowed=("*",))), f"http://{host}/") in {
        "http_host_unknown",
        "http_url_invalid",
    }


async def test_the_name_is_resolved_once_and_the_address_is_what_is_connected_to() -> None:
    egress = EgressClient(EgressRules(allowed=("*",), allowed_private=("*",)))
    six = await egress.resolve("https://[::1]:8443/x?y=z")
    assert str(six.pinned) == "https://[::1]:8443/x?y=z"
    four = await egress.resolve("http://127.1/x")
    assert str(four.pinned).startswith("http://127.0.0.1")


def test_the_lists_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_HTTP_ALLOW", "api.test, *.example.test\nother.test")
    monkeypatch.setenv("TOWPATH_HTTP_ALLOW_PRIVATE", "api.test")
    egress = HttpEgressSettings().rules()
    assert egress.allowed == ("api.test", "*.example.test", "other.test")
    assert egress.allowed_private == ("api.test",)


@pytest.fixture
async def countdown() -> AsyncIterator[str]:
    """A server that redirects from /N to /N-1, and answers at /0 with 2 MiB."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = int((await reader.readline()).split()[1][1:])
        head = (
            f"302 Found\r\nLocation: /{left - 1}\r\nContent-Length: 0" if left else f"200 OK\r\nContent-Length: {2**21}"
        )
        writer.write(f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode() + b"x" * (0 if left else 2**21))
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_five_redirects_are_followed_and_a_mebibyte_of_an_answer_is_read(countdown: str) -> None:
    egress = EgressClient(EgressRules(allowed=("*",), allowed_private=("127.0.0.1",)))
    asked: dict[str, Any] = {"headers": {}, "body": None, "timeout_s": 30}
    fetched = await egress.fetch("GET", f"{countdown}/5", **asked)
    assert (fetched.status, len(fetched.data), fetched.truncated) == (200, 1024 * 1024, True)
    with pytest.raises(ToolError) as caught:
        await egress.fetch("GET", f"{countdown}/6", **asked)
    assert caught.value.code == "http_too_many_redirects"

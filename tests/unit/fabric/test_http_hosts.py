"""What asks for no key is told only to who uses a name that no stranger can point here."""

from typing import Any

import pytest

from towpath_fabric.health import refused_host
from towpath_fabric.service import Service
from towpath_fabric.settings import Settings


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "[::1]:8080", "gateway:8080", "10.1.2.3", "T.Example:443"]
)
def test_addresses_plain_names_and_known_names_are_answered(host: str) -> None:
    assert refused_host([(b"accept", b"*/*"), (b"host", host.encode())], {"t.example"}) is None
    assert refused_host([], ()) is None


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example."]
)
def test_other_names_are_refused(host: str) -> None:
    assert refused_host([(b"host", host.encode())], {"t.example"}) is not None


@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/livez", "/asyncapi.json", "/openapi.json", "/v1/runs"])
async def test_a_service_answers_to_its_own_names(path: str) -> None:
    service = Service("orchestrator", Settings.load(http_hosts="Towpath.example, b.example"))

    async def receive() -> Any:
        raise AssertionError("nothing is read of this request")

    async def status(*hosts: bytes) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": path, "method": "GET", "headers": [(b"host", host) for host in hosts]}
        await service.asgi()(scope, receive, send)
        return int(sent[0]["status"])

    assert await status(b"localhost", b"localhost") == 400
    if path == "/v1/runs":
        return
    assert await status(b"evil.example") == 421
    assert await status(b"towpath.example") != 421

"""Noise of every kind on every operation gives an answer or a problem, never a crash of the gateway itself."""

import asyncio
import json
import random
import string
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from fastapi.routing import APIRoute
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.gateway.openapi_document import openapi_document
from tests.support.platform.platform_peer import PlatformPeer

from towpath_gateway.app.application import ROUTERS

ROUNDS = 8
ODD_TEXTS = ("", " ", "a b", "ü", "\n", "%", "..", "/", "x" * 300, "null", "-1", "1e99", "😀", "\x7f", "'; --", "{}")
OPERATIONS = sorted(
    (method, route.path_format)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and route.include_in_schema
    for method in route.methods
)


@pytest.fixture(scope="module")
def gateway(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_process(folder, nats_url, embedded="true", run_wait_s="0.2") as process:
        asyncio.run(process.wait_ready())
        yield process


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with gateway.client() as client:
        yield client


@pytest.fixture
async def peer(nats_url: str) -> AsyncIterator[PlatformPeer]:
    async with PlatformPeer(nats_url) as peer:
        yield peer


def text(chance: random.Random) -> str:
    if chance.random() < 0.4:
        return chance.choice(ODD_TEXTS)
    if chance.random() < 0.3:
        return str(uuid.UUID(int=chance.getrandbits(128)))
    return "".join(chance.choices(string.printable, k=chance.randrange(1, 20)))


def value(chance: random.Random, depth: int = 0) -> Any:
    kinds = 8 if depth < 3 else 6
    match chance.randrange(kinds):
        case 0:
            return None
        case 1:
            return chance.choice([True, False])
        case 2:
            return chance.choice([0, -1, 2**31, 2**63, 10**40, 1.5, -0.0, 1e308])
        case 6:
            return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
        case 7:
            return {text(chance): value(chance, depth + 1) for _ in range(chance.randrange(4))}
        case _:
            return text(chance)


def body_for(chance: random.Random, operation: dict[str, Any], schemas: dict[str, Any]) -> bytes | None:
    """Return a body whose fields mostly have the right names and mostly the wrong values."""
    found = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if found is None or chance.random() < 0.1:
        return None
    if chance.random() < 0.15:
        return chance.randbytes(chance.randrange(60))
    reference = next((part["$ref"] for part in [found, *found.get("anyOf", [])] if "$ref" in part), "")
    properties = schemas.get(reference.rpartition("/")[2], {}).get("properties", {})
    chosen = {name: value(chance) for name in properties if chance.random() < 0.6}
    if chance.random() < 0.6:  # let some get past validation
        chosen |= {name: "support" for name in ("network", "user_message", "agent_key", "tool") if name in properties}
    return json.dumps(chosen).encode("utf-8", "surrogatepass")


def request_for(chance: random.Random, method: str, path: str) -> dict[str, Any]:
    operation, schemas = openapi_document()["paths"][path][method.lower()], openapi_document()["components"]["schemas"]
    query = {}
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", quote(text(chance) or "x", safe=""))
        elif parameter["in"] == "query" and chance.random() < 0.5:
            query[parameter["name"]] = text(chance)
    kind = chance.choice(["application/json"] * 5 + ["text/plain", "application/json; charset=x"])
    headers = [(b"Content-Type", kind.encode()), (b"Prefer", b"wait=0")]
    odd = [name for name in (b"Idempotency-Key", b"Prefer", b"Last-Event-ID", b"traceparent") if chance.random() < 0.3]
    headers += [(name, text(chance).encode().translate(None, delete=b"\r\n")) for name in odd]
    content = body_for(chance, operation, schemas)
    return {"method": method, "url": path, "params": query, "headers": headers, "content": content}


def test_every_operation_is_tried() -> None:
    described = {(method.upper(), path) for path, methods in openapi_document()["paths"].items() for method in methods}
    assert described == set(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[f"{method} {path}" for method, path in OPERATIONS])
async def test_noise_is_answered(client: httpx2.AsyncClient, peer: PlatformPeer, method: str, path: str) -> None:
    chance = random.Random(f"{method} {path}")
    for _ in range(ROUNDS):
        request = request_for(chance, method, path)
        try:
            answer = await client.request(**request)
        except httpx2.LocalProtocolError:
            continue  # the client itself refuses to send it
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json", (request, answer.text)
            assert answer.json()["remedy"]
            assert "failed:" not in answer.json()["detail"], (request, answer.text)  # nobody expected it
    assert (await client.get("/livez")).status_code == 200

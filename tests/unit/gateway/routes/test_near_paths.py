"""A path of the API with a slip in it is told with the path that was meant."""

import asyncio
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, FastAPI
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.unit.gateway.test_admission import KEY, door

from towpath_gateway.app.errors import answer_with_problems


def served() -> FastAPI:
    app, router = FastAPI(), APIRouter(prefix="/v1")
    for path in ("/runs", "/gates", "/runs/{run_id}/events", "/switches/abcdefghijklmnopqrstuvwxyz01234"):
        router.get(path)(lambda: None)
    router.get("/secrets", include_in_schema=False)(lambda: None)
    app.include_router(router)
    answer_with_problems(app)
    return app


def told(path: str) -> Any:
    async def ask() -> Any:
        transport = httpx2.ASGITransport(app=served())
        async with httpx2.AsyncClient(transport=transport, base_url="http://towpath.example") as client:
            return (await client.get(path)).json()["detail"]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("/v1/run", "/v1/runs"),
        ("/v1/gaets", "/v1/gates"),
        ("/mcpx", "/mcp"),
        ("/mcp/", "/mcp"),
        ("/map", ""),
        ("/v1/runz/0192f3/events", "/v1/runs/{run_id}/events"),
        ("/v1/runs/0192f3/evnets", "/v1/runs/{run_id}/events"),
        ("/vl/runs", ""),  # a version is short: half of it is another one
        ("/v1/tools", ""),
        ("/v1/nus", ""),  # 0.57 like runs
        ("/v1/secret", ""),  # what the document leaves out is not told
        ("/v1/runs/0192f3", ""),
        ("/v1/switches/abcdefghijklmnopqrstuvwxyz012345", "/v1/switches/abcdefghijklmnopqrstuvwxyz01234"),
        ("/v1/switches/abcdefghijklmnopqrstuvwxyz0123456", ""),  # 33 characters are not compared
    ],
)
def test_a_slip_in_one_part_of_a_path_is_told_with_the_path_that_was_meant(typed: str, meant: str) -> None:
    said = told(typed)
    assert said == f"GET {typed}: " + (f"did you mean {meant}?" if meant else "the gateway has no such path")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/responses", "/v1/responses"),
        ("/models", "/v1/models"),
        ("/models/support", "/v1/models/support"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/mcp/chat/completions", "/v1/chat/completions"),
        ("/api/responses", "/v1/responses"),
    ],
)
def test_another_address_than_openais_is_told_with_it_where_their_clients_look(path: str, meant: str) -> None:
    async def ask() -> Any:
        transport = httpx2.ASGITransport(app=served())
        async with httpx2.AsyncClient(transport=transport, base_url="http://towpath.example") as client:
            return await client.post(path, json={})

    answer = asyncio.run(ask())
    assert answer.status_code == 404
    message = answer.json()["error"]["message"]
    assert f"did you mean {meant}? End the address that the client has in /v1: base_url=" in message


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("/mcpx", "POST /mcpx: did you mean /mcp?"),
        ("/", "POST /: MCP is spoken at /mcp. Give the client the address http://HOST:PORT/mcp."),
        ("/v1", "POST /v1: MCP is spoken at /mcp."),
        ("/v1/runs", "POST /v1/runs: MCP is spoken at /mcp."),  # it takes another method
    ],
)
def test_a_client_of_mcp_with_another_address_is_told_the_one_that_it_should_have(address: str, told: str) -> None:
    async def ask() -> None:
        transport = httpx2.ASGITransport(app=served())
        async with (
            httpx2.AsyncClient(transport=transport) as http,
            Client(streamable_http_client(f"http://towpath.example{address}", http_client=http)) as client,
        ):
            await client.list_tools()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(ask())
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, MCPError) and told in error.message


async def test_a_client_of_mcp_that_has_the_address_of_the_gateway_alone_is_not_answered_by_the_console() -> None:
    taken = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {KEY}"}
    transport = httpx2.ASGITransport(app=door())
    async with httpx2.AsyncClient(transport=transport, base_url="http://towpath.example", headers=taken) as client:
        answer = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
    assert "POST /: MCP is spoken at /mcp" in answer.json()["error"]["message"]

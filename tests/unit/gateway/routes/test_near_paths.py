"""A path of the API with a slip in it is told with the path that was meant."""

import asyncio
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, FastAPI

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
    assert said == f"GET {typed}: " + (f"did you mean {meant}?" if meant else "Not Found")


@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/models", "/models/support"])
def test_an_address_of_openai_without_its_version_is_told_with_it_where_their_clients_look(path: str) -> None:
    async def ask() -> Any:
        transport = httpx2.ASGITransport(app=served())
        async with httpx2.AsyncClient(transport=transport, base_url="http://towpath.example") as client:
            return await client.post(path, json={})

    answer = asyncio.run(ask())
    assert answer.status_code == 404
    message = answer.json()["error"]["message"]
    assert f"did you mean /v1{path}? End the address that the client has in /v1: base_url=" in message

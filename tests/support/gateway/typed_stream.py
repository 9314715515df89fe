"""The typed stream over HTTP, as a client without the SDK reads it."""

import json
from typing import Any

import httpx2
from tests.support.gateway.sse import Frame, frames

from towpath import Client


async def check_typed_stream(client: httpx2.AsyncClient, run_id: str, events: list[Any]) -> None:
    """Hold the typed stream of a tree over HTTP against the SDK's *events*, and what comes after its ids."""
    wanted = [one for one in events if one.type not in {"delta", "superseded"}]
    headers = {"Accept": "text/event-stream"}
    query = {"detailed": "true", "children": "true"}

    async def read(**more: str) -> list[Frame]:
        address = f"/v1/runs/{run_id}/events"
        async with client.stream("GET", address, params=query, headers={**headers, **more}) as answer:
            assert answer.status_code == 200
            return [one async for one in frames(answer) if one.data]

    found = await read()
    assert found[-1].event == "end"
    assert [json.loads(one.data) for one in found[:-1]] == [json.loads(one.model_dump_json()) for one in wanted]
    for number in range(0, len(wanted), 5):
        assert await read(**{"Last-Event-ID": str(found[number].id)}) == found[number + 1 :]
    unknown = await client.get(f"/v1/runs/{run_id}/events", params={"event_types": "texts"}, headers=headers)
    assert (unknown.status_code, unknown.json()["code"]) == (422, "request_invalid")


async def check_brief_stream(server: str, run_id: str, events: list[Any]) -> None:
    """Hold what another client reads in short, and the log entries of the tree, against the SDK's *events*."""
    async with Client(server) as again:
        brief = [one async for one in again.stream(run_id, detailed=False, children=True)]
        calls, senior = ("tool_call", ()), ("senior",)
        words = [(one.type, one.path) for one in brief]
        assert words == [calls, calls, ("tool_call", senior), ("text", senior), calls]
        entries = [one async for one in again.events(run_id, children=True)]
    assert {one.run_id: one.path for one in entries} == {one.run_id: one.path for one in events}

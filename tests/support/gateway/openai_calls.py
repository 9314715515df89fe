"""Decisions that a script plays for OpenAI's clients, and what tests look at beside them."""

import asyncio
from typing import Any

import httpx2
from openai import AsyncOpenAI
from tests.support.platform.objective_runs import use

FIND = use("orders.find", order_id="8812")
REFUND = use("orders.refund", order_id="8812", amount=129)
WEATHER = {
    "name": "get_weather",
    "description": "How the weather is.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"$ref": "#/$defs/Place"}},
        "required": ["place"],
        "additionalProperties": False,
        "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    },
}
ASK = [{"role": "user", "content": "Where is order 8812?"}]


def respond(payload: Any) -> dict[str, Any]:
    """Return the decision that ends a run with *payload*."""
    return {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": payload}}


def calls(*cities: Any) -> dict[str, Any]:
    """Return the decision that asks the caller for the weather in *cities*."""
    return respond({"tool_calls": [{"name": "get_weather", "arguments": {"place": {"city": city}}} for city in cities]})


def played(*script: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return what a client sends besides: a script for the agent that looks after money."""
    return {"towpath": {"agent_key": "billing", "script": list(script), **more}}


async def prompt_of(http: httpx2.AsyncClient, run_id: str) -> str:
    """Return what the model of a debug run was asked in its first step, from its context on."""
    for _ in range(100):
        found = (await http.get(f"/v1/runs/{run_id}/steps/1/model-calls")).json()["calls"]
        if found and found[0].get("prompt"):
            return str(found[0]["prompt"]).partition("# Context")[2]
        await asyncio.sleep(0.1)
    raise AssertionError(found)


async def runs_of(http: httpx2.AsyncClient, label: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await http.get("/v1/runs", params={"label": label})).json()["runs"]
    return found


async def streamed(client: AsyncOpenAI, asked: dict[str, Any]) -> str:
    stream = await client.chat.completions.create(model="support", messages=ASK, stream=True, extra_body=asked)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def approve_all(http: httpx2.AsyncClient, key: str, count: int) -> None:
    approved: set[str] = set()
    for _ in range(200):
        for gate in (await http.get("/v1/gates?limit=500")).json()["gates"]:
            said = {"digest": gate["detail"]["digest"]}
            headers = {"Authorization": f"Bearer {key}"}
            answer = await http.post(f"/v1/gates/{gate['gate_id']}/approve", json=said, headers=headers)
            approved |= {gate["gate_id"]} if answer.status_code == 200 else set()
        if len(approved) >= count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("too few gates were opened")

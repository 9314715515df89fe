"""What tests do on a platform that is watched: submit, read the log, wait at gates, write down what models say."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel
from tests.support.decider.gemini_server import Answer
from tests.support.platform.marked_runs import NETWORK
from tests.support.platform.watched_platform import LOCAL, Watched

from towpath.cli import main

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TREE = {
    "invoke_workflow marks": "POST /run",
    "submit marks": "invoke_workflow marks",
    "step a": "invoke_workflow marks",
    "chat qwen3": "step a",
    "tool_call mark.pure": "step a",
    "authorize mark.pure": "tool_call mark.pure",
    "execute_tool mark.pure": "tool_call mark.pure",
}
"""The spans of a run with one call, and below what they stand."""
SECRET = "the customer's secret words"
SCRIPT = [
    {
        "action": "USE_TOOL",
        "action_reasoning": "look first",
        "action_details": {"tool_name": "mark.pure", "tool_params": {"n": 1}},
    },
    {"action": "RESPOND", "action_reasoning": "enough", "action_details": {"payload": "done"}},
]


def task_of(**more: Any) -> dict[str, Any]:
    return {"network": NETWORK["name"], "user_message": SECRET, "script": SCRIPT, **more}


async def run(client: httpx2.AsyncClient, headers: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    answer = await client.post("/run", json=task_of(**more), headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def printed(watched: Watched, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Return what a command prints, as JSON."""
    return json.loads(await shown(watched, capsys, *words, form="json"))


async def shown(watched: Watched, capsys: pytest.CaptureFixture[str], *words: str, form: str = "table") -> str:
    """Return what a command prints in that form: for people, unless another is asked for."""
    code = await asyncio.to_thread(main, [*words, "--server", watched.platform.client_url, "-o", form])
    told = capsys.readouterr()
    assert code == 0, told
    return told.out


async def events_of(client: httpx2.AsyncClient, run_id: str) -> list[dict[str, Any]]:
    page = (await client.get(f"/v1/runs/{run_id}/events", params={"limit": 1_000})).json()
    return [entry["event"] for entry in page["entries"]]


async def gates_of(client: httpx2.AsyncClient, run_id: str, count: int) -> list[dict[str, Any]]:
    """Wait until the run has opened *count* gates, and waits at the last of them."""
    opened: list[dict[str, Any]] = []

    async def waiting() -> bool:
        opened[:] = [event for event in await events_of(client, run_id) if event["type"] == "gate_opened"]
        status = (await client.get(f"/v1/runs/{run_id}")).json()["status"]
        return len(opened) >= count and status == "waiting"

    async with asyncio.timeout(90):
        while not await waiting():  # noqa: ASYNC110 - what is waited for is in other processes
            await asyncio.sleep(0.05)
    assert len(opened) == count
    return opened


def says(*decisions: dict[str, Any]) -> list[Answer]:
    """The local model writes these decisions, one after another."""
    return [LOCAL.says(json.dumps(decision)) for decision in decisions]


def answers(**payload: Any) -> dict[str, Any]:
    return {"action": "RESPOND", "action_reasoning": "sure", "action_details": {"payload": payload}}


def stops(reason: str, part: dict[str, Any]) -> Answer:
    """Gemini ends its answer for that reason, with 110 tokens."""
    said = {"index": 0, "finishReason": reason, "content": {"role": "model", "parts": [part]}}
    counted = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    return Answer(body={"candidates": [said], "usageMetadata": counted})


class Verdict(BaseModel):
    """What a reviewer answers."""

    verdict: str
    score: int

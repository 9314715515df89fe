"""What runs of objectives are scripted with, and what is read of them."""

import asyncio
from typing import Any

import httpx2

from towpath import Client, Objective

CLERK = {
    "name": "clerks",
    "agents": [
        {
            "key": "clerk",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": ["plan_setup", "workspace_write", "desk.count", "desk.shout", "desk.refuse"],
        }
    ],
}


FINAL = {"completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"}


async def got_as_far(client: Client, run_id: Any, wanted: int, within_s: float = 60) -> None:
    """Return when the run has made *wanted* steps, or has ended; whatever is away meanwhile comes back."""
    async with asyncio.timeout(within_s):
        while True:
            try:
                view = await client.get(run_id)
            except Exception:  # noqa: BLE001 - it is asked again
                view = None
            if view is not None and (view.step >= wanted or view.status in FINAL):
                return
            await asyncio.sleep(0.05)


def use(tool: str, **params: Any) -> dict[str, Any]:
    return {"action": "USE_TOOL", "action_details": {"tool_name": tool, "tool_params": params}}


def plan(*titles: str) -> dict[str, Any]:
    return use("plan_setup", objective="Do it.", steps=[{"title": title} for title in titles or ("do it",)])


DONE = {"action": "RESPOND", "action_details": {"payload": "done"}}
SUMMARY = {"kind": "summarize", "summary": "It is done.", "deliverable": {"verdict": "approve"}}
VERDICT = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}


async def prompts(client: Client, script: list[Any]) -> str:
    """Return the prompts of a run, as its debug answer holds them."""
    task = {"network": "review", "background": {"objective": "Do it."}, "script": script, "debug": True}
    async with httpx2.AsyncClient(base_url=client.server, verify=False, timeout=90) as http:
        answer = await http.post("/run", json=task)
    assert answer.is_success, answer.text
    return "\n".join(prompts_in(answer.json()))


def prompts_in(answer: Any) -> list[str]:
    """Return every text that was sent to a model, wherever it stands in *answer*."""
    if isinstance(answer, list):
        return [text for one in answer for text in prompts_in(one)]
    if not isinstance(answer, dict):
        return []
    own = [answer["prompt"]] if isinstance(answer.get("prompt"), str) else []
    return own + [text for one in answer.values() for text in prompts_in(one)]


def comparable(event: Any) -> dict[str, Any]:
    """An event without what differs between two runs: ids and times."""
    said = event.model_dump(mode="json")
    gone = (
        "request_id",
        "execution_id",
        "duration_ms",
        "prompt_digest",
        "raw_digest",
        "script_digest",
        "detail",
        "model",
    )

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in gone}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return dict(plain(said))


async def at_budget_gate(client: Client) -> Any:
    """Begin an objective with a soft limit of two model calls, and return the gate at which a person is asked."""
    writes = [use("workspace_write", path=f"{name}.txt", content=name) for name in "abc"]
    budget = {"model_calls": 40, "soft": 0.05, "on_soft": "gate"}
    script = [plan("write"), *writes, DONE, SUMMARY]
    accepted = await client.submit("review", background=Objective("Do it."), script=script, budget=budget)
    async with asyncio.timeout(60):
        while (await client.get(accepted.run_id)).status != "waiting":  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.05)
    (gate,) = await client.gates.list(run_id=accepted.run_id)
    return gate

# ruff: noqa: N802 - a test bears the name of its row
"""Rows A13 and A14 on the running platform: the HTTP shape of source design 0, and one span tree per run."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from tests.support.marked_runs import NETWORK, platform_of, publish
from tests.support.otlp_receiver import Receiver, otlp_receiver
from tests.support.waiting import eventually

from towpath_embedded.identity import temporary_folder
from towpath_embedded.platform import Platform

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "the customer's secret words"
SCRIPT = [
    {
        "action": "USE_TOOL",
        "action_reasoning": "look first",
        "action_details": {"tool_name": "mark.pure", "tool_params": {"n": 1}},
    },
    {"action": "RESPOND", "action_reasoning": "enough", "action_details": {"payload": "done"}},
]


async def run(client: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    body = {"network": NETWORK["name"], "user_message": SECRET, "script": SCRIPT, **more}
    answer = await client.post("/run", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@dataclass
class Watched:
    """A platform, and who receives its spans."""

    platform: Platform
    receiver: Receiver

    def spans(self, trace_id: str) -> list[Any]:
        return [span for span in self.receiver.spans if span.trace_id == trace_id]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched() -> AsyncIterator[Watched]:
    with temporary_folder() as folder, otlp_receiver() as receiver:
        platform = platform_of(
            folder / "platform", 1, 1, environment={"TOWPATH_OTLP_ENDPOINT": receiver.url}, durable=False
        )
        async with platform:
            await publish(platform)
            yield Watched(platform, receiver)


async def test_A13_post_run_answers_in_the_shape_of_the_source_and_debug_adds_raw_texts(watched: Watched) -> None:
    async with httpx2.AsyncClient(base_url=watched.platform.gateway_url, timeout=60) as client:
        plain = await run(client)
        assert plain["final"] == {"message": "done"}
        assert [entry["type"] for entry in plain["execution_log"]] == ["agent", "tool", "agent"]
        assert len(plain["tool_refs"]) == 1 and len(plain["instructions"]) == 2
        assert plain["trace_id"] == plain["run_id"].replace("-", "")
        assert SECRET not in json.dumps({k: v for k, v in plain.items() if k != "execution_log"})
        debugged = await run(client, debug=True, max_steps=5)
        texts = json.dumps(debugged)
        assert "look first" in texts and SECRET in texts
        assert len(json.dumps(debugged)) > len(json.dumps(plain))
        capped = await run(client, max_steps=1)
        assert capped["final"]["error"] == "max_steps_exceeded"
        assert [entry["type"] for entry in capped["execution_log"]] == ["agent", "tool"]
        unknown = await client.post("/run", json={"network": "marks", "user_message": "x", "surprise": 1})
        assert unknown.status_code == 422 and unknown.headers["content-type"] == "application/problem+json"


async def test_A14_a_run_is_one_tree_of_spans_without_prompts(watched: Watched) -> None:
    async with httpx2.AsyncClient(base_url=watched.platform.gateway_url, timeout=60) as client:
        answer = await run(client)
    await eventually(lambda: len(watched.spans(answer["trace_id"])) >= 9, within_s=60)  # each service sends its own
    spans = watched.spans(answer["trace_id"])
    by_id = {span.span_id: span for span in spans}
    names = sorted(span.name for span in spans)
    assert names == sorted(
        [
            "invoke_workflow marks",
            "submit marks",
            "step a",
            "step a",
            "chat task",
            "chat task",
            "tool_call mark.pure",
            "authorize mark.pure",
            "execute_tool mark.pure",
        ]
    ), names
    roots = [span for span in spans if span.parent_id not in by_id]
    assert [root.name for root in roots] == ["invoke_workflow marks"]
    parents = {span.name: by_id[span.parent_id].name for span in spans if span.parent_id in by_id}
    assert parents["authorize mark.pure"] == parents["execute_tool mark.pure"] == "tool_call mark.pure"
    assert parents["tool_call mark.pure"] == "step a"
    assert {span.service for span in spans} >= {
        "towpath-orchestrator",
        "towpath-tas",
        "towpath-decider",
        "towpath-worker",
    }, {span.service for span in spans}
    assert SECRET not in repr([(span.attributes, span.events) for span in spans])
    assert any(span.events for span in spans if span.name == "step a")


async def events_of(client: httpx2.AsyncClient, run_id: str) -> list[dict[str, Any]]:
    page = (await client.get(f"/v1/runs/{run_id}/events", params={"limit": 1_000})).json()
    return [entry["event"] for entry in page["entries"]]


async def test_b8_the_third_equal_call_inside_a_run_is_not_run_and_the_fourth_ends_it(watched: Watched) -> None:
    """Row B8: loop detection on order-free canonical signatures, threshold 3, fires on the third, inside a run."""
    pair = [("mark.pure", 1), ("mark.idempotent", 2)]

    def together(order: list[tuple[str, int]]) -> dict[str, Any]:
        calls = [{"tool_name": name, "tool_params": {"n": n}} for name, n in order]
        return {"action": "USE_TOOL", "action_reasoning": "again", "action_details": {"calls": calls}}

    script = [together(pair), together(pair[::-1]), together(pair), together(pair[::-1])]
    async with httpx2.AsyncClient(base_url=watched.platform.gateway_url, timeout=60) as client:
        answer = await run(client, script=script)
        events = await events_of(client, answer["run_id"])
    assert answer["final"]["error"] == "loop_detected"
    found = [(e["detector"], e["count"], e["action"]) for e in events if e["type"] == "loop_detected"]
    assert found == [("calls", 3, "nudge"), ("calls", 3, "stop")]
    assert sum(event["type"] == "tool_call_finished" for event in events) == 4, "the third pair was never run"


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


async def test_c5_three_equal_errors_of_a_goal_run_open_one_gate_and_a_person_clears_the_count(
    watched: Watched,
) -> None:
    """Row C5: 3 equal normalised errors → gate; one gate per loop; a person's word clears the count."""
    unknown = [
        {"action": "USE_TOOL", "action_reasoning": "try", "action_details": {"tool_name": name, "tool_params": {}}}
        for name in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
    ]
    task = {"network": NETWORK["name"], "goal": {"goal": "Find the right tool."}, "script": unknown}
    async with httpx2.AsyncClient(base_url=watched.platform.gateway_url, timeout=60) as client:
        answer = await client.post("/v1/runs", json=task)
        assert answer.status_code in {200, 201, 202}, answer.text
        run_id = answer.json()["run_id"]
        (gate,) = await gates_of(client, run_id, 1)
        assert gate["gate_type"] == "loop_detected" and gate["detail"]["detector"] == "errors"
        found = [event for event in await events_of(client, run_id) if event["type"] == "loop_detected"]
        assert [(event["detector"], event["count"], event["action"]) for event in found] == [("errors", 3, "gate")]
        resolved = await client.post(f"/v1/gates/{gate['gate_id']}/approve", json={"reason": "go on"})
        assert resolved.status_code == 200, resolved.text
        _, second = await gates_of(client, run_id, 2)
        assert second["gate_id"] != gate["gate_id"] and second["detail"]["count"] == 3
        assert (await client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "enough"})).status_code < 300

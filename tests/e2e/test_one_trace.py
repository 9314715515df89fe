"""One run is one trace over all processes, and a receiver that hangs holds up nobody (feature A14)."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx2
import yaml
from tests.support.otlp_receiver import Receiver, otlp_receiver
from tests.support.waiting import eventually

from towpath_embedded.platform import Platform
from towpath_embedded.roles import WorkerCommand

SAMPLE = Path(__file__).parents[2] / "examples" / "support"
CLIENT_TRACE, CLIENT_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "the customer said something private"
SERVICES = {f"towpath-{name}" for name in ("gateway", "orchestrator", "decider", "tas", "worker")}


def use(tool: str, **params: Any) -> dict[str, Any]:
    return {
        "action": "USE_TOOL",
        "action_reasoning": "as planned",
        "action_details": {"tool_name": tool, "tool_params": params},
    }


SCRIPT = [
    use("orders.find", order_id="8812"),
    use("orders.refund", order_id="8812", amount=1, reason="x" * 100 + SECRET),
    use("orders.delete", order_id="8812"),
    {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "x" * 120 + SECRET}},
]


async def ready(client: httpx2.AsyncClient) -> None:
    """Publish the sample network, as soon as the worker's tools are known."""
    spec = yaml.safe_load((SAMPLE / "network.yaml").read_text())
    for _ in range(100):
        if (await client.post("/v1/networks", json={"spec": spec})).status_code in {200, 201}:
            return
        await asyncio.sleep(0.2)
    raise AssertionError("the network can't be published")


async def run(client: httpx2.AsyncClient) -> str:
    task = {"network": "support", "agent_key": "billing", "user_message": SECRET, "script": SCRIPT}
    headers = {"traceparent": f"00-{CLIENT_TRACE}-{CLIENT_SPAN}-01", "Prefer": "wait=20"}
    answer = await client.post("/v1/runs", json=task, headers=headers)
    assert answer.json()["status"] == "completed", answer.text
    return str(answer.json()["run_id"])


def check_tree(receiver: Receiver, run_id: str) -> None:
    spans = {span.span_id: span for span in receiver.spans if span.trace_id == run_id.replace("-", "")}
    roots = [span for span in spans.values() if not span.parent_id]
    assert [root.name for root in roots] == ["invoke_workflow support"]
    assert all(span.parent_id in spans for span in spans.values() if span.parent_id)
    parents = {(span.name, spans[span.parent_id].name) for span in spans.values() if span.parent_id}
    assert parents >= {
        ("submit support", "invoke_workflow support"),
        ("step billing", "invoke_workflow support"),
        ("chat task", "step billing"),
        ("tool_call orders.find", "step billing"),
        ("authorize orders.find", "tool_call orders.find"),
        ("execute_tool orders.find", "tool_call orders.find"),
        ("execute_tool orders.refund", "tool_call orders.refund"),
    }
    assert not any(span.name == "execute_tool orders.delete" for span in spans.values())
    submitted = next(span for span in spans.values() if span.name == "submit support")
    assert submitted.links == [(CLIENT_TRACE, CLIENT_SPAN)]
    assert SECRET not in repr(receiver.spans)


def whole(receiver: Receiver, run_id: str) -> bool:
    """Say whether every span has come whose parent or child has come."""
    try:
        check_tree(receiver, run_id)
    except (AssertionError, KeyError, StopIteration):
        return False
    return True


async def test_one_run_is_one_trace_and_a_hanging_receiver_stops_nothing(folder: Path) -> None:
    with otlp_receiver() as receiver:
        platform = Platform(
            folder / "data",
            environment={"TOWPATH_OTLP_ENDPOINT": receiver.url, "SHOP_DATABASE": str(folder / "orders.sqlite3")},
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(SAMPLE / "policy.yaml")}},
            workers=[WorkerCommand(modules=(str(SAMPLE / "tools.py"),))],
            durable=False,
            starts="fork",
        )
        async with platform, httpx2.AsyncClient(base_url=platform.gateway_url, timeout=40) as client:
            await ready(client)
            run_id = await run(client)
            trace = run_id.replace("-", "")
            await eventually(
                lambda: {span.service for span in receiver.spans if span.trace_id == trace} == SERVICES, within_s=60
            )
            await eventually(lambda: whole(receiver, run_id), within_s=60)  # every process sends once a second
            check_tree(receiver, run_id)
            receiver.behaviour = "hang"
            begun = time.monotonic()
            for _ in range(3):
                await run(client)
            assert time.monotonic() - begun < 60
            receiver.released.set()

"""What a platform with the sample holds once people wrote hostile texts into it, and where its pages are."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx2
import yaml
from tests.console_fuzz.texts import TEXTS
from tests.support.gateway.console_runs import SAMPLE, form, waiting_run

from towpath_console.pages import PAGES

ALL = "".join(text for name, text in TEXTS.items() if name not in ("surrogate", "controls", "combining", "wide"))
"""Many texts in one."""

BATCH = "?tool=orders.refund&rule=refunds-over-100"


async def write_hostile_texts(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Say hostile things wherever the platform lets somebody say something; returns what to look at."""
    await _publish(client)
    run_id, gate = await _hostile_run(client)
    finished, finished_gate = await waiting_run(client)
    await _refuse_gate(client, finished_gate["gate_id"])
    await client.post(f"/v1/runs/{run_id}/notes", json={"text": ALL[:2000]})
    await client.post("/v1/switches/tool/crm.*/pause", json={"reason": ALL[:500]})
    await client.post(
        "/v1/runs/bulk", json={"action": "label", "run_ids": [run_id, finished], "labels": {"case": ALL[:100]}}
    )
    await form(client, "/costs/budgets", kind="caller", name=TEXTS["handler"][:60], usd="2.5")
    await form(client, "/costs/budgets", kind="network", name="support", usd="250", note=ALL[:200])
    await form(client, "/settings/keys", caller=TEXTS["handler"][:60], **{"role:viewer": "yes"})
    await form(client, "/policy/shadow/set", text="kind: Policy\nrules: []\n", note=ALL[:200])
    asked = await form(client, "/audit/erasures", kind="payloads", caller=TEXTS["script"][:60], reason=ALL[:500])
    erasure_id = asked.headers.get("location", "").partition("?")[0].rpartition("/")[2]
    entries = (await client.get(f"/v1/audit?run_id={run_id}&verdict=require_approval&limit=1")).json()["entries"]
    entries = entries or (await client.get("/v1/audit?limit=1")).json()["entries"]
    worker = (await client.get("/v1/workers")).json()["workers"]
    return {
        "run_id": run_id,
        "other_run_id": finished,
        "gate_id": gate["gate_id"],
        "entry_id": entries[0]["entry_id"],
        "erasure_id": erasure_id,
        "worker_id": worker[0]["worker_id"] if worker else "0" * 32,
        "network": "support",
        "tool": "orders.refund",
        "version": 1,
        "step": 2,
    }


def paths(known: Mapping[str, Any]) -> dict[str, str]:
    """Return a path for every page whose parts are *known*, by its route; some stand there with each tab."""
    run_id = known["run_id"]
    asked = {
        "/runs/compare": f"?a={run_id}&b={known['other_run_id']}",
        "/approvals/batch": BATCH,
        "/policy/decision": f"?id={known['entry_id']}",
        "/policy/simulate": "?network=support&agent=billing&tool=orders.refund&args=%7B%22amount%22%3A129%7D",
        "/runs/cancel": "?status=waiting&network=support",
    }
    found = {}
    for route in PAGES:
        try:
            path = route.path.replace(":path}", "}").format_map(known)
        except KeyError:
            continue
        found[route.path] = path + asked.get(route.path, "")
    tabs = {
        "step/policy": f"/runs/{run_id}/steps/3?tab=policy",
        "step/model": f"/runs/{run_id}/steps/2?tab=model",
        "step/prompt": f"/runs/{run_id}/steps/3?tab=prompt",
        "step/calls": f"/runs/{run_id}/steps/3?tab=calls",
        "network/versions": "/networks/support?tab=versions",
        "network/prompts": "/networks/support?tab=prompts&agent=billing&message=hello",
        "network/yaml": "/networks/support?tab=yaml",
        "tool/schema": "/tools/orders.refund?tab=schema",
        "the ended run": f"/runs/{known['other_run_id']}",
        "audit of a run": f"/audit?run_id={run_id}",
        "approvals of everything": "/approvals?status=all",
    }
    return found | tabs


async def _publish(client: httpx2.AsyncClient) -> None:
    spec = yaml.safe_load((SAMPLE / "network.yaml").read_text())
    spec["description"] = ALL[:900]
    for agent in spec["agents"]:
        agent["description"] = ALL[:900]
        agent["respond_guidance"] = ALL[:900].replace("{", "(").replace("}", ")")
    spec["agents"][1]["display_name"] = TEXTS["handler"][:100]
    for _ in range(300):
        answer = await client.post("/v1/networks", json={"spec": spec})
        if answer.is_success:
            return
        if answer.status_code == 422:
            raise ValueError(answer.text)
        await asyncio.sleep(0.2)
    raise TimeoutError(answer.text)


async def _hostile_run(client: httpx2.AsyncClient) -> tuple[str, dict[str, Any]]:
    script = json.loads((SAMPLE / "script.json").read_text())
    for decision in script:
        decision["action_reasoning"] = ALL[:1500]
    script[0]["action_details"]["context"] = ALL[:1500]
    refused = {"tool_name": "orders.find", "tool_params": {"order_id": ALL}}
    script.insert(2, {**script[1], "action_details": refused})
    script[3]["action_details"]["tool_params"]["reason"] = ALL
    task = {"network": "support", "user_message": ALL, "script": script, "labels": {"case": TEXTS["handler"][:100]}}
    accepted = await client.post("/v1/runs", json=task)
    if not accepted.is_success:
        raise ValueError(accepted.text)
    run_id = accepted.json()["run_id"]
    for _ in range(200):
        gates = (await client.get(f"/v1/gates?status=pending&run_id={run_id}")).json()["gates"]
        if gates:
            return run_id, gates[0]
        await asyncio.sleep(0.05)
    raise TimeoutError((await client.get(f"/v1/runs/{run_id}")).text)


async def _refuse_gate(client: httpx2.AsyncClient, gate_id: str) -> None:
    answer = await form(client, f"/approvals/{gate_id}/deny", reason=ALL[:1500])
    if answer.status_code != 303:
        raise ValueError(answer.text)

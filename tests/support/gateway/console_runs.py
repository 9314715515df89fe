"""What tests of the console do first: runs that wait or have ended, messages nobody can handle, forms of pages."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import httpx2
import nats
import pytest
import yaml
from tests.support.gateway.mail_server import MailServer
from tests.support.gateway.web import Web
from tests.support.places import EXAMPLES

from towpath_embedded.platform import Platform

SAMPLE = EXAMPLES / "support"


async def waiting_run(browser: httpx2.AsyncClient) -> tuple[str, dict[str, Any]]:
    """Return a run that waits for an approval, and its gate."""
    script = json.loads((SAMPLE / "script.json").read_text())
    task = {"network": "support", "user_message": f"Refund order 8812 {uuid.uuid4()}", "script": script}
    run_id = (await browser.post("/v1/runs", json=task)).json()["run_id"]
    for _ in range(1_200):
        gates = (await browser.get(f"/v1/gates?status=pending&run_id={run_id}")).json()["gates"]
        if gates:
            return run_id, gates[0]
        await asyncio.sleep(0.05)
    pytest.fail("no gate opened")


async def form(browser: httpx2.AsyncClient, path: str, **fields: str) -> httpx2.Response:
    return await browser.post(path, data=fields, headers={"Origin": str(browser.base_url).rstrip("/")})


async def finished_run(browser: httpx2.AsyncClient, words: str = "") -> str:
    """Return a run of the sample that has ended, by an approval."""
    run_id, gate = await waiting_run(browser)
    await form(browser, f"/approvals/{gate['gate_id']}/approve", reason=words or "ok")
    for _ in range(1_200):
        if (await browser.get(f"/v1/runs/{run_id}")).json()["status"] == "completed":
            return run_id
        await asyncio.sleep(0.05)
    pytest.fail("the run did not end")


async def dead_letter(platform: Platform, browser: httpx2.AsyncClient, body: bytes) -> dict[str, Any]:
    """Put what no service can handle on the bus, and return its letter."""
    client = await nats.connect(platform.nats_url, inbox_prefix=b"_INBOX_client_anonymous")
    await client.publish("task.enqueue.anonymous", body)
    await client.drain()
    for _ in range(1_200):
        letters = (await browser.get("/v1/dead-letters?stream=TASKS")).json()["letters"]
        if letters:
            return dict(letters[0])
        await asyncio.sleep(0.05)
    pytest.fail("no dead letter")


async def closed_gate(browser: httpx2.AsyncClient, gate_id: str) -> dict[str, Any]:
    """Return a gate once it is closed: who decided is answered before its run has heard of it."""
    async with asyncio.timeout(60):
        while True:
            gate = (await browser.get(f"/v1/gates/{gate_id}")).json()
            if gate["status"] != "pending":
                return dict(gate)
            await asyncio.sleep(0.05)


def notice_files(folder: Path, receiver: Web, mails: MailServer) -> dict[str, str]:
    """Write who is told of gates: a webhook, a mailbox and a chat; returns the settings that name them."""
    hook = {"name": "ops", "url": receiver.url("/h"), "secret": "env:HOOK", "kinds": ["gate.opened"]}
    (folder / "hooks.yaml").write_text(yaml.safe_dump({"webhooks": [hook]}))
    server = {"host": "127.0.0.1", "port": mails.port, "tls": "none", "from": "towpath@shop.example"}
    targets = [{"name": "mia", "email": ["mia@shop.example"]}, {"name": "chat", "chat": "env:CHAT"}]
    (folder / "notices.yaml").write_text(yaml.safe_dump({"smtp": server, "targets": targets}))
    return {
        "TOWPATH_WEBHOOKS_FILE": str(folder / "hooks.yaml"),
        "TOWPATH_APPROVAL_NOTICES_FILE": str(folder / "notices.yaml"),
        "HOOK": "k" * 32,
        "CHAT": receiver.url("/chat"),
    }

"""A run is erased whole while every owner of its rows is killed in the middle, and the audit still verifies."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
from pydantic import SecretStr
from tests.e2e.test_canaries import stored, streamed
from tests.support.decider.gemini_server import Answer, GeminiServer, gemini, says
from tests.support.places import TESTS

from towpath import run
from towpath.cli import main
from towpath_audit.bundle import digest
from towpath_audit.verifier import verify
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

TOOLS = TESTS / "support" / "worker" / "private_tools.py"
POLICY = "kind: Policy\nrules:\n  - {name: private, tool: 'private.*', effect: allow}\n"
AGENT = {"key": "a", "is_default": True, "allow_respond": True, "equipped_tools": ["private.look", "private.dump"]}
SPEC = {"name": "private", "agents": [{**AGENT, "prompt_template": "Help.", "model": "gemini:gemini-2.5-flash"}]}
TASK, QUOTED, ARGUMENT, LABEL, THOUGHT, ANSWER = (
    f"canary-{place}-51f0" for place in ("task", "quoted", "argument", "label", "thought", "answer")
)
ATTACHED = "canary-attached-51f0"
IMAGE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + ATTACHED.encode()).decode()
REPORTED, LISTED, LATER = (f"canary-{place}-51f0" for place in ("report", "rows", "later"))
REPORT = base64.b64encode(b"%PDF-1.7\n" + REPORTED.encode()).decode()
PDF = "application/pdf"
PATIENCE_S = 180
"""An owner whose part failed, as on a machine where the broker answers late, leaves it for a minute."""
FILES = (ATTACHED, REPORTED, LISTED, LATER)
SECRETS = (TASK, QUOTED, ARGUMENT, LABEL, THOUGHT, ANSWER, *FILES, "canary-result-street", "canary-blob-line")
OWNERS = {"orchestrator": "runs.notice", "log_writer": "history.skipped_event", "tas": "tas.blob_piece"}
"""A table of each owner that is changed last or nearly: who holds it has the erasing wait in the middle."""


CACHED = 640


def decided(action: str, *, cached: int = 0, **details: Any) -> Answer:
    return says(json.dumps({"action": action, "action_reasoning": THOUGHT, "action_details": details}), cached=cached)


def answers() -> Sequence[Answer]:
    return (
        decided("USE_TOOL", tool_name="private.look", tool_params={"who": ARGUMENT}),
        decided("USE_TOOL", tool_name="private.dump", tool_params={"who": ARGUMENT}),
        decided("RESPOND", cached=CACHED, payload=ANSWER),
    )


@asynccontextmanager
async def client_of(platform: Platform, caller: str) -> AsyncIterator[httpx2.AsyncClient]:
    settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
    scopes = (*SCOPES, "audit:erase")
    key = await create_key(settings, CreateKeyBody(caller=caller, scopes=scopes, roles=("policy_admin",)), "default")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=platform.gateway_url, verify=False, headers=headers, timeout=90) as client:
        yield client


async def run_of(client: httpx2.AsyncClient) -> str:
    async with asyncio.timeout(60):
        while (await client.post("/v1/networks", json={"spec": SPEC})).status_code not in {200, 201}:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    body = {"network": "private", "user_message": TASK, "debug": True, "labels": {"case": LABEL}}
    body |= {"quoted_inputs": {"mail": QUOTED}}
    report = {"name": "report", "media_type": PDF, "data": REPORT}
    body |= {"attachments": [{"name": "photo", "media_type": "image/png", "data": IMAGE}, report, rows_of(LISTED)]}
    refused = await client.post("/v1/runs", json={**body, "model": "scripted:task"})
    assert (refused.status_code, refused.json()["code"]) == (422, "attachment_refused"), refused.text
    assert [one["pointer"] for one in refused.json()["errors"]] == [f"/attachments/{n}/media_type" for n in (0, 1)]
    answer = await client.post("/v1/runs", json=body, headers={"Prefer": "wait=60"})
    assert answer.json().get("status") == "completed", answer.text
    run_id: str = answer.json()["run_id"]
    return run_id


def rows_of(text: str) -> dict[str, str]:
    return {"name": "rows", "media_type": "text/csv", "data": base64.b64encode(f"name,{text}".encode()).decode()}


async def reply_over_http(client: httpx2.AsyncClient, run_id: str, sent: list[Any]) -> str:
    """A reply with a file of its own is shown the files of the run before it, where they were attached."""
    path = f"/v1/runs/{run_id}/messages"
    wrong = {"content": "And?", "attachments": [{**rows_of(LATER), "data": "no base64!"}]}
    assert (await client.post(path, json=wrong)).json()["code"] == "attachment_refused"
    asked = {"content": "And these?", "attachments": [rows_of(LATER)]}
    answer = await client.post(path, json=asked, headers={"Prefer": "wait=60"})
    assert answer.json().get("status") == "completed", answer.text
    first, _, last = (turn["parts"] for turn in sent[-1].body["contents"])
    assert [part["inlineData"]["mime_type"] for part in first[:-1]] == ["image/png", PDF]
    assert first[1]["inlineData"]["data"] == REPORT and LISTED in first[-1]["text"]
    assert len(last) == 1 and LATER in last[0]["text"]
    said = (await client.get(f"/v1/runs/{answer.json()['run_id']}/messages")).json()["messages"]
    users = [[one["name"] for one in turn["attachments"]] for turn in said if turn["role"] == "user"]
    assert users == [["photo", "report", "rows"], ["rows"]]
    replied: str = answer.json()["run_id"]
    return replied


async def reply_in_code_and_at_the_terminal(
    platform: Platform, client: httpx2.AsyncClient, folder: Path, run_id: str, server: GeminiServer
) -> None:
    """Files go the same way, and as part of a conversation that is kept elsewhere.

    Each is another one: of bytes that are stored once more an erasure keeps the blob for an hour.
    """
    place = {"server": platform.gateway_url, "api_key": client.headers["authorization"].removeprefix("Bearer ")}
    third = await run.reply(run_id, "And this?", attachments=[rows_of(f"{LATER} again")], **place)
    (folder / "rows.csv").write_text(LATER, "utf-8")
    told = [f"--{name.replace('_', '-')}={value}" for name, value in place.items()]
    told += ["--attach", f"own={folder / 'rows.csv'}", "-o", "json"]
    assert await asyncio.to_thread(main, ["run", "--continue", str(third.run_id), "One more.", *told]) == 0
    users = [turn["parts"] for turn in server.seen[-1].body["contents"] if turn["role"] == "user"]
    assert [[LISTED in parts[-1]["text"], LATER in parts[-1]["text"]] for parts in users] == [
        *([True, False], [False, True], [False, True], [False, True])
    ]
    assert f"- own (text/csv, {len(LATER)} bytes)" in users[-1][-1]["text"]
    other = {"role": "user", "content": "See.", "attachments": [rows_of("elsewhere")]}
    server.answers = [
        says(json.dumps({"action": "RESPOND", "action_reasoning": "", "action_details": {"payload": "x"}}))
    ]
    fourth = await run("private", "And now?", messages=[other, {"role": "assistant", "content": "Seen."}], **place)
    fork = (await client.post(f"/v1/runs/{fourth.run_id}/fork", json={"from_step": 1})).json()["run_id"]
    ended = await client.get(f"/v1/runs/{fork}", headers={"Prefer": "wait=60"})
    assert ended.json()["status"] == "completed"
    for asked in server.seen[-2:]:
        assert "name,elsewhere" in asked.body["contents"][0]["parts"][0]["text"]


async def places_of(platform: Platform, secrets: Sequence[str]) -> set[tuple[str, str]]:
    return {(table, secret) for table, text in await stored(platform) for secret in secrets if secret in text}


class HeldTable:
    """A table that nobody can change; `die_waiting` kills whoever waits for that in the middle of erasing."""

    def __init__(self, connection: Any, table: str) -> None:
        self._connection = connection
        self._table = table
        self._transaction = connection.transaction()

    async def hold(self) -> None:
        await self._transaction.start()
        await self._connection.execute(f"LOCK TABLE {self._table} IN SHARE MODE")

    async def die_waiting(self, platform: Platform, role: str) -> None:
        """Kill *role* and its session once it waits; then let go."""
        waiting = f"SELECT pid FROM pg_locks WHERE NOT granted AND relation = '{self._table}'::regclass"
        async with asyncio.timeout(PATIENCE_S):
            while not (rows := await self._connection.fetch(waiting)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        platform.kill(next(name for name in platform.processes if name.startswith(role)))
        for row in rows:
            await self._connection.execute("SELECT pg_terminate_backend($1)", row["pid"])
        await self._transaction.rollback()
        await self._connection.close()


async def export(client: httpx2.AsyncClient) -> list[str]:
    lines: list[str] = []
    request: dict[str, Any] = {}
    while True:
        answer = (await client.post("/v1/audit/export", json=request)).json()
        lines += answer["lines"]
        if answer["cursor"] is None:
            return lines
        request = {"cursor": answer["cursor"], "previous": digest(lines[-1])}


async def test_f9_an_erased_run_is_nowhere_and_the_audit_verifies(folder: Path) -> None:
    (folder / "policy.yaml").write_text(POLICY)
    with gemini(*answers()) as server:
        platform = Platform(
            folder / "data",
            role_environment={
                "tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")},
                "gateway": {"TOWPATH_AUTH": "on"},
                "decider": {"GEMINI_API_KEY": "k-1234567890", "TOWPATH_GEMINI_BASE_URL": server.url},
            },
            workers=[WorkerLaunch(modules=(str(TOOLS),))],
            durable=False,
            starts="fork",
        )
        async with platform, client_of(platform, "dana") as dana, client_of(platform, "eve") as eve:
            run_id = await run_of(dana)
            await check_conversation(dana, run_id, [one.body for one in server.seen])
            replied = await reply_over_http(dana, run_id, server.seen)
            await reply_in_code_and_at_the_terminal(platform, dana, folder, replied, server)
            wanted = {"runs.run_event", "runs.blob", "tas.tool_call", "history.llm_call", "history.tool_log"}
            before: set[tuple[str, str]] = set()
            async with asyncio.timeout(60):  # what is not stored can't be erased; logs are on their way
                while wanted - {table for table, _ in before} or set(SECRETS) - {secret for _, secret in before}:
                    await asyncio.sleep(0.1)
                    before = await places_of(platform, SECRETS)
            kept = (await dana.get("/v1/audit/checkpoint")).json()["note"]
            await erase(platform, dana, eve, run_id)
            await check_readers(dana, run_id)
            assert await places_of(platform, SECRETS) == set()
            told = {name for name, text in await streamed(platform) for secret in SECRETS if secret in text}
            assert told <= {"LOGS"}, "logs of calls go with the age of their stream"
            report = verify(await export(dana), checkpoints=[kept])
            assert report.faults == []
            assert report.figures["payloads_erased"] > 3
            assert report.figures["runs_erased"] == 4, "the replies too"


async def check_conversation(client: httpx2.AsyncClient, run_id: str, sent: list[Any]) -> None:
    """The model was asked by turns that were only added to, and what its cache had is counted."""
    assert [one["role"] for one in sent[2]["contents"]] == ["user", "model", "user", "model", "user"]
    for before, now in pairwise(sent):
        assert now["systemInstruction"] == before["systemInstruction"]
        assert now["contents"][: len(before["contents"])] == before["contents"]
    image, report, text = sent[2]["contents"][0]["parts"]
    assert image["inlineData"] == {"data": IMAGE, "mime_type": "image/png"}
    assert report["inlineData"] == {"data": REPORT, "mime_type": PDF}
    assert "### rows\n<<<attached " in text["text"] and LISTED in text["text"]
    assert f'"who":"{ARGUMENT}"' in sent[2]["contents"][1]["parts"][0]["text"]
    shown = (await client.post("/v1/networks/private/prompt", json={"user_message": TASK})).json()["prompt"]
    system, opening = sent[0]["systemInstruction"]["parts"][0]["text"], sent[0]["contents"][0]["parts"][-1]["text"]
    assert shown.startswith(f"{system}\n\n{opening[: opening.index('## Quoted')]}"), "what is shown is what is sent"
    nodes = (await client.get(f"/v1/runs/{run_id}/nodes")).json()
    assert [one["usage"].get("cached_tokens", 0) for one in nodes["nodes"]] == [0, 0, CACHED]
    assert nodes["usage"]["cached_tokens"] == CACHED
    assert nodes["nodes"][2]["cost"]["usd"] < nodes["nodes"][1]["cost"]["usd"]


async def erase(platform: Platform, dana: httpx2.AsyncClient, eve: httpx2.AsyncClient, run_id: str) -> None:
    """Dana asks, eve confirms, and each owner dies once meanwhile."""
    asked = await dana.post(f"/v1/runs/{run_id}/erase", json={"reason": "request 4711"})
    assert (asked.status_code, asked.json()["status"]) == (201, "requested"), asked.text
    place = f"/v1/erasures/{asked.json()['erasure_id']}"
    assert (await dana.post(f"{place}/confirm")).json()["code"] == "second_person_required"
    held = {role: HeldTable(await asyncpg.connect(platform.dsn()), table) for role, table in OWNERS.items()}
    for table in held.values():
        await table.hold()
    confirming = asyncio.create_task(eve.post(f"{place}/confirm"))
    for role, table in held.items():
        await table.die_waiting(platform, role)
    await asyncio.wait([confirming])
    async with asyncio.timeout(PATIENCE_S):
        while (found := (await eve.get(place)).json()).get("status") != "done":  # noqa: ASYNC110
            await asyncio.sleep(0.3)
    assert sorted(found["parts"]) == ["blobs", "history", "runs", "tas"]


async def check_readers(client: httpx2.AsyncClient, run_id: str) -> None:
    """Whoever asks for the run is told that it was erased."""
    path = f"/v1/runs/{run_id}"
    for name in ("", "/events", "/tree", "/history", "/record", "/replay", "/nodes", "/messages", "/workspace"):
        answer = await client.get(path + name)
        assert (name, answer.status_code, answer.json()["code"]) == (name, 410, "run_erased")
    for name, body in (("/fork", {"from_step": 1}), ("/cancel", {}), ("/erase", {"reason": "again"})):
        answer = await client.post(path + name, json=body)
        assert (name, answer.status_code, answer.json()["code"]) == (name, 410, "run_erased")
    (row,) = [row for row in (await client.get("/v1/runs")).json()["runs"] if row["run_id"] == run_id]
    assert (row["status"], row["user_message"], row["labels"]) == ("completed", "", {})
    assert row["erased_at"] is not None

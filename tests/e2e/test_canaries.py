"""Marked secrets wherever a secret can be; afterwards none stands in a stream, a table, a log or a trace (test 27)."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import nats
from pydantic import SecretStr
from tests.support.decider.gemini_server import fails, gemini
from tests.support.places import TESTS
from tests.support.platform.otlp_receiver import otlp_receiver

from towpath_contracts.authority import USERS
from towpath_contracts.streams import STREAMS
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

TOOLS = TESTS / "support" / "worker" / "secret_tools.py"
POLICY = "kind: Policy\nrules:\n  - {name: telltale, tool: 'telltale.*', effect: allow}\n"
AGENT = {"key": "a", "is_default": True, "allow_respond": True, "equipped_tools": ["telltale.fail", "telltale.whisper"]}
SPEC = {"name": "telltale", "agents": [{**AGENT, "prompt_template": "Tell."}]}
FAIL = {"action": "USE_TOOL", "action_reasoning": "try", "action_details": {"tool_name": "telltale.fail"}}
WHISPER = {**FAIL, "action_details": {"tool_name": "telltale.whisper"}}
ANSWER = {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "done"}}
TOOL_SECRET, PROVIDER_KEY, DATABASE_SECRET = "canary-tool-7f3a", "canary-provider-91bc", "canary-database-d04e"
TRUSTED = {"SHOP_API_TOKEN": TOOL_SECRET, "SHOP_WORD": "canary-word-c3d9"}
FORGED_KEY = "tp_canary0.canary-forged-key-55aa"


async def key_for(platform: Platform) -> str:
    settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
    return await create_key(settings, CreateKeyBody(caller="canary", scopes=SCOPES, roles=("policy_admin",)), "default")


async def run_all(platform: Platform, key: str) -> list[dict[str, Any]]:
    """One run whose tool leaks, one whose provider leaks, and a request with an unknown key."""
    bearer = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=platform.gateway_url, verify=False, headers=bearer, timeout=90) as client:
        async with asyncio.timeout(60):
            while (await client.post("/v1/networks", json={"spec": SPEC})).status_code not in {200, 201}:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        found = []
        for task in ({"script": [WHISPER, FAIL, ANSWER]}, {"model": "gemini:gemini-2.5-flash"}):
            body = {"network": "telltale", "user_message": "tell", "debug": True, **task}
            answer = await client.post("/v1/runs", json=body, headers={"Prefer": "wait=60"})
            found.append((await client.get(f"/v1/runs/{answer.json()['run_id']}/events")).json())
        forged = await client.get("/v1/runs", headers={"Authorization": f"Bearer {FORGED_KEY}"})
        assert forged.status_code == 401
    return found


async def stored(platform: Platform) -> list[tuple[str, str]]:
    """Every row of every table, as text."""
    connection = await asyncpg.connect(platform.dsn())
    try:
        tables = await connection.fetch(
            "SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE'"
        )
        found = []
        for table in tables:
            name = table["name"]
            rows = await connection.fetch(f"SELECT convert_from(convert_to(t::text, 'UTF8'), 'UTF8') FROM {name} t")
            found += [(name, row[0]) for row in rows]
        blobs = await connection.fetch("SELECT data FROM runs.blob")
        return found + [("runs.blob", bytes(row["data"]).decode(errors="replace")) for row in blobs]
    finally:
        await connection.close()


async def streamed(platform: Platform) -> list[tuple[str, str]]:
    """Every message that a stream still has, with its headers."""
    nc = await nats.connect(platform.nats_url_of("deploy"), inbox_prefix=b"_INBOX_deploy")
    found = []
    for stream in STREAMS:
        state = (await nc.jetstream().stream_info(stream.name)).state
        for seq in range(state.first_seq, state.last_seq + 1):
            body = json.dumps({"seq": seq}).encode()
            answer = json.loads((await nc.request(f"$JS.API.STREAM.MSG.GET.{stream.name}", body)).data)
            message = answer.get("message", {})
            decoded = [_decoded(message.get(part)) for part in ("data", "hdrs")]
            found.append((stream.name, " ".join(decoded)))
    await nc.close()
    return found


def _decoded(text: str | None) -> str:
    return base64.b64decode(text or "").decode(errors="replace")


def written(platform: Platform) -> Iterator[tuple[str, str]]:
    """Every log, and what the platform reports about itself."""
    for file in [*platform.logs.glob("*.log"), platform.data / "state.json"]:
        yield str(file.name), file.read_text(errors="replace")


async def test_no_secret_stands_where_others_read(folder: Path) -> None:
    (folder / "policy.yaml").write_text(POLICY)
    refused = fails(400, f"API key not valid: {PROVIDER_KEY}. Please pass a valid API key.")
    with otlp_receiver() as receiver, gemini(refused) as server:
        platform = Platform(
            folder / "data",
            environment={"TOWPATH_OTLP_ENDPOINT": receiver.url, "PGPASSWORD": DATABASE_SECRET},
            role_environment={
                "tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")},
                "gateway": {"TOWPATH_AUTH": "on"},
                "decider": {"GEMINI_API_KEY": PROVIDER_KEY, "TOWPATH_GEMINI_BASE_URL": server.url},
            },
            workers=[WorkerLaunch(modules=(str(TOOLS),), environment=TRUSTED)],
            durable=False,
            starts="fork",
        )
        async with platform:
            key = await key_for(platform)
            events = json.dumps(await run_all(platform, key))
            assert "401 for Authorization: Bearer [redacted]" in events
            assert "API key not valid: ***" in events
            assert server.seen, "the provider was never asked"
            async with asyncio.timeout(60):
                while not receiver.spans:  # noqa: ASYNC110 - spans come once a second
                    await asyncio.sleep(0.1)
            places = await stored(platform) + await streamed(platform) + list(written(platform))
            assert "the word is [redacted]" in events
            canaries = [*TRUSTED.values(), PROVIDER_KEY, DATABASE_SECRET]
            canaries += [FORGED_KEY.partition(".")[2], key.partition(".")[2]]
            canaries += [platform.nats.password(user) for user in USERS]
            canaries += (platform.data / "ticket.key").read_text().split()
        places += [("trace", repr(receiver.spans)), ("events", events)]
    assert {"runs.run_event", "history.tool_execution", "EVENTS", "LOGS", "worker.log"} <= {
        place for place, _ in places
    }
    # The search does find what is there: what was put in the secrets' place.
    assert {"runs.run_event", "EVENTS", "LOGS", "events"} <= {place for place, text in places if "[redacted]" in text}
    canaries = [canary for canary in canaries if len(canary) >= 12]
    assert len(canaries) >= 12, "a key or password was not found, so nothing was looked for"
    hits = {(place, canary[:14]) for place, text in places for canary in canaries if canary in text}
    assert hits == set()

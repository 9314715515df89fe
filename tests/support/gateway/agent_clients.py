"""Clients of the protocols of agents: their keys, and what they ask and are told."""

import asyncio
import json
import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
from ag_ui.core import Event
from pydantic import SecretStr, TypeAdapter
from tests.support import javascript

from towpath_embedded.platform import Platform
from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

EVENTS: TypeAdapter[Any] = TypeAdapter(list[Event])


async def found_within(look: Callable[[], Awaitable[Any]], within_s: float = 30) -> Any:
    """Return what *look* finds as soon as it finds something; fail after *within_s*."""
    async with asyncio.timeout(within_s):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.1)


async def published(client: httpx2.AsyncClient, spec: dict[str, Any]) -> bool:
    return (await client.post("/v1/networks", json={"spec": spec})).is_success


async def key(platform: Platform, name: str, scopes: tuple[str, ...] = SCOPES, project: str = "default") -> str:
    settings = GatewaySettings(database_url=SecretStr(platform.dsn("gateway")))
    caller = f"{name}-{uuid.uuid4().hex[:6]}"
    new = CreateKeyBody(caller=caller, scopes=scopes, roles=("approver", "policy_admin", "operator"))
    return await create_key(settings, new, project)


def http(platform: Platform, secret: str) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.AsyncClient(base_url=platform.gateway_url, headers=headers, timeout=60)


def events_of(body: str) -> list[dict[str, Any]]:
    """Return the events of a stream; those of AG-UI's own models, too."""
    found = [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line.startswith("data: ")]
    checked = EVENTS.validate_python(found)
    assert len(checked) == len(found)
    return found


def ask(text: str, **more: Any) -> dict[str, Any]:
    message = {"id": "1", "role": "user", "content": text}
    return {"threadId": "t", "runId": uuid.uuid4().hex, "messages": [message], **more}


async def output_of(*command: str, program: str = "", folder: Path = javascript.FOLDER, **environment: str) -> str:
    """Run *command* and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(program.encode()), 120)
    assert process.returncode == 0, errors.decode()
    return output.decode()

"""Calls of A2A's own client, and what it is told, as plain JSON."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, create_client
from a2a.types import a2a_pb2 as a2a
from google.protobuf.json_format import MessageToDict, ParseDict

from towpath_embedded.platform import Platform


@asynccontextmanager
async def a2a_client(
    platform: Platform, secret: str, path: str = "/v1/networks/support/a2a", *, streaming: bool = True
) -> AsyncIterator[Client]:
    """Connect A2A's own client by the card that is below *path*."""
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=60) as http:
        config = ClientConfig(httpx_client=http, streaming=streaming)
        yield await create_client(f"{platform.gateway_url}{path}", config)


def said(*parts: dict[str, Any], **more: Any) -> a2a.SendMessageRequest:
    configuration = more.pop("configuration", {})
    metadata = more.pop("metadata", {})
    tenant = more.pop("tenant", "")
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": list(parts), **more}
    whole = {"message": message, "configuration": configuration, "metadata": metadata, "tenant": tenant}
    return ParseDict(whole, a2a.SendMessageRequest())


def said_json(**more: Any) -> dict[str, Any]:
    return dict(MessageToDict(said({"text": "hello"}, **more)))


async def told(client: Client, request: a2a.SendMessageRequest) -> list[dict[str, Any]]:
    """Return what a stream tells."""
    return [MessageToDict(one) async for one in client.send_message(request)]


async def subscribed(client: Client, task: str) -> list[dict[str, Any]]:
    return [MessageToDict(one) async for one in client.subscribe(a2a.SubscribeToTaskRequest(id=task))]


def states(found: list[dict[str, Any]]) -> list[str]:
    every = [(one.get("task") or one.get("statusUpdate") or {}).get("status", {}).get("state") for one in found]
    kept = [one.removeprefix("TASK_STATE_") for one in every if one]
    return [one for place, one in enumerate(kept) if place == 0 or kept[place - 1] != one]


def written(found: list[dict[str, Any]]) -> str:
    """Return the answer as a client puts it together."""
    text = ""
    for one in found:
        if (update := one.get("artifactUpdate")) is not None:
            text = (text if update.get("append") else "") + "".join(p["text"] for p in update["artifact"]["parts"])
    return text


def question(task: dict[str, Any]) -> dict[str, Any]:
    (data,) = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
    return dict(data)

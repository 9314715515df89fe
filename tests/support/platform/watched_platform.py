"""A platform whose spans are received, with servers that speak the APIs of a local model and of Gemini."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.decider.gemini_server import GeminiServer, gemini
from tests.support.decider.model_servers import DIALECTS, KEY
from tests.support.platform.marked_runs import POLICY, platform_of, publish
from tests.support.platform.otlp_receiver import Receiver, otlp_receiver

from towpath import Client
from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder

LOCAL = DIALECTS["local"]
WATCHED_POLICY = POLICY + "  - {name: leads, tool: 'delegate_to_*', effect: allow}\n"
"""Beside the marks, leads of teams may ask their members."""

BARE = {
    "name": "bare",
    "agents": [
        {
            "key": "a",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": ["mark.account", "mark.broken", "mark.pure", "plan_setup", "plan_mark_step"],
        }
    ],
}
"""A network that says nothing but who acts: what holds for its runs are the platform's own defaults."""


@dataclass
class Watched:
    """A platform, who receives its spans, and the servers of the models `local:…` and `gemini:…`."""

    platform: Platform
    receiver: Receiver
    server: GeminiServer
    google: GeminiServer

    def spans(self, trace_id: str) -> list[Any]:
        return [span for span in self.receiver.spans if span.trace_id == trace_id]


@asynccontextmanager
async def watched_platform() -> AsyncIterator[Watched]:
    """Start it, with the network of marks published, and a bare one."""
    with (
        temporary_folder() as folder,
        otlp_receiver() as receiver,
        gemini(LOCAL.says("")) as server,
        gemini(DIALECTS["gemini"].says("")) as google,
    ):
        addresses = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "TOWPATH_LOCAL_URL": f"{server.url}/v1"}
        models = {"GEMINI_API_KEY": KEY, "TOWPATH_GEMINI_BASE_URL": google.url}
        platform = platform_of(
            folder / "platform", 1, 1, environment=addresses | models, durable=False, policy=WATCHED_POLICY
        )
        async with platform:
            await publish(platform)
            async with Client(platform.client_url) as client:
                await client.networks.publish(BARE)
            yield Watched(platform, receiver, server, google)


def roots(spans: list[Any]) -> list[Any]:
    """Return the spans whose parent has not come."""
    known = {span.span_id for span in spans}
    return [span for span in spans if span.parent_id not in known]

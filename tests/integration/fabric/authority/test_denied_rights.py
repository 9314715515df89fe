"""Services on a broker with the rights of an earlier version go on without what it denies, and say so once."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.waiting import all_sent, eventually

from towpath_contracts import subjects
from towpath_contracts.authority import SERVICES, NatsUserRights
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings
from towpath_gateway.app.protocols.nats_agents.prompt_server import PromptServer

NEW = (subjects.TASK_LIVE_ALL, "agents.")
"""What services of an earlier version neither said nor heard."""


def of_before(rights: NatsUserRights) -> NatsUserRights:
    kept = {
        word: tuple(subject for subject in getattr(rights, word) if not subject.startswith(NEW))
        for word in ("publish", "subscribe", "streams")
    }
    return replace(rights, **kept)


@pytest.fixture
async def server() -> AsyncIterator[Nats]:
    with temporary_folder() as folder:
        started = Nats(folder / "nats", users={role: of_before(rights) for role, rights in SERVICES.items()})
        await started.start()
        try:
            yield started
        finally:
            await started.stop()


def denials(logs: list[Any]) -> list[tuple[str, str]]:
    return [(one["right"], one["subject"]) for one in logs if "denies this process a right" in one["event"]]


async def test_what_an_older_broker_denies_is_logged_once_and_ends_nothing(server: Nats) -> None:
    orchestrator = Bus("orchestrator", Settings.load(nats_url=server.url("orchestrator")))
    gateway = Bus("gateway", Settings.load(nats_url=server.url("gateway")))
    heard: list[bytes] = []

    async def hear(message: Any) -> None:
        heard.append(message.data)

    with capture_logs() as logs:
        await asyncio.gather(orchestrator.connect(), gateway.connect())
        run_id = uuid.uuid4()
        live = subjects.task_live("shop", run_id)
        await gateway.nc.subscribe(subjects.run_event(run_id), cb=hear)
        await all_sent(gateway.nc)
        dependencies: Any = SimpleNamespace(platform=SimpleNamespace(bus=gateway), stopping=asyncio.Event())
        serving = asyncio.create_task(PromptServer(dependencies).run())
        try:
            for transition in (b"1", b"2"):
                assert await orchestrator.publish(live, transition)
                assert await orchestrator.publish(subjects.run_event(run_id), transition)
            await eventually(lambda: len(heard) == 2 and len(denials(logs)) == 2, within_s=20)
            await asyncio.gather(all_sent(orchestrator.nc), all_sent(gateway.nc))
            assert not serving.done() and gateway.nc.is_connected and orchestrator.nc.is_connected
        finally:
            dependencies.stopping.set()
            await serving
            await asyncio.gather(orchestrator.close(), gateway.close())
    assert sorted(denials(logs)) == [("publish", live), ("subscribe", subjects.AGENTS_INFO_ALL)]

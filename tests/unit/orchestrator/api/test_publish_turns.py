"""Networks that are stored hold a connection while the audit is asked: few at once, and of one project one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.networks.spec import PublishNetwork
from towpath_orchestrator.app.api.network_registry import NetworkRegistry


class Connections:
    """A pool that has no network yet; counts the connections that are held at the same time."""

    def __init__(self) -> None:
        self.held = self.most = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator["Connections"]:
        self.held += 1
        self.most = max(self.most, self.held)
        yield self
        self.held -= 1

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield

    async def execute(self, *_asked: Any) -> None:
        await asyncio.sleep(0)

    async def fetchrow(self, *_asked: Any) -> None:
        await asyncio.sleep(0)

    async def fetchval(self, *_asked: Any) -> datetime:
        await asyncio.sleep(0)
        return datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("projects", "most"), [(["one"] * 6, 1), ([f"p{number}" for number in range(6)], 2)])
async def test_networks_that_are_stored_leave_connections_to_others(projects: list[str], most: int) -> None:
    pool, spec = Connections(), {"name": "n", "agents": [{"key": "a", "is_default": True, "allow_respond": True}]}
    threads = SimpleNamespace(run=lambda _project, do: asyncio.sleep(0, do()))
    registry = NetworkRegistry(pool, *(None, None), threads)  # type: ignore[arg-type]
    asked = (PublishNetwork(project=project, spec=spec, actor="mia", dry_run=True) for project in projects)
    found = await asyncio.gather(*map(registry.publish, asked))
    assert [one.project for one in found] == projects and pool.most == most

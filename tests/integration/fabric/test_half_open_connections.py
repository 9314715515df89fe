"""A half-open connection is given up after unanswered pings, and the service answers on a new one."""

import asyncio

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError
from tests.chaos.servers.half_open import half_open_proxy

from towpath_contracts.rpc import GET_POLICY
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.tools.access import GetPolicy
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats import bus as bus_module
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings

REQUEST = b'{"project": "default"}'


async def answer(asker: Client) -> bytes:
    """Ask until somebody answers."""
    async with asyncio.timeout(60):
        while True:
            try:
                return bytes((await asker.request(GET_POLICY.subject, REQUEST, timeout=1)).data)
            except (TimeoutError, NatsError):
                continue


async def test_a_service_comes_back_from_a_half_open_line(nats_server: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "PING_INTERVAL_S", 0.2)

    async def done(request: GetPolicy) -> ActionDone:
        return ActionDone(detail=request.project)

    async with half_open_proxy(nats_server.port) as line:
        bus = Bus("tas", Settings.model_validate({"nats_url": f"nats://127.0.0.1:{line.port}"}))
        bus.subscriber(GET_POLICY)(done)
        await bus.connect()
        await bus.broker.start()
        asker = await nats.connect(nats_server.url())
        try:
            assert b"default" in await answer(asker)
            line.freeze()
            assert b"default" in await answer(asker)
            # Impatient as it is here, it may also take a busy machine for a dead line.
            assert line.connections >= 2
            assert bus.nc.stats["reconnects"] >= 1
        finally:
            await asker.close()
            await bus.close()

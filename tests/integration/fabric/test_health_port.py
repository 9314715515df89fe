"""The port of the health paths holds few connections: a new one takes the place of the oldest."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2
from tests.support.orchestrator.orchestrator_peers import orchestrator

from towpath_fabric.service import HEALTH_CONNECTIONS


async def until_it_listens(url: str) -> None:
    async with asyncio.timeout(60), httpx2.AsyncClient(base_url=url, verify=False, timeout=60) as client:
        while True:
            with suppress(httpx2.ConnectError):
                await client.get("/livez")
                return
            await asyncio.sleep(0.05)


async def test_silent_connections_to_a_health_port_crowd_out_each_other(database: Any, nats_server: Any) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(orchestrator(database("orchestrator"), nats_server.url()))
        await until_it_listens(service.url)
        address = urlsplit(service.url)
        opened = []
        for _ in range(HEALTH_CONNECTIONS + 10):
            opened.append(await asyncio.open_connection(address.hostname, address.port))
            stack.callback(opened[-1][1].close)
        async with asyncio.timeout(5):
            for reader, _ in opened[:10]:
                with suppress(ConnectionError):
                    assert await reader.read() == b""
        async with httpx2.AsyncClient(verify=False, timeout=60) as client:
            assert (await client.get(f"{service.url}/livez")).is_success
        assert not opened[-1][0].at_eof()

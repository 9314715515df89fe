"""A service on a machine that is cut off is not sent requests for long."""

import asyncio
from pathlib import Path

import nats
from nats.aio.msg import Msg
from tests.chaos.servers.broker_cluster import BrokerCluster
from tests.chaos.servers.half_open import half_open_proxy
from tests.support.waiting import all_sent

from towpath_embedded.processes.ports import LOOPBACK

SUBJECT = "svc.of.two"
WAITED_S = 40.0
"""Several times the eight seconds of four pings, on a machine with other work; without these it would be minutes."""

IN_A_ROW = 16
"""Answers of the other member after which the one that was cut off is asked no more: it would be for every second."""


async def test_a_service_that_is_cut_off_is_left_by_its_node_in_seconds(folder: Path) -> None:
    async with BrokerCluster(folder) as cluster, half_open_proxy(cluster.ports[0][0]) as proxy:
        beside, away = f"nats://{LOOPBACK}:{cluster.ports[0][0]}", f"nats://{LOOPBACK}:{cluster.ports[1][0]}"
        lost = await nats.connect(f"nats://{LOOPBACK}:{proxy.port}", allow_reconnect=False, dont_randomize=True)
        other, asker = await nats.connect(away), await nats.connect(beside)
        for member, name in ((lost, b"lost"), (other, b"other")):

            async def answer(message: Msg, name: bytes = name) -> None:
                await message.respond(name)

            await member.subscribe(SUBJECT, queue="two", cb=answer)
            await all_sent(member)
        async with asyncio.timeout(WAITED_S):
            while (await asker.request(SUBJECT, b"", timeout=5)).data != b"lost":
                """Its node asks it, too."""
        proxy.freeze()
        answered = 0
        async with asyncio.timeout(WAITED_S):
            while answered < IN_A_ROW:
                try:
                    assert (await asker.request(SUBJECT, b"", timeout=0.5)).data == b"other"
                    answered += 1
                except TimeoutError:
                    answered = 0
        for client in (other, asker, lost):
            await client.close()

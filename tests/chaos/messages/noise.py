"""Repeats the platform's own messages: each one of the work streams up to three times, late and in any order.

A copy is published by the credential that published the original, under another message id, so that neither the
broker's deduplication nor its rights stop it. The content is never changed.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.chaos.load.steady_load import connect

from towpath_embedded.platform import Platform

STREAMS: Final = ("INBOX", "TOOLREQ", "TOOLOUT", "DECIDE", "TOOLEXEC")
_COPY_SUBJECT: Final = "_INBOX_deploy.noise"
"""Where the broker repeats what it stores: the one credential that may configure this may listen nowhere else."""

_PUBLISHERS: Final = {
    "decide": "orchestrator",
    "tool.request": "orchestrator",
    "tool.outcome": "worker",
    "tool.exec": "tas",
}
_COPIES: Final = (0, 1, 1, 2, 3)
_API_S: Final = 10.0


class Noise:
    """Publishes copies of the work streams' messages while its context lasts. `copies` counts them by stream."""

    def __init__(self, chance: Random, longest_s: float) -> None:
        self.copies: Counter[str] = Counter()
        self._chance = chance
        self._longest_s = longest_s
        self._publishers: dict[str, Client] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._seen: set[bytes] = set()

    async def open(self, platform: Platform) -> None:
        """Connect as everybody who publishes on the work streams."""
        for user in ("orchestrator", "worker", "tas", "decider", "gateway"):
            self._publishers[user] = await connect(platform.nats_url_of(user), inbox=f"_INBOX_{user}".encode())

    async def close(self) -> None:
        """Publish the copies that are still due, then disconnect."""
        while self._late:
            await asyncio.gather(*self._late)
        for publisher in self._publishers.values():
            await publisher.drain()

    async def repeat(self, message: Msg) -> None:
        """Plan the copies of *message*; a copy makes no copies."""
        headers = dict(message.headers or {})
        if "Towpath-Noise" in headers:
            return
        subject = headers["Nats-Subject"]
        for _ in range(self._chance.choice(_COPIES)):
            wait_s = self._chance.choice((0.0, self._chance.uniform(0, self._longest_s)))
            task = asyncio.create_task(
                self._publish_copy(subject, headers["Nats-Stream"], message.data, headers, wait_s)
            )
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    async def _publish_copy(
        self, subject: str, stream: str, body: bytes, original: Mapping[str, str], wait_s: float
    ) -> None:
        await asyncio.sleep(wait_s)
        headers = {name: value for name, value in original.items() if not name.startswith("Nats-")}
        await self._publishers[_publisher_of(subject)].publish(subject, body, headers=headers | {"Towpath-Noise": "1"})
        self.copies[stream] += 1


def _publisher_of(subject: str) -> str:
    if subject.startswith("run.inbox."):
        return subject.split(".")[2]
    return next(user for stem, user in _PUBLISHERS.items() if subject.startswith(stem))


@asynccontextmanager
async def noise(platform: Platform, chance: Random, *, longest_s: float) -> AsyncIterator[Noise]:
    """Repeat all messages while the block lasts; at its end all copies have been published."""
    deploy = await connect(platform.nats_url_of("deploy"), inbox=b"_INBOX_deploy")
    made = Noise(chance, longest_s)
    await made.open(platform)
    listening = await deploy.subscribe(f"{_COPY_SUBJECT}.>", cb=made.repeat)
    try:
        for stream in STREAMS:
            await _republish(deploy, stream, {"src": ">", "dest": f"{_COPY_SUBJECT}.>"})
        yield made
    finally:
        for stream in STREAMS:
            await _republish(deploy, stream, None)
        await listening.drain()  # type: ignore[no-untyped-call]  # nats-py leaves it untyped
        await made.close()
        await deploy.close()


async def _republish(deploy: Client, stream: str, rule: Mapping[str, str] | None) -> None:
    found = json.loads((await deploy.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=_API_S)).data)
    config = {name: value for name, value in found["config"].items() if name != "republish"}
    body = json.dumps(config | ({"republish": dict(rule)} if rule else {})).encode()
    answer = json.loads((await deploy.request(f"$JS.API.STREAM.UPDATE.{stream}", body, timeout=_API_S)).data)
    if "error" in answer:
        raise RuntimeError(f"the stream {stream} could not be set to repeat: {answer['error']}")

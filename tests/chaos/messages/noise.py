"""Says again what the platform says: every message of the work streams, up to three times, late and in any order.

A copy is published by the credential that published the first, under another message id, so that neither the
broker's memory nor its rights take it out. What is said is never changed.
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
_PLACE: Final = "_INBOX_deploy.noise"
"""Where the broker repeats what it stores: the one credential that may tell it to may listen nowhere else."""

_SPEAKERS: Final = {
    "decide": "orchestrator",
    "tool.request": "orchestrator",
    "tool.outcome": "worker",
    "tool.exec": "tas",
}
_COPIES: Final = (0, 1, 1, 2, 3)
_API_S: Final = 10.0


class Noise:
    """Copies of what is said, while its context lasts. `copies` counts them by stream."""

    def __init__(self, chance: Random, longest_s: float) -> None:
        self.copies: Counter[str] = Counter()
        self._chance = chance
        self._longest_s = longest_s
        self._speakers: dict[str, Client] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._seen: set[bytes] = set()

    async def open(self, platform: Platform) -> None:
        """Connect as everybody who speaks on the work streams."""
        for user in ("orchestrator", "worker", "tas", "decider", "gateway"):
            self._speakers[user] = await connect(platform.nats_url_of(user), inbox=f"_INBOX_{user}".encode())

    async def close(self) -> None:
        """Say what is still to be said, then hang up."""
        while self._late:
            await asyncio.gather(*self._late)
        for speaker in self._speakers.values():
            await speaker.drain()

    async def heard(self, message: Msg) -> None:
        """Plan the copies of *message*; a copy makes no copies."""
        headers = dict(message.headers or {})
        if "Towpath-Noise" in headers:
            return
        subject = headers["Nats-Subject"]
        for _ in range(self._chance.choice(_COPIES)):
            wait_s = self._chance.choice((0.0, self._chance.uniform(0, self._longest_s)))
            task = asyncio.create_task(self._say(subject, headers["Nats-Stream"], message.data, headers, wait_s))
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    async def _say(self, subject: str, stream: str, body: bytes, said: Mapping[str, str], wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        headers = {name: value for name, value in said.items() if not name.startswith("Nats-")}
        await self._speakers[_speaker(subject)].publish(subject, body, headers=headers | {"Towpath-Noise": "1"})
        self.copies[stream] += 1


def _speaker(subject: str) -> str:
    if subject.startswith("run.inbox."):
        return subject.split(".")[2]
    return next(user for stem, user in _SPEAKERS.items() if subject.startswith(stem))


@asynccontextmanager
async def noise(platform: Platform, chance: Random, *, longest_s: float) -> AsyncIterator[Noise]:
    """Repeat everything that is said while the block lasts; at its end all copies have been said."""
    deploy = await connect(platform.nats_url_of("deploy"), inbox=b"_INBOX_deploy")
    made = Noise(chance, longest_s)
    await made.open(platform)
    listening = await deploy.subscribe(f"{_PLACE}.>", cb=made.heard)
    try:
        for stream in STREAMS:
            await _republish(deploy, stream, {"src": ">", "dest": f"{_PLACE}.>"})
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
        raise RuntimeError(f"the stream {stream} could not be told to repeat: {answer['error']}")

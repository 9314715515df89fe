"""Publishes into streams with the broker's confirmation: `store` waits for it, `post` does not.

While a stream of a cluster has no leader, for up to nine seconds after a node was lost, the cluster drops what is
published into it and says nothing. A post that is not confirmed in time is sent again under the same id, so that it is
stored once. A process that ends loses what it has posted, and whoever is responsible for it sends it again much later.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_fabric.nats.direct_delivery import DirectDelivery

AGAIN_S: Final = 0.75
"""A cluster confirms in milliseconds, and one that is busy in less than this."""

GIVEN_UP_S: Final = 20.0
"""Longer than two elections."""

MAX_POSTS: Final = 10_000
MAX_POSTED_BYTES: Final = 64 * 1024 * 1024
"""What is held until it is confirmed; what is posted beyond is sent once."""


@dataclass(slots=True)
class _Post:
    """One message that no node has confirmed yet."""

    subject: str
    body: bytes
    headers: dict[str, str] | None
    ends_at: float
    timer: asyncio.TimerHandle | None = None


class StreamPublisher:
    """The messages of one connection into streams; usable after `open`."""

    def __init__(self) -> None:
        self._nc: Client | None = None
        self._inbox = ""
        self._count = 0
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._posts: dict[str, _Post] = {}
        self._posted_bytes = 0
        self._sending: set[asyncio.Task[None]] = set()

    async def open(self, nc: Client) -> None:
        """Listen for confirmations on *nc*."""
        self._inbox = nc.new_inbox()
        await nc.subscribe(f"{self._inbox}.*", future=DirectDelivery(self._on_confirmation))
        self._nc = nc

    async def store(self, subject: str, body: bytes, headers: Mapping[str, str] | None, timeout_s: float) -> bool:
        """Publish and wait for the confirmation; False where it is missing or negative."""
        # nats-py's own JetStream publish costs up to three times the CPU: it waits in a task per message.
        reply, loop = self._reply(), asyncio.get_running_loop()
        confirmed: asyncio.Future[bool] = loop.create_future()
        self._waiting[reply] = confirmed
        timer = loop.call_later(timeout_s, _give_up, confirmed)
        try:
            await self._publish(subject, body, reply, dict(headers) if headers else None)
            return await confirmed
        except nats_errors.Error:
            return False
        finally:
            timer.cancel()
            self._waiting.pop(reply, None)

    async def post(self, subject: str, body: bytes, headers: Mapping[str, str] | None) -> None:
        """Publish, and again until it is confirmed; raises what `publish` raises for what can't be a message."""
        own = dict(headers) if headers else None
        if len(self._posts) >= MAX_POSTS or self._posted_bytes + len(body) > MAX_POSTED_BYTES:
            await self._publish(subject, body, "", own)
            return
        reply = self._reply()
        post = _Post(subject, body, own, asyncio.get_running_loop().time() + GIVEN_UP_S)
        self._posts[reply] = post
        self._posted_bytes += len(body)
        self._wait(reply, post)
        try:
            await self._publish(subject, body, reply, own)
        except (nats_errors.BadSubjectError, nats_errors.MaxPayloadError):
            self._forget(reply)
            raise
        except nats_errors.Error:
            return  # there is no connection, and it is sent again

    @property
    def unconfirmed(self) -> int:
        """How many posts are not confirmed yet."""
        return len(self._posts)

    def close(self) -> None:
        """Send nothing again."""
        for reply in tuple(self._posts):
            self._forget(reply)

    async def _publish(self, subject: str, body: bytes, reply: str, headers: dict[str, str] | None) -> None:
        assert self._nc is not None
        await self._nc.publish(subject, body, reply=reply, headers=headers)

    def _reply(self) -> str:
        self._count += 1
        return f"{self._inbox}.{self._count}"

    def _on_confirmation(self, message: Msg) -> None:
        # A confirmation has the sequence in the stream; without a stream, or a leader of it, there is only a status.
        is_stored = b'"seq"' in message.data and b'"error"' not in message.data
        waiting = self._waiting.get(message.subject)
        if waiting is not None and not waiting.done():
            waiting.set_result(is_stored)
        elif is_stored:
            self._forget(message.subject)

    def _wait(self, reply: str, post: _Post) -> None:
        post.timer = asyncio.get_running_loop().call_later(AGAIN_S, self._again, reply)

    def _again(self, reply: str) -> None:
        post = self._posts.get(reply)
        if post is None:
            return
        if asyncio.get_running_loop().time() > post.ends_at:
            self._forget(reply)
            return
        self._wait(reply, post)
        task = asyncio.ensure_future(self._send_again(reply, post))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_again(self, reply: str, post: _Post) -> None:
        try:
            await self._publish(post.subject, post.body, reply, post.headers)
        except nats_errors.Error:
            return

    def _forget(self, reply: str) -> None:
        post = self._posts.pop(reply, None)
        if post is not None:
            self._posted_bytes -= len(post.body)
            if post.timer is not None:
                post.timer.cancel()


def _give_up(confirmed: "asyncio.Future[bool]") -> None:
    if not confirmed.done():
        confirmed.set_result(False)

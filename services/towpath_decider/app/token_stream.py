"""Publishes what a model is writing on `run.tokens.<run_id>` while it writes.

Publishing never delays, changes or fails a decision: text is collected for EVERY_S, sent by a loop of its own, and
dropped when that loop is behind. An answer that is complete sooner is not streamed, since the log has it at once.
"""

import asyncio
import secrets
from typing import Protocol
from uuid import UUID

from towpath_contracts import subjects
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest, TokenDelta
from towpath_fabric.nats.bus import Bus

EVERY_S = 0.05
"""At most one message of a call in this time: as often as anybody can read."""

MAX_WAITING_MESSAGES = 1_024
"""Messages that wait for the broker, of all calls together; beyond that they are dropped."""

PIECE_CHARS = 64 * 1024
"""Far below what a message may hold, also where each character takes six bytes of JSON."""

STREAMED_KINDS = frozenset({DecisionKind.DECIDE, DecisionKind.REPLAN})
"""Only decisions are streamed: an assessment of a run is no answer that anybody reads."""


class TokenDeltaSink(Protocol):
    """Where messages go without waiting."""

    def send(self, delta: TokenDelta) -> None:
        """Send *delta*, or drop it."""


class CallTokenStream:
    """Collects the text of one model call and publishes it in messages; call `end` after the last piece."""

    def __init__(self, sink: TokenDeltaSink, request: DecisionRequest, every_s: float = EVERY_S) -> None:
        self._sink = sink
        self._request = request
        self._every_s = every_s
        self._writer = secrets.token_hex(6)
        self._gathered: list[str] = []
        self._index = 0
        self._timer: asyncio.TimerHandle | None = None

    def on_text(self, text: str) -> None:
        """Take a piece of the model's text."""
        if not text:
            return
        self._gathered.append(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._every_s, self._send)

    def end(self) -> None:
        """Send the rest, where anything was sent before."""
        if self._timer is not None:
            self._timer.cancel()
        if self._index:
            self._send()

    def _send(self) -> None:
        self._timer = None
        text = "".join(self._gathered).encode("utf-8", "replace").decode()  # lone surrogates can't be sent
        self._gathered.clear()
        for start in range(0, len(text), PIECE_CHARS):
            self._sink.send(
                TokenDelta(
                    run_id=self._request.run_id,
                    request_id=self._request.request_id,
                    attempt=self._request.attempt,
                    index=self._index,
                    text=text[start : start + PIECE_CHARS],
                    writer=self._writer,
                    step=self._request.step,
                    agent_key=self._request.context.agent_key,
                )
            )
            self._index += 1


class TokenPublisher:
    """Publishes token deltas on the bus; `publish_waiting` must run as a loop of the service."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: asyncio.Queue[tuple[UUID, bytes]] = asyncio.Queue(MAX_WAITING_MESSAGES)

    def open_listener(self, request: DecisionRequest) -> CallTokenStream | None:
        """Return the listener for one call of *request*; None for kinds that are not streamed."""
        return CallTokenStream(self, request) if request.kind in STREAMED_KINDS else None

    def send(self, delta: TokenDelta) -> None:
        """Queue *delta*; it is dropped when the queue is full."""
        if not self._waiting.full():
            self._waiting.put_nowait((delta.run_id, delta.model_dump_json().encode()))

    async def publish_waiting(self) -> None:
        """Publish queued deltas for ever; what can't be sent is lost."""
        while True:
            run_id, body = await self._waiting.get()
            await self._bus.publish(subjects.run_tokens(run_id), body)

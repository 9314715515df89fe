"""The answer of a run as its model writes it, for clients whose streams take nothing back.

A model's text counts once its decision is valid, and what was written before may be dropped: the platform's own streams
say so, OpenAI's have no word for it. So pieces are sent as they are written until some are taken back; then nothing
more is sent until the run has ended. Where its answer begins with what was sent, the rest follows; where not, the
stream ends with an error, and the answer that counts is read by the run's id.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Protocol
from uuid import UUID

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.runs.views import RunView
from towpath_fabric.clock import monotonic
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.event_stream import PING_S
from towpath_gateway.app.protocols.openai import model_answers as answers
from towpath_gateway.app.run_reader import RunStreamReader
from towpath_gateway.app.stream_pace import PageTurns
from towpath_gateway.core.api_keys import Principal
from towpath_gateway.core.sse import PING
from towpath_readings.stream.live import RunStreamSuperseded

_closing: set[asyncio.Task[None]] = set()
"""Readers that give back what they hold; a task that nobody holds may be gone before it has ended."""


class AnswerFrames(Protocol):
    """How one of OpenAI's APIs frames an answer."""

    def begin(self, view: RunView) -> bytes:
        """Return the frames before the answer."""

    def text(self, text: str) -> bytes:
        """Return the frames of a piece of text."""

    def end(self, view: RunView) -> bytes:
        """Return the frames of a run that has completed, whose text was sent whole."""

    def failed(self, view: RunView | None, why: Problem) -> bytes:
        """Return the frames of a stream that ends without the answer."""


class AnswerStream(StreamingResponse):
    """The stream of one run's answer, which counts as one of its client's streams."""

    media_type = "text/event-stream"

    def __init__(
        self,
        dependencies: GatewayDependencies,
        principal: Principal,
        run_id: UUID,
        frames: AnswerFrames,
        headers: dict[str, str],
    ) -> None:
        super().__init__(self._sent(), headers={"X-Accel-Buffering": "no", **headers})
        self._dependencies = dependencies
        self._principal = principal
        self._run_id = run_id
        self._frames = frames
        self._turns: PageTurns | None = None
        self._arrived = asyncio.Event()
        self._text = ""
        self._is_taken_back = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; raises ProblemError, which names the run, where there is no room any more."""
        with ExitStack() as held:
            try:
                held.enter_context(self._dependencies.stream_shares.held(self._principal))
            except ProblemError as error:
                raise ProblemError(error.problem.model_copy(update={"run_id": str(self._run_id)})) from error
            self._turns = held.enter_context(self._dependencies.stream_pace.stream_of(self._principal))
            held.enter_context(self._dependencies.metrics.streams.track_inprogress())
            await super().__call__(scope, receive, send)

    async def _sent(self) -> AsyncIterator[bytes]:
        assert self._turns is not None
        platform, project = self._dependencies.platform, self._principal.project
        reader = RunStreamReader(platform, project, self._run_id, self._arrived, self._turns, deltas=True)
        try:
            await reader.open()  # before the first frame: who has that may count on the rest
            yield self._frames.begin(await platform.run(project, self._run_id))
            async for frame in self._pieces(reader):
                yield frame
            yield self._end(await platform.run(project, self._run_id))
        except ProblemError as error:
            yield self._frames.failed(None, error.problem.model_copy(update={"run_id": str(self._run_id)}))
        finally:
            # The task of a client that went away is cancelled at every await: what it holds is given back by another.
            closing = asyncio.create_task(reader.close())
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)
            await asyncio.shield(closing)

    async def _pieces(self, reader: RunStreamReader) -> AsyncIterator[bytes]:
        """Yield frames of what a model writes until the run has ended, and pings while nothing is said."""
        stopping, sent = self._dependencies.platform.stopping, monotonic()
        while True:
            self._arrived.clear()
            if frame := await self._read(reader):
                sent = monotonic()
                yield frame
            if reader.has_ended:
                return
            if stopping.is_set():
                raise ProblemError(problem("unavailable", "this gateway ends; the run goes on"))
            if reader.is_behind and reader.has_read:
                continue
            await reader.wait(max(0.0, min(reader.next_check, sent + PING_S) - monotonic()))
            if monotonic() - sent >= PING_S:
                sent = monotonic()
                yield PING

    def _end(self, view: RunView) -> bytes:
        """Return the frames of a run that has ended: what is left of its answer, or why there is none."""
        if (failed := answers.why_no_answer(view)) is not None:
            return self._frames.failed(view, failed)
        whole = answers.text_of(view)
        if not whole.startswith(self._text):
            detail = "the model began anew, and what was sent before is no part of its answer"
            return self._frames.failed(None, problem("answer_replaced", detail, run_id=str(self._run_id)))
        rest = whole[len(self._text) :]
        return (self._frames.text(rest) if rest else b"") + self._frames.end(view)

    async def _read(self, reader: RunStreamReader) -> bytes:
        taken_back = [one for entry in await reader.read_new() for one in reader.superseded_by(entry)]
        pieces = [*taken_back, *reader.new_deltas()]
        texts = []
        for piece in pieces:
            if isinstance(piece, RunStreamSuperseded):
                self._is_taken_back = self._is_taken_back or bool(self._text)
            elif piece.part == "text" and not self._is_taken_back:
                self._text += piece.text
                texts.append(self._frames.text(piece.text))
        return b"".join(texts)


def data_frame(body: JsonObject, name: str = "") -> bytes:
    """Return one server-sent event; JSON text holds no raw line break, so one data line is enough."""
    return (f"event: {name}\n" if name else "").encode() + f"data: {canonical_json(body)}\n\n".encode()

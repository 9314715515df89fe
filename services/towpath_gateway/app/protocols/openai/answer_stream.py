"""The answer of a run as its model writes it, for clients whose streams take nothing back.

A model's text counts once its decision is valid, and what was written before may be dropped: the platform's own streams
say so, OpenAI's have no word for it. So pieces are sent as they are written until some are taken back; then nothing
more is sent until the run has ended. Where its answer begins with what was sent, the rest follows; where not, the
stream ends with an error, and the answer that counts is read by the run's id.
"""

from collections.abc import Collection, Sequence
from typing import Protocol
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.runs.views import RunView
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.protocols.openai import model_answers as answers
from towpath_gateway.app.run_reader import RunStreamReader
from towpath_gateway.app.single_run_stream import SingleRunStream
from towpath_gateway.core.api_keys import Principal
from towpath_readings.stream.live import RunStreamSuperseded


class AnswerFrames(Protocol):
    """How one of OpenAI's APIs frames an answer, which may ask for the functions *offered*."""

    @property
    def offered(self) -> Collection[str]:
        """The caller's functions that the answer may ask for."""

    def begin(self, view: RunView) -> bytes:
        """Return the frames before the answer."""

    def text(self, text: str) -> bytes:
        """Return the frames of a piece of text."""

    def end(self, view: RunView) -> bytes:
        """Return the frames of a run that has completed, whose text was sent whole."""

    def failed(self, view: RunView | None, why: Problem) -> bytes:
        """Return the frames of a stream that ends without the answer."""


class AnswerStream(SingleRunStream):
    """The stream of one run's answer."""

    def __init__(
        self,
        dependencies: GatewayDependencies,
        principal: Principal,
        run_id: UUID,
        frames: AnswerFrames,
        headers: dict[str, str],
    ) -> None:
        super().__init__(dependencies, principal, run_id, headers=headers)
        self._answer = frames
        self._texts: list[str] = []
        self._is_taken_back = False

    async def _begin(self) -> bytes:
        return self._answer.begin(await self._view())

    async def _view(self) -> RunView:
        return await self._dependencies.platform.run(self._principal.project, self._run_id)

    async def _end(self) -> bytes:
        """Return the frames of a run that has ended: what is left of its answer, or why there is none."""
        view = await self._view()
        if (failed := answers.why_no_answer(view)) is not None:
            return self._answer.failed(view, failed)
        whole = answers.text_of(view, self._answer.offered)
        sent = "".join(self._texts)
        if not whole.startswith(sent):
            detail = "the model began anew, and what was sent before is no part of its answer"
            return self._answer.failed(None, problem("answer_replaced", detail, run_id=str(self._run_id)))
        rest = whole[len(sent) :]
        return (self._answer.text(rest) if rest else b"") + self._answer.end(view)

    def _failed(self, why: Problem) -> bytes:
        return self._answer.failed(None, why)

    def _framed(self, reader: RunStreamReader, entries: Sequence[LogEntry]) -> bytes:
        taken_back = [one for entry in entries for one in reader.superseded_by(entry)]
        pieces = [*taken_back, *reader.new_deltas()]
        texts = []
        for piece in pieces:
            if isinstance(piece, RunStreamSuperseded):
                self._is_taken_back = self._is_taken_back or any(self._texts)
            elif piece.part == "text" and not self._is_taken_back:
                self._texts.append(piece.text)
                texts.append(self._answer.text(piece.text))
        return b"".join(texts)


def data_frame(body: JsonObject, name: str = "") -> bytes:
    """Return one server-sent event; JSON text holds no raw line break, so one data line is enough."""
    return (f"event: {name}\n" if name else "").encode() + f"data: {canonical_json(body)}\n\n".encode()

"""The frames of both streams: chunks of a chat completion, and the events of a response."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import Problem
from towpath_contracts.runs.views import RunView
from towpath_gateway.app.protocols.openai import model_answers as answers
from towpath_gateway.app.protocols.openai.answer_stream import data_frame
from towpath_gateway.core.openai_errors import openai_error

DONE = b"data: [DONE]\n\n"


class ChatFrames:
    """A chat completion in chunks; the last one before `[DONE]` has the usage where it is asked for."""

    def __init__(self, run_id: UUID, offered: Collection[str], *, with_usage: bool) -> None:
        self.offered = offered
        self._head: JsonObject = {"id": answers.completion_id(run_id), "object": "chat.completion.chunk"}
        self._with_usage = with_usage

    def begin(self, view: RunView) -> bytes:
        """Return the chunk that says who speaks."""
        self._head |= {"created": int(view.created_at.timestamp()), "model": view.network}
        return self._chunk({"role": "assistant", "content": ""}, towpath=answers.about_run(view))

    def text(self, text: str) -> bytes:
        """Return the chunk of a piece of text."""
        return self._chunk({"content": text})

    def end(self, view: RunView) -> bytes:
        """Return the chunks of calls, of the end, and of the usage."""
        calls = [{"index": index, **call} for index, call in enumerate(answers.chat_calls(view, self.offered))]
        asked = [self._chunk({"tool_calls": [call]}) for call in calls]
        last = self._chunk({}, "tool_calls" if calls else "stop")
        used = {**self._head, "choices": [], "usage": answers.chat_usage(view)}
        return b"".join((*asked, last, data_frame(used) if self._with_usage else b"", DONE))

    def failed(self, _view: RunView | None, why: Problem) -> bytes:
        """Return the error, which clients raise."""
        return data_frame({"error": {**openai_error(why), "run_id": why.run_id}})

    def _chunk(self, delta: JsonObject, finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        usage = {"usage": None} if self._with_usage else {}
        return data_frame({**self._head, "choices": [choice], **usage, **more})


class ResponseFrames:
    """A response in events, numbered from 0."""

    def __init__(self, run_id: UUID, asked: JsonObject, offered: Collection[str]) -> None:
        self.offered = offered
        self._run_id = run_id
        self._asked = asked
        self._number = 0
        self._texts: list[str] | None = None
        self._place = {"item_id": answers.message_item(run_id, None)["id"], "output_index": 0, "content_index": 0}

    def begin(self, view: RunView) -> bytes:
        """Return the events of a response that has begun; it has no output yet, also where its run has ended."""
        begun = self._response(view.model_copy(update={"status": "running", "final": None}))
        return self._event("created", response=begun) + self._event("in_progress", response=begun)

    def text(self, text: str) -> bytes:
        """Return the events of a piece of text."""
        begun = b""
        if self._texts is None:
            self._texts = []
            begun = self._event("output_item.added", output_index=0, item=answers.message_item(self._run_id, None))
            begun += self._event("content_part.added", **self._place, part=answers.text_part(""))
        self._texts.append(text)
        return begun + self._event("output_text.delta", **self._place, delta=text, logprobs=[])

    def end(self, view: RunView) -> bytes:
        """Return the events that close the items, and the whole response."""
        items = answers.response_output(view, self.offered)
        calls = [item for item in items if item["type"] == "function_call"]
        closed = b"".join(self._call(index, item) for index, item in enumerate(calls)) if calls else self._closed()
        return closed + self._event("completed", response=self._response(view))

    def failed(self, view: RunView | None, why: Problem) -> bytes:
        """Return how the response failed; of a run that goes on, or whose answer is another one, an error."""
        if view is not None:
            return self._event("failed", response=self._response(view))
        error = openai_error(why)
        body = {"type": "error", "code": error["code"], "message": error["message"], "param": None}
        return data_frame({**body, "sequence_number": self._next(), "run_id": why.run_id}, "error")

    def _closed(self) -> bytes:
        begun = self.text("") if self._texts is None else b""
        text = "".join(self._texts or ())
        done = self._event("output_text.done", **self._place, text=text, logprobs=[])
        done += self._event("content_part.done", **self._place, part=answers.text_part(text))
        item = answers.message_item(self._run_id, text)
        return begun + done + self._event("output_item.done", output_index=0, item=item)

    def _call(self, index: int, item: JsonObject) -> bytes:
        begun = {**item, "status": "in_progress", "arguments": ""}
        place = {"item_id": item["id"], "output_index": index}
        return b"".join(
            (
                self._event("output_item.added", output_index=index, item=begun),
                self._event("function_call_arguments.delta", **place, delta=item["arguments"]),
                self._event("function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"]),
                self._event("output_item.done", output_index=index, item=item),
            )
        )

    def _response(self, view: RunView) -> JsonObject:
        return answers.response_object(view, self._asked, self.offered)

    def _event(self, kind: str, **body: Any) -> bytes:
        name = f"response.{kind}"
        return data_frame({"type": name, "sequence_number": self._next(), **body}, name)

    def _next(self) -> int:
        self._number += 1
        return self._number - 1

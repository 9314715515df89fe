"""A run as OpenAI's clients read it: a chat completion, or a response.

Both name the run: in the id, in `metadata`, and in `towpath`. What the run cost counts all runs below it. Calls are
read from an answer as far as the functions were *offered*, which the schema of the task says.
"""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.request import Usage
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import RunView
from towpath_gateway.app.protocols.openai.caller_tools import calls_in
from towpath_gateway.app.protocols.openai.conversation_items import call_id
from towpath_gateway.app.protocols.openai.run_tasks import response_id
from towpath_readings.stream.live import answer_text

_STATUSES = {"completed": "completed", "cancelled": "cancelled", "queued": "queued"}

RUN_LABEL = "run_id"
"""The name under which `metadata` has the run, beside the labels of the caller."""


def completion_id(run_id: UUID) -> str:
    """Return the id of a run as a chat completion."""
    return f"chatcmpl-{run_id.hex}"


def about_run(view: RunView, gates: Sequence[JsonObject] = ()) -> JsonObject:
    """Return what OpenAI's API has no word for; *gates* are those at which the run waits."""
    told: JsonObject = {"run_id": str(view.run_id), "network": view.network, "version": view.version}
    told |= {"status": view.status, "trace_id": view.trace_id or view.run_id.hex}
    told |= {"reason": view.reason} if view.reason else {}
    told |= {"waits": list(view.waits)} if view.waits else {}
    return told | ({"gates": list(gates)} if gates else {})


def metadata(view: RunView) -> JsonObject:
    """Return the labels of the run, and which it is."""
    return {**view.labels, RUN_LABEL: str(view.run_id)}


def why_no_answer(view: RunView) -> Problem | None:
    """Return the problem of a run that has ended without an answer; None of one that has one."""
    if view.status == "completed":
        return None
    detail = f"{view.status}, {view.reason}" + (f": {view.message}" if view.message else "")
    return problem("answer_missing", detail, run_id=str(view.run_id))


def wanted_calls(view: RunView, offered: Collection[str]) -> list[JsonObject]:
    """Return the calls that the caller is asked for: id, name, and arguments as JSON text."""
    return [
        {
            "id": call_id(view.run_id.hex, place),
            "name": str(call["name"]),
            "arguments": canonical_json(call["arguments"]),
        }
        for place, call in enumerate(calls_in(view.final, offered), 1)
    ]


def text_of(view: RunView, offered: Collection[str]) -> str:
    """Return the answer as text; empty where it asks for calls."""
    return "" if view.final is None or calls_in(view.final, offered) else answer_text(view.final)


def chat_usage(view: RunView) -> JsonObject:
    """Return the tokens of the run and all below it, as a chat completion counts them."""
    used = _usage(view)
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
    }


def _usage(view: RunView) -> Usage:
    return view.tree_usage or view.usage or Usage()


def chat_calls(view: RunView, offered: Collection[str]) -> list[JsonObject]:
    """Return the calls that the caller is asked for, in the form of a chat completion."""
    return [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in wanted_calls(view, offered)
    ]


def chat_completion(view: RunView, offered: Collection[str]) -> JsonObject:
    """Return a completed run as a chat completion."""
    calls = chat_calls(view, offered)
    message: JsonObject = {"role": "assistant", "content": None if calls else text_of(view, offered), "refusal": None}
    if calls:
        message["tool_calls"] = calls
    reason = "tool_calls" if calls else "stop"
    return {
        "id": completion_id(view.run_id),
        "object": "chat.completion",
        "created": int(view.created_at.timestamp()),
        "model": view.network,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": chat_usage(view),
        "metadata": metadata(view),
        "towpath": about_run(view),
    }


def response_status(view: RunView) -> str:
    """Return how a run stands in the words of responses; one that waits for a person is in progress."""
    return _STATUSES.get(view.status, "failed" if view.status in FINAL_STATUSES else "in_progress")


def response_output(view: RunView, offered: Collection[str]) -> list[JsonObject]:
    """Return the items of a completed run's answer: its calls, or its message."""
    if view.status != "completed":
        return []
    calls = [
        {
            "id": f"fc_{call['id'].removeprefix('call_')}",
            "type": "function_call",
            "status": "completed",
            "call_id": call["id"],
            "name": call["name"],
            "arguments": call["arguments"],
        }
        for call in wanted_calls(view, offered)
    ]
    return calls or [message_item(view.run_id, text_of(view, offered))]


def message_item(run_id: UUID, text: str | None) -> JsonObject:
    """Return the message of an answer; None is the text of one that has just begun."""
    content = [] if text is None else [text_part(text)]
    status = "in_progress" if text is None else "completed"
    return {"id": f"msg_{run_id.hex}", "type": "message", "role": "assistant", "status": status, "content": content}


def text_part(text: str) -> JsonObject:
    """Return the one part of a message."""
    return {"type": "output_text", "text": text, "annotations": []}


def response_object(
    view: RunView, asked: JsonObject, offered: Collection[str], gates: Sequence[JsonObject] = ()
) -> JsonObject:
    """Return a run as a response; *asked* is what only its request said, where that is at hand."""
    failed = why_no_answer(view) if view.status in FINAL_STATUSES and view.status != "cancelled" else None
    used = _usage(view)
    usage: Any = None
    if view.status in FINAL_STATUSES:
        usage = {
            "input_tokens": used.input_tokens,
            "input_tokens_details": {
                "cached_tokens": used.cached_tokens,
                "cache_write_tokens": used.cache_write_tokens,
            },
            "output_tokens": used.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used.total_tokens,
        }
    return {
        "id": response_id(view.run_id),
        "object": "response",
        "created_at": int(view.created_at.timestamp()),
        "status": response_status(view),
        "error": None if failed is None else {"code": view.reason or "server_error", "message": failed.detail},
        "incomplete_details": None,
        "instructions": None,
        "model": view.network,
        "output": response_output(view, offered),
        "previous_response_id": response_id(view.previous_run_id) if view.previous_run_id else None,
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "text": {"format": {"type": "text"}},
        "metadata": metadata(view),
        "usage": usage,
        **asked,
        "towpath": about_run(view, gates),
    }

"""What an answer of the Gemini API says: a text, native calls, or why there is neither.

The finish reason is believed before what was written so far: a call that Gemini itself calls malformed is never made,
and a text that a filter cut off is no answer. Chance is asked once more, a filter is not.
"""

import re
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_decider.adapters.model_prices import cached_part, price
from towpath_decider.adapters.provider import model_name
from towpath_decider.adapters.provider_failures import ONE_CALL
from towpath_decider.core.conversation import INVALID_OUTPUT, ModelCallFailure, ModelReply
from towpath_decider.core.native_tool_calls import NativeCall, read_written
from towpath_decider.core.usage import reported_usage
from towpath_readings.model_responses import model_response

PRICE_PROVIDER = "google"

MALFORMED = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
"""The model wrote something that the API could not read: the next try is usually readable."""

BY_CHANCE = frozenset({"FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "LANGUAGE", "OTHER", "RECITATION"})
"""Another try brings other words. These are refusals where they last."""

FILTERS = frozenset({"BLOCKLIST", "MODEL_ARMOR", "PROHIBITED_CONTENT", "SAFETY", "SPII"})

_PLACE = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[['\"]([^'\"]*)['\"]\]")
_VALUES = ("string_value", "number_value", "bool_value")

MAX_STEPS = 64
"""Names and indices in the place of a piece; what is deeper is no argument of a call."""


def read_reply(response: Any, request: DecisionRequest) -> ModelReply | ModelCallFailure:
    """Read a whole answer to *request*, or what was put together of its pieces."""
    candidate = response.candidates[0] if response.candidates else None
    parts = (candidate.content.parts if candidate is not None and candidate.content is not None else None) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    counted = response.usage_metadata
    if candidate is None and counted is None and response.prompt_feedback is None:
        message = "Gemini's answer is empty"
        return ModelCallFailure(code="model_unavailable", message=message, retryable=True, usage=ONE_CALL)
    usage = _usage(counted)
    cost = price(PRICE_PROVIDER, model_name(request.model), usage)
    reason = _reason(candidate, response.prompt_feedback)
    said = model_response(
        model=response.model_version, response_id=response.response_id, finish_reason=reason if candidate else ""
    )
    calls = native_calls(parts)
    if _is_unusable(reason, written=bool(text.strip() or calls)):
        malformed = reason in MALFORMED
        return ModelCallFailure(
            code=INVALID_OUTPUT if malformed else "model_refused",
            message=f"Gemini gave no answer: {reason}",
            retryable=malformed or reason in BY_CHANCE,
            usage=usage,
            cost=cost,
            response=said,
        )
    cut_off = reason == "MAX_TOKENS"
    written = read_written(text, calls, request, cut_off=cut_off)
    return ModelReply(text=written.text, usage=usage, cost=cost, cut_off=cut_off, fault=written.fault, response=said)


def _reason(candidate: Any, feedback: Any) -> str:
    """Return why the answer ends, or why there is none."""
    if candidate is not None and candidate.finish_reason is not None:
        return str(candidate.finish_reason.name)
    blocked = feedback.block_reason if feedback is not None else None
    return str(blocked.name) if blocked is not None else "no candidate"


def _is_unusable(reason: str, *, written: bool) -> bool:
    if reason in MALFORMED or reason in FILTERS or reason == "RECITATION":
        return True
    return not written and reason not in ("STOP", "MAX_TOKENS")


def native_calls(parts: Iterable[Any]) -> list[NativeCall]:
    """Return the calls among *parts*; arguments that come in pieces are put together in their order."""
    names: list[str] = []
    arguments: list[JsonObject] = []
    continues = False
    for call in (part.function_call for part in parts if part.function_call is not None):
        if not continues or (call.name and call.name != names[-1]):
            names.append(call.name or "")
            arguments.append({})
        arguments[-1].update(call.args or {})
        for piece in call.partial_args or ():
            _put(arguments[-1], piece)
        continues = bool(call.will_continue)
    return [NativeCall(name=name, arguments=given) for name, given in zip(names, arguments, strict=True)]


def texts_in_pieces(parts: Iterable[Any]) -> list[str]:
    """Return what stands in the pieces of arguments among *parts*."""
    calls = (part.function_call for part in parts if part.function_call is not None)
    return [piece.string_value or "" for call in calls for piece in call.partial_args or ()]


def _put(arguments: JsonObject, piece: Any) -> None:
    """Put one piece where its JSON path says; the pieces of a text are joined. What has no such place is left out."""
    steps = [int(item) if item else name or quoted for name, item, quoted in _PLACE.findall(piece.json_path or "")]
    value = next((found for name in _VALUES if (found := getattr(piece, name)) is not None), None)
    if len(steps) > MAX_STEPS:
        return
    holder: Any = arguments
    for place, step in enumerate(steps):
        if isinstance(step, int):
            if not isinstance(holder, list) or step > len(holder):  # items come in their order
                return
            if step == len(holder):
                holder.append(None)
        elif not isinstance(holder, dict):
            return
        known = holder[step] if isinstance(step, int) else holder.get(step)
        if place == len(steps) - 1:
            holder[step] = known + value if isinstance(known, str) and isinstance(value, str) else value
            return
        if known is None:
            holder[step] = known = [] if isinstance(steps[place + 1], int) else {}
        holder = known


def read_malformed_call(error: ValueError) -> ModelReply | None:
    """Return what the model wrote where only the arguments of its call are no object, so that it is told; else None.

    What it used is unknown: the SDK refuses the whole answer.
    """
    if not isinstance(error, ValidationError):
        return None
    faults = error.errors(include_url=False)
    if not faults or any(tuple(fault["loc"][-2:]) != ("functionCall", "args") for fault in faults):
        return None
    return ModelReply(text="\n".join(str(fault["input"]) for fault in faults), usage=ONE_CALL, cost=Cost())


def _usage(counted: Any) -> Usage:
    if counted is None:
        return Usage(model_calls=1)
    wrote = (counted.candidates_token_count or 0) + (counted.thoughts_token_count or 0)
    read = counted.prompt_token_count or 0
    cached = cached_part(read, counted.cached_content_token_count)
    return reported_usage(read, wrote, counted.total_token_count or read + wrote, cached=cached)

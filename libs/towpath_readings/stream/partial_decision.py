"""What can be read of a decision while a model still writes it: reasoning, answer, calls.

Reading is tolerant and only ever grows: what was given out stays a beginning of what comes later, else nothing
more comes of that part. Nothing here is a decision; only a whole answer is checked (`towpath_decider.core.answers`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import from_json, to_json

from towpath_contracts.base import JsonObject

MAX_CHARS = 128 * 1024
"""Beyond this nothing more is read: each piece reads the text anew, and the whole comes from the log anyway."""

THOUGHT, THOUGHT_ENDS = "<think>", "</think>"
"""Some models of one's own think aloud before they answer."""

_UNSURE = '}]"0123456789+-.eE'
"""What may still change at the end of JSON that goes on: closing signs are guesses, and so are digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTextPiece:
    """The text that a piece added to a partial decision: its reasoning, answer, or arguments (JSON)."""

    part: Literal["reasoning", "text", "tool_call"]
    text: str
    call_index: int = 0
    tool: str = ""


class PartialDecisionParser:
    """Reads what can be read of a decision while a model still writes it."""

    def __init__(self) -> None:
        self._text = ""
        self._sent: dict[tuple[str, int], str] = {}

    def add(self, piece: str) -> tuple[DecisionTextPiece, ...]:
        """Add *piece* and return what can be read now that could not be read before."""
        if len(self._text) + len(piece) > MAX_CHARS:
            return ()
        self._text += piece
        return tuple(self._grown(_object(self._text)))

    def _grown(self, written: JsonObject) -> Iterator[DecisionTextPiece]:
        for found in _parts(written):
            place = (found.part, found.call_index)
            sent = self._sent.get(place)
            if sent is not None and (len(found.text) <= len(sent) or not found.text.startswith(sent)):
                continue
            if found.text or (found.tool and sent is None):
                self._sent[place] = found.text
                text = found.text[len(sent or "") :]
                yield DecisionTextPiece(part=found.part, text=text, call_index=found.call_index, tool=found.tool)


def _object(text: str) -> JsonObject:
    """Return as much as is there of the first object in *text*, also after a thought, prose or a code fence."""
    if text.lstrip().startswith(THOUGHT):
        text = text.partition(THOUGHT_ENDS)[2]
    start = text.find("{")
    if start < 0:
        return {}
    try:
        value = from_json(text[start:], allow_inf_nan=False, allow_partial="trailing-strings")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _parts(written: JsonObject) -> Iterator[DecisionTextPiece]:
    reasoning = written.get("action_reasoning")
    if isinstance(reasoning, str) and reasoning:
        yield DecisionTextPiece(part="reasoning", text=reasoning)
    details = written.get("action_details")
    if not isinstance(details, dict):
        return
    match written.get("action"):
        case "RESPOND":
            yield from _answer(details.get("payload"))
        case "USE_TOOL":
            yield from _calls(details)
        case _:
            return


def _answer(payload: Any) -> Iterator[DecisionTextPiece]:
    """A message alone is sent as it grows; any other payload is JSON, and comes whole."""
    message = payload.get("message") if isinstance(payload, dict) and len(payload) == 1 else payload
    if isinstance(message, str) and message:
        yield DecisionTextPiece(part="text", text=message)


def _calls(details: JsonObject) -> Iterator[DecisionTextPiece]:
    listed = details.get("calls")
    proposals = listed if isinstance(listed, list) else [details]
    for index, proposal in enumerate(proposals):
        if isinstance(proposal, dict):
            yield from _call(index, proposal, goes_on=index == len(proposals) - 1)


def _call(index: int, proposal: JsonObject, *, goes_on: bool) -> Iterator[DecisionTextPiece]:
    tool, arguments = proposal.get("tool_name"), proposal.get("tool_params", {})
    if not isinstance(tool, str) or (goes_on and list(proposal)[-1] == "tool_name"):  # the name may be cut short
        return
    text = arguments if isinstance(arguments, str) else to_json(arguments).decode()
    yield DecisionTextPiece(
        part="tool_call", call_index=index, tool=tool, text=text.rstrip(_UNSURE) if goes_on else text
    )

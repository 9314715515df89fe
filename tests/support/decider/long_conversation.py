"""A long conversation with a model: what it wants in each turn, and how what it was asked is read on the wire.

The suite's test plays it with the run machine and the decider alone; `python -m tests.conversations` on a platform.
"""

import json
import re
from typing import Any

from tests.support.decider.gemini_server import Answer, RecordedRequest
from tests.support.decider.model_servers import Claude, Dialect, OpenAi
from tests.support.decider.recorded_errors import MINUTE, exhausted, quota
from tests.support.engine.machine import use

PROVIDERS = ("gemini", "openai", "anthropic")
NATIVE = {"openai": True, "anthropic": True}
"""Where tools are offered natively, as at the providers' own addresses."""

TURNS = 20
LIMITED, CUT = 7, 11
"""The turns in which the API asks for time, and in which a stream is cut."""

ASKED_S = 26
LINE = re.compile(r"\[line (\d{5})\]")
"""What the lines of the page begin with, that is read in parts."""

LEAST_SHARE = 0.9
"""What the cache has read before has to be so much of all prompts but the first."""

_MARK = b', "cache_control": {"type": "ephemeral"}'


def decision(turn: int, page_id: str) -> dict[str, Any]:
    """What the model wants in *turn*: a page, ten parts of it, and small things in between."""
    if turn == 1:
        return use("page.fetch", text="manual")
    if turn % 2 == 0:
        return use("output_read", execution_id=page_id, offset=60_000 + 12_000 * (turn // 2), limit=12_000)
    if turn % 5 == 0:
        return use("crm.lookup", f"turn {turn}", text=f"who asked in turn {turn}")
    return use("note.add", f"turn {turn}", text=f"seen until turn {turn}")


def says(dialect: Dialect, wanted: dict[str, Any]) -> Answer:
    """Return an answer as this API gives it: calls natively where tools are offered so."""
    if not isinstance(dialect, Claude | OpenAi) or wanted["action"] != "USE_TOOL":
        return dialect.says(json.dumps(wanted))
    details = wanted["action_details"]
    call = details["tool_name"].replace(".", "_"), json.dumps(details["tool_params"])
    return dialect.calls_tools(call, text=wanted["action_reasoning"])


def limited(dialect: Dialect) -> Answer:
    """Return a refusal that asks for `ASKED_S`, as this API writes it."""
    body = exhausted(*quota(MINUTE, retry=f"{ASKED_S}s")) if dialect.name == "gemini" else {"error": {}}
    return Answer(status=429, body=body, headers={"retry-after": str(ASKED_S)})


def turns_of(seen: RecordedRequest) -> list[tuple[str, str]]:
    """Return who says what in a request, leaving out what the platform says before."""
    turns = seen.body.get("contents") or seen.body["messages"]
    return [(turn["role"], json.dumps(turn)) for turn in turns if turn["role"] != "system"]


def prompt_of(seen: RecordedRequest) -> bytes:
    """Return what a request says to its model, as it was written on the wire; marks for the cache say nothing."""
    body = seen.body
    said = [body.get("systemInstruction") or body.get("system"), *(body.get("contents") or body["messages"])]
    return json.dumps(said).encode().replace(_MARK, b"").removesuffix(b"]")


def begins_alike(first: bytes, second: bytes) -> int:
    """Return how many bytes of the beginning are the same."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low

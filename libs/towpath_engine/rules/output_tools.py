"""The output tools: parts of what this run's calls have returned, and searches in it.

They give back text and nothing else. Offsets are bytes of the UTF-8 text, as in the line that says how much is left
out; a part begins and ends between characters, so parts that are read one after another are the whole text. Each answer
is small enough to be shown as a whole within the run's context limit.
"""

from dataclasses import dataclass
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.tools.internal_tools import (
    MAX_OUTPUT_READ,
    MAX_SEARCH_CHARS,
    MAX_SEARCH_MATCHES,
    READ_BYTES,
    SEARCH_MATCHES,
)
from towpath_engine.rules.tool_result import ContentMissingError, InternalToolError, InternalToolResult, read_arguments
from towpath_engine.state.limits import json_bytes, take_while_fitting

AROUND = 100
"""Bytes shown before and after a match."""

ABOUT_BYTES = 500
"""Of an answer, beside its text or its matches."""

LEAST_ROOM = 1_000
"""Bytes of an answer's text in a run whose context limit is below that."""

FOUND = "found"
"""Whether there is such an output; the loader says so, and the answer has no such member."""


@dataclass(frozen=True, kw_only=True)
class StoredOutput:
    """What a call of the run has returned, as text in UTF-8."""

    tool: str
    step: int
    status: str
    data: bytes


class _ReadPart(ClientMessagePart):
    execution_id: UUID
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=READ_BYTES, ge=1, le=MAX_OUTPUT_READ)


class _SearchText(ClientMessagePart):
    execution_id: UUID
    text: str = Field(min_length=1, max_length=MAX_SEARCH_CHARS)
    ignore_case: bool = False
    offset: int = Field(default=0, ge=0)
    max_matches: int = Field(default=SEARCH_MATCHES, ge=1, le=MAX_SEARCH_MATCHES)


_ARGUMENTS: dict[str, type[_ReadPart | _SearchText]] = {"output_read": _ReadPart, "output_search": _SearchText}


def output_asked_for(tool: str, args: JsonObject) -> UUID | None:
    """Return the call whose output is asked for; None for arguments that will be refused."""
    try:
        return read_arguments(_ARGUMENTS[tool], args).execution_id
    except InternalToolError:
        return None


def part_of_output(tool: str, args: JsonObject, stored: StoredOutput | None, context_limit: int) -> JsonObject:
    """Return the answer of *tool* about *stored*, as it goes into the fact; None is no output of this run."""
    if stored is None:
        return {FOUND: False}
    asked = read_arguments(_ARGUMENTS[tool], args)
    room = max(LEAST_ROOM, context_limit - ABOUT_BYTES)
    about: JsonObject = {
        FOUND: True,
        "execution_id": str(asked.execution_id),
        "tool": stored.tool,
        "step": stored.step,
        "status": stored.status,
        "bytes": len(stored.data),
    }
    part = _read(stored.data, asked, room) if isinstance(asked, _ReadPart) else _search(stored.data, asked, room)
    return {**about, **part}


def apply_output_tool(tool: str, args: JsonObject, part: JsonObject | None) -> InternalToolResult:
    """Return what a call answers; *part* came with the fact. Raises InternalToolError, ContentMissingError."""
    asked = read_arguments(_ARGUMENTS[tool], args)
    if part is None:
        raise ContentMissingError(str(asked.execution_id))
    if not part.get(FOUND):
        raise InternalToolError(
            "output_unknown",
            f"this run has no output {asked.execution_id}",
            "Take the execution_id of a tool output that is shown, or listed among the older ones.",
        )
    if asked.offset > part["bytes"]:
        raise InternalToolError("offset_unknown", f"the output has {part['bytes']} bytes")
    return InternalToolResult(result={name: value for name, value in part.items() if name != FOUND})


def _read(data: bytes, asked: _ReadPart, room: int) -> JsonObject:
    start = _border(data, asked.offset)
    end = min(len(data), asked.offset + asked.limit)
    text = _text(data, start, end)
    while (weight := json_bytes(text)) > room and end - start > 1:
        end = start + max(1, (end - start) * room // (weight + 1))
        text = _text(data, start, end)
    end = start + len(text.encode("utf-8", "surrogatepass"))
    return {"offset": start, "next_offset": end if end < len(data) else None, "text": text}


def _search(data: bytes, asked: _SearchText, room: int) -> JsonObject:
    places = _matches(data, asked)
    entries = [
        {"offset": start, "text": _text(data, _border(data, max(0, start - AROUND)), min(len(data), end + AROUND))}
        for start, end in places[: asked.max_matches]
    ]
    kept = take_while_fitting(entries, room) or entries[:1]
    more = len(places) > len(kept)
    return {"matches": kept, "next_offset": places[len(kept) - 1][1] if kept and more else None}


def _matches(data: bytes, asked: _SearchText) -> list[tuple[int, int]]:
    """Return where matches begin and end, one more than are asked for: it says whether there are more."""
    wanted = asked.text.encode("utf-8", "replace")
    if not asked.ignore_case:
        return _found(data, wanted, _border(data, asked.offset), asked.max_matches + 1)
    if data.isascii() and wanted.isascii():
        return _found(data.lower(), wanted.lower(), asked.offset, asked.max_matches + 1)
    text = data.decode("utf-8", "replace")
    first = len(data[: _border(data, asked.offset)].decode("utf-8", "replace"))
    found = _found(_lowered(text), _lowered(asked.text), first, asked.max_matches + 1)
    places, at, passed = [], 0, 0
    for start, end in found:
        passed += len(text[at:start].encode())
        size = len(text[start:end].encode())
        places.append((passed, passed + size))
        at, passed = end, passed + size
    return places


def _found(text: str | bytes, wanted: str | bytes, start: int, most: int) -> list[tuple[int, int]]:
    """Search without overlaps. `find` takes time in proportion to the text, whatever is wanted; patterns do not."""
    places: list[tuple[int, int]] = []
    while len(places) < most:
        at = text.find(wanted, start)  # type: ignore[arg-type]
        if at < 0:
            break
        start = at + len(wanted)
        places.append((at, start))
    return places


def _lowered(text: str) -> str:
    """Return *text* in lower case with as many characters: İ is the one letter that would become two (i and a dot)."""
    return text.replace("İ", "i").lower()


def _border(data: bytes, at: int) -> int:
    """Return where the character at byte *at* begins."""
    at = min(at, len(data))
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:  # 10xxxxxx in RFC 3629
        at -= 1
    return at


def _text(data: bytes, start: int, end: int) -> str:
    """Return the characters that lie between, at least one where there is one."""
    last = _border(data, end)
    if last <= start < len(data):
        last = start + 1
        while last < len(data) and data[last] & 0xC0 == 0x80:
            last += 1
    return data[start:last].decode("utf-8", "replace")

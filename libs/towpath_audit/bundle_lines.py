"""The lines of a bundle as a verifier reads them: whatever they contain, they are read or refused with a reason."""

import json
from typing import Any

from towpath_audit.bundle import Line, serialize_line
from towpath_audit.entries import HiddenEntry
from towpath_audit.merkle import HASH_BYTES
from towpath_audit.notes import MAX_SIZE, read_time


class BadLineError(Exception):
    """An invalid line; the message says why."""


def parse_line(text: str) -> Line:
    try:
        line: Any = json.loads(text)
        again = serialize_line(line)
    except (ValueError, RecursionError) as error:
        raise BadLineError("the line is not JSON") from error
    if not isinstance(line, dict) or not isinstance(line.get("kind"), str):
        raise BadLineError("the line has no kind")
    if again != text:
        raise BadLineError("the line is not written as bundles are")
    return line


SCOPE_FIELDS = ("origin", "project", "since", "until", "exported_at", "exported_by")
"""Fields of a header about the part of the log that the bundle shows."""


def check_header(line: Line) -> None:
    """Raise ValueError, TypeError or KeyError for a header with members of other types."""
    for name in ("first", "size"):
        if type(line[name]) is not int or not 0 <= line[name] <= MAX_SIZE:
            raise ValueError(f"{name} is no size")
    if not isinstance(line["edge"], list) or not isinstance(line["keys"], list):
        raise TypeError("edge and keys are lists")
    for name in SCOPE_FIELDS:
        if not (isinstance(line[name], str) or (line[name] is None and name in {"since", "until"})):
            raise ValueError(f"{name} is of another kind")
    for name in ("since", "until"):
        if line[name] is not None:
            read_time(line[name])


def leaf_index(line: Line) -> int:
    index = line.get("leaf")
    if not isinstance(index, int) or isinstance(index, bool):
        raise BadLineError("the line has no leaf")
    return index


def read_hidden_entry(said: object) -> HiddenEntry:
    if not isinstance(said, list) or len(said) != len(HiddenEntry._fields):
        raise BadLineError("a hidden entry has two digests")
    return HiddenEntry(*(read_hash(one) for one in said))


def read_hash(text: object) -> bytes:
    try:
        found = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        found = b""
    if len(found) != HASH_BYTES or found.hex() != text:
        raise BadLineError("the line has no hash")
    return found

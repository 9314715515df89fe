"""Limits the size of answers of internal tools, and of what prompts show of the workspace.

An answer is an event, a message to the ledger and a text for a model, and must not be too large for any of them. What
is left out is counted, and lists keep their first entries whole.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json, digest
from towpath_contracts.text import truncate
from towpath_contracts.tools.internal_tools import MAX_ANSWER_BYTES, MAX_LIST_BYTES

Entry = TypeVar("Entry")

PREVIEW_CHARS = 2_000
"""Of an answer that is too large as a whole."""


def json_bytes(value: Any) -> int:
    """Return how many bytes *value* has as JSON."""
    return len(canonical_json(value).encode("utf-8", "surrogatepass"))


def take_while_fitting(entries: Iterable[Entry], limit: int = MAX_LIST_BYTES) -> list[Entry]:
    """Return the first of *entries* that have *limit* bytes together, as JSON."""
    kept: list[Entry] = []
    size = 0
    for entry in entries:
        size += json_bytes(entry) + 1
        if size > limit:
            break
        kept.append(entry)
    return kept


def shorten_answer(answer: Any) -> Any:
    """Return *answer*; one that is too large as its size, its digest and how it begins."""
    size = json_bytes(answer)
    if size <= MAX_ANSWER_BYTES:
        return answer
    summary: JsonObject = {"shortened": True, "bytes": size, "digest": digest(answer)}
    return {**summary, "preview": truncate(canonical_json(answer), PREVIEW_CHARS)}

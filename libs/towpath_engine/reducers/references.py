"""Large values that are passed as references: answers of child runs, and results of plan steps.

The state and the log of a run stay bounded however much its children write. The text itself is stored beside the event
that names it. A reference shows how large the value is and how it begins.
"""

import re
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.text import as_text, unwrap_message

CARRIED_BYTES = 64 * 1024
"""What a child hands to its parent as it is; anything larger is a reference."""

INLINE_BYTES = 16 * 1024
"""What a plan keeps of one answer as it is."""

PREVIEW_CHARS = 2_000

_REFERENCE = {"blob", "bytes", "preview"}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_BYTES = 1 << 53


def size_of(value: Any) -> int:
    """Return the bytes of *value* in canonical JSON."""
    return len(canonical_json(value).encode("utf-8", "surrogatepass"))


def reference_to(value: Any) -> tuple[JsonObject, str]:
    """Return the reference to *value*, and the text that is to be stored under its digest."""
    text = canonical_json(value)
    size = len(text.encode("utf-8", "surrogatepass"))
    return {"blob": digest_text(text), "bytes": size, "preview": text_of(value)[:PREVIEW_CHARS]}, text


def inline_or_reference(final: JsonObject | None) -> JsonObject | None:
    """Return a child's answer as its parent gets it: a large one is a reference."""
    return final if final is None or size_of(final) <= CARRIED_BYTES else reference_to(final)[0]


def is_reference(value: Any) -> bool:
    """Return whether *value* stands for a larger one.

    It may be what an agent answered all the same: what looks like a reference is no larger than one, and nothing is
    fetched by it.
    """
    if not isinstance(value, dict) or set(value) != _REFERENCE:
        return False
    blob, size, preview = value["blob"], value["bytes"], value["preview"]
    whole = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _MOST_BYTES
    named = isinstance(blob, str) and _DIGEST.fullmatch(blob) is not None
    return whole and named and isinstance(preview, str) and len(preview) <= PREVIEW_CHARS


def text_of(value: Any) -> str:
    """Return a value as text for an agent: a plain message as it is, a reference by how it begins, all else as JSON."""
    if is_reference(value):
        return f"{value['preview']}… ({value['bytes']} bytes in all, stored as {value['blob']})"
    return as_text(unwrap_message(value))

"""Texts of bounded length: what previews in logs, prompts and views are made with."""

import json
from typing import Any

from towpath_contracts.canonical import canonical_json

ELLIPSIS = "…"


def truncate(text: str, most: int) -> str:
    """Keep *text* within *most* characters: the first most-1 and one ellipsis when it is longer."""
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS


def as_text(value: Any) -> str:
    """Return strings as they are and everything else as canonical JSON."""
    return value if isinstance(value, str) else canonical_json(value)


def stored_text(data: bytes) -> tuple[str, bool]:
    """Return the text of a result in the blob store, and whether it was a string: else it is the JSON as it is stored.

    A worker stored these bytes and may have stored anything: what only begins like a string is a text as it stands.
    """
    text = data.decode("utf-8", "replace")
    if text.startswith('"'):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text, True
        return (value, True) if isinstance(value, str) else (text, False)
    return text, False

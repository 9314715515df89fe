"""Texts of bounded length: what previews in logs, prompts and views are made with."""

from typing import Any

from towpath_contracts.canonical import canonical_json

ELLIPSIS = "…"


def truncate(text: str, most: int) -> str:
    """Keep *text* within *most* characters: the first most-1 and one ellipsis when it is longer."""
    return text if len(text) <= most else text[: most - 1] + ELLIPSIS


def as_text(value: Any) -> str:
    """Return strings as they are and everything else as canonical JSON."""
    return value if isinstance(value, str) else canonical_json(value)

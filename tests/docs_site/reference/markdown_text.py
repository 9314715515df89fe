"""Texts of the code as Markdown."""

import re
from inspect import cleandoc

_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$", re.MULTILINE)


def cell(text: str) -> str:
    """Return *text* as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def code_cell(text: str) -> str:
    """Return *text* as code in a cell of a table; nothing for nothing."""
    return f"`{' '.join(text.split()).replace('|', chr(92) + '|')}`" if text else ""


def prose(docstring: str | None) -> str:
    """Return a docstring as paragraphs, without its sections about parameters."""
    text = _SECTION.split(cleandoc(docstring or ""))[0].strip()
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "".join(parts)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)

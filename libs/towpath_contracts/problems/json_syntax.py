"""Says in plain words why a text is no JSON: the parser of Python's library names what it would have taken."""

import json

EXCERPT_CHARS = 24
"""Of the text are shown from the fault on, and half as many before it: enough to find the place by."""

_MEANINGS = (
    ("Expecting property name enclosed in double quotes", "a name in double quotes belongs there"),
    ("Illegal trailing comma", "a comma stands before the end of a list or an object"),
    ("Expecting ',' delimiter", "a comma is missing there, or the end of the list or object"),
    ("Expecting ':' delimiter", "a colon is missing there, after the name"),
    (
        "Expecting value",
        "a value belongs there: text in double quotes, a number, true, false, null, […] or {…}",
    ),
    ("Unterminated string starting at", "the text that begins there is not closed with a double quote"),
    ("Invalid control character at", "a text has no line breaks or tabs in it: write \\n or \\t"),
    ("Invalid \\", "a backslash in a text is written twice: \\\\"),
    ("Extra data", "something stands after the end"),
)
"""How what the parser says begins, in the order of its versions, and what that means to whoever wrote the text."""


def describe_json_fault(error: json.JSONDecodeError) -> str:
    """Return what is wrong with a text, without the place."""
    if not error.doc.strip():
        return "it is empty"
    return next((meaning for begin, meaning in _MEANINGS if error.msg.startswith(begin)), error.msg)


def describe_json_error(error: ValueError) -> str:
    """Return what is wrong and in which line and column, where that is known."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return f"{describe_json_fault(error)} (line {error.lineno}, column {error.colno}{excerpt_at(error)})"


def excerpt_at(error: json.JSONDecodeError) -> str:
    """Return the text around the fault, to be put behind its column; where the text ends too early, its last part."""
    behind = error.doc[error.pos : error.pos + EXCERPT_CHARS].partition("\n")[0].rstrip()
    if not behind and not error.doc[error.pos :].strip():
        last = error.doc[: error.pos].rstrip()[-EXCERPT_CHARS:].rpartition("\n")[2]
        return f": the text ends behind `{last}`" if last else ""
    before = error.doc[max(0, error.pos - EXCERPT_CHARS // 2) : error.pos].rpartition("\n")[2].lstrip()
    return f": at `{before}{behind}`"

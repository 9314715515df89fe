"""Says in plain words why a text is no JSON: the parser of Python's library names what it would have taken."""

import json
import re

EXCERPT_CHARS = 24
"""Of the text are shown from the fault on, and up to half as many in whole words before it."""

_MEANINGS = (
    ("Expecting property name enclosed in double quotes", "a name in double quotes belongs there"),
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

_BEFORE_AN_END = ("Illegal trailing comma", "Expecting value", "Expecting property name")
_TRAILING_COMMA = re.compile(r",\s*([}\]])")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_KINDS = {"{": ("object", "}"), "[": ("list", "]")}


def describe_json_fault(error: json.JSONDecodeError) -> tuple[int, str]:
    """Return the line of the fault, and what is wrong with its column."""
    place, meaning, excerpt = _read_fault(error)
    line, column = _line_and_column(error.doc, place)
    return line, f"{meaning} (column {column}{excerpt})"


def describe_json_error(error: ValueError) -> str:
    """Return what is wrong and in which line and column, where that is known."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    place, meaning, excerpt = _read_fault(error)
    line, column = _line_and_column(error.doc, place)
    return f"{meaning} (line {line}, column {column}{excerpt})"


def _read_fault(error: json.JSONDecodeError) -> tuple[int, str, str]:
    """Return where the fault is, what it is, and the text around it, to be put behind its column."""
    text, place = error.doc, error.pos
    if not text.strip():
        return 0, "it is empty", ""
    end = len(text.rstrip())
    if place >= end and (begun := _unclosed(text)):
        kind, closing, line = begun
        last = text[max(0, end - EXCERPT_CHARS) : end].rpartition("\n")[2]
        open_part = f"the {kind} that begins in line {line} is not closed with {closing}"
        return place, f"the text ends behind `{last}`: {open_part}", ""
    # Until Python 3.12 the parser names what stands behind the comma, and from 3.13 on the comma itself.
    comma = place if text.startswith(",", place) else len(text[:place].rstrip()) - 1
    if error.msg.startswith(_BEFORE_AN_END) and comma > 0 and (closed := _TRAILING_COMMA.match(text, comma)):
        return comma, f"a comma stands before {closed[1]}; take it out", _excerpt(text, comma)
    meaning = next((meaning for begin, meaning in _MEANINGS if error.msg.startswith(begin)), error.msg)
    return place, meaning, _excerpt(text, place)


def _unclosed(text: str) -> tuple[str, str, int] | None:
    """Return what the innermost bracket that is open at the end begins, how it is closed, and its line."""
    opened: list[int] = []
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in _KINDS:
            opened.append(found.start())
        elif found[0] in "}]" and opened:
            opened.pop()
    return (*_KINDS[text[opened[-1]]], _line_and_column(text, opened[-1])[0]) if opened else None


def _excerpt(text: str, place: int) -> str:
    line = text[:place].rpartition("\n")[2]
    before = line[-(EXCERPT_CHARS // 2) :]
    if len(before) < len(line) and not line[-len(before) - 1].isspace():
        before = before.partition(" ")[2]
    behind = text[place : place + EXCERPT_CHARS].partition("\n")[0].rstrip()
    return f": at `{before.lstrip()}{behind}`"


def _line_and_column(text: str, place: int) -> tuple[int, int]:
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)

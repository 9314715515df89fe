"""Says in plain words why a text is no JSON: the parser of Python's library names what it would have taken.

What it says is logged, and read in terminals and pages. So the values of keys that are called like secrets, and all
that lists and objects below such keys hold, are left out of the text that is shown around the fault; and in it
whatever can't be seen, or changes how the rest is read, is escaped.
"""

import json
import re

from towpath_contracts.text import ELLIPSIS, HIDDEN, SECRET_NAME

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
    (
        "Invalid control character at",
        "a text is not closed with a double quote in its line, or has a tab or line break in it: write \\t or \\n",
    ),
    ("Invalid \\", "a backslash in a text is written twice: \\\\"),
    ("Extra data", "something stands after the end"),
)
"""How what the parser says begins, in the order of its versions, and what that means to whoever wrote the text."""

_BEFORE_AN_END = ("Illegal trailing comma", "Expecting value", "Expecting property name")
_TRAILING_COMMA = re.compile(r",\s*([}\]])")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_NAMED_VALUE = re.compile(
    r"""(?<![\w.-])([\w.-]{1,128}+)["']?+\s*+(?:[:=]\s*+(?=[^\s,}\]])(?!(?:true|false|null)\b)(["'{\[]?)|(["'{\[]))"""
)
"""A name, also one whose quotes or colon are missing, and how its value begins: with a quote or bracket, or without."""

_AMOUNT = re.compile(
    r"(?:(?:max|min|total|input|output|prompt|completion|reasoning|cached|budget)[_-]?)*tokens", re.IGNORECASE
)
"""Names of how many tokens there may be: these are pieces of text, and no secrets."""

_TEXT_END = re.compile(r"""["'](?=\s*(?:[,}\]\n]|$))""")
_WORD_END = re.compile(r"[,}\]\n]")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_FORM = re.compile(r"""[^\s{}\[\],:"']""")
"""Whatever is no sign that a list or an object is written with."""

_LOOKED_AT = 16_384
"""Characters before a fault in which the name is looked for whose value is around it."""

_LEFT_OUT = "\0"
"""Stands for each character of a secret, so that all others keep their places."""

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
        last = _shown(_without_secrets(text, end)[max(0, end - EXCERPT_CHARS) : end].rpartition("\n")[2])
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
    text = _without_secrets(text, place + EXCERPT_CHARS)
    line = text[:place].rpartition("\n")[2]
    before = line[-(EXCERPT_CHARS // 2) :]
    if len(before) < len(line) and not line[-len(before) - 1].isspace():
        before = before.partition(" ")[2]
    behind = text[place : place + EXCERPT_CHARS].partition("\n")[0].rstrip()
    return f": at `{_shown(before.lstrip() + behind)}`"


def _without_secrets(text: str, end: int) -> str:
    """Return *text* up to *end*, of the same length, with _LEFT_OUT for each character of a secret.

    A text that is no JSON may not close the secret where it ends: then all that follows in it is taken for the secret.
    """
    start = max(0, end - _LOOKED_AT)
    shown = text[start:end].replace(_LEFT_OUT, " ")
    place = 0
    while (named := _NAMED_VALUE.search(shown, place)) is not None:
        place = named.end()
        if not SECRET_NAME.search(named[1]) or _AMOUNT.fullmatch(named[1]):
            continue
        begin = named[2] or named[3] or ""
        if begin in _KINDS:
            until = _closing(shown, place)
            hidden = _without_content(shown[place:until])
        else:
            closed = (_TEXT_END if begin else _WORD_END).search(shown, place)
            until = closed.start() if closed is not None else len(shown)
            hidden = _hidden(shown[place:until])
        shown, place = shown[:place] + hidden + shown[until:], until
    return text[:start] + shown


def _hidden(text: str) -> str:
    return "".join(sign if sign == "\n" else _LEFT_OUT for sign in text)


def _without_content(text: str) -> str:
    """Return *text*, of a list or object, of the same length, and what it holds as secrets."""
    texts_hidden = _TEXT.sub(lambda found: f'"{_hidden(found[0][1:-1])}"', text)
    return _NO_FORM.sub(_LEFT_OUT, texts_hidden)


def _closing(text: str, place: int) -> int:
    """Return where the list or object ends whose bracket stands before *place*; the end of *text* where it does not."""
    depth = 1
    for found in _STRING_OR_BRACKET.finditer(text, place):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        if not depth:
            return found.start()
    return len(text)


def _shown(excerpt: str) -> str:
    """Return *excerpt* with an ellipsis for a secret, and as JSON writes them all signs that can't be seen."""
    short = re.sub(f"{_LEFT_OUT}+", ELLIPSIS, excerpt)
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], short)


_UNSEEN = re.compile(rf"{HIDDEN.pattern}|[\r\ud800-\udfff]")


def _line_and_column(text: str, place: int) -> tuple[int, int]:
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)

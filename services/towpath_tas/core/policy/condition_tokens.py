"""Splits a condition into tokens, exactly as CEL does.

Whatever judges a condition by its text has to see the same names, brackets and texts as the engine. Comments, raw texts
and texts in three quotes are refused: nothing needs them, and each of them could hide from a reader what is evaluated.
"""

import re
from typing import NamedTuple

MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
"""What evaluates its argument for every element of a list or map."""

_TOKEN = re.compile(
    r"""[\t\n\f\r ]+"""
    r"""|(?P<refused>//|[bB]?[rR]["']|[bB]?(?:\"\"\"|'''))"""
    r"""|(?P<text>[bB]?(?:"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*'))"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<number>0x[0-9A-Fa-f]+[uU]?|(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)"""
    r"""|(?P<sign>&&|\|\||[=!<>]=|.)""",
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(?P<sign>.))", re.DOTALL
)
_SIGNS = dict(zip("abfnrtv\\\"'`?", "\a\b\f\n\r\t\v\\\"'`?", strict=True))
_REMEDIES = {
    "//": "a condition has no comments (//): write them in the YAML, after #, or in the rule's note",
    "r": r"a condition has no raw texts (r'…'): write '\\d' for the pattern \d",
    "": "a condition has no texts in three quotes: write one pair of quotes, and \\n for a new line",
}


class Token(NamedTuple):
    """One token: its kind is text, name, number or sign."""

    kind: str
    word: str


def tokens_of(condition: str) -> list[Token]:
    """Return the tokens of *condition*; raises ValueError for what a condition may not have."""
    found = []
    for match in _TOKEN.finditer(condition):
        kind, word = match.lastgroup, match[0]
        if kind == "refused":
            raise ValueError(_REMEDIES.get(word, _REMEDIES["r" if "r" in word.lower() else ""]))
        if kind == "sign" and word in "\"'":
            begin = condition[match.start() : match.start() + 20]
            msg = f"the text that begins with {begin!r} has no end; close it with {word}"
            raise ValueError(msg)
        if kind is not None:
            found.append(Token(kind, word))
    return found


def sign_at(tokens: list[Token], place: int) -> str:
    """Return the sign at *place*; empty where something else or nothing is."""
    return tokens[place].word if 0 <= place < len(tokens) and tokens[place].kind == "sign" else ""


def is_macro(tokens: list[Token], place: int) -> bool:
    """Return whether the token at *place* is the name of a macro that is called."""
    name = tokens[place]
    called = sign_at(tokens, place - 1) == "." and sign_at(tokens, place + 1) == "("
    return name.kind == "name" and name.word in MACROS and called


def macro_variables(tokens: list[Token]) -> frozenset[str]:
    """Return the names that macros give to elements."""
    return frozenset(
        tokens[place + 2].word
        for place in range(len(tokens) - 3)
        if is_macro(tokens, place) and tokens[place + 2].kind == "name" and sign_at(tokens, place + 3) == ","
    )


def text_value(literal: str) -> str | None:
    """Return what the text *literal*, with its quotes, stands for; None for bytes and for what CEL refuses."""
    if literal[:1] not in ('"', "'"):
        return None
    try:
        return _ESCAPE.sub(_escaped, literal[1:-1])
    except (KeyError, ValueError, OverflowError):
        return None


def _escaped(found: re.Match[str]) -> str:
    if found["sign"] is not None:
        return _SIGNS[found["sign"]]
    code = int(found[4], 8) if found[4] else int(found[1] or found[2] or found[3], 16)
    if 0xD800 <= code < 0xE000:
        msg = "half of a character"
        raise ValueError(msg)
    return chr(code)

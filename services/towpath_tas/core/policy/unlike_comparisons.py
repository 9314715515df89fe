"""Finds where a condition compares an argument with a value that it can't equal: a number with a text, and so on.

Used for warnings only, and reports nothing where it is not sure: a comparison is reported only if the schemas of all
tools in question say that the argument has another type than what is written beside it. The engine neither equates nor
orders values of unlike types: `==` is then never true, `!=` always, and an order is unclear.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from towpath_tas.core.policy.condition_analysis import schema_kinds
from towpath_tas.core.policy.condition_tokens import Token, sign_at, text_value, tokens_of

_ORDERS = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EQUALITIES = {"==": "==", "!=": "!="}
_TURNED = {**_ORDERS, **_EQUALITIES}
"""Every comparison, and how it is written with its sides exchanged."""

_BEGINS = frozenset({"(", "&&", "||", "?", ":", ","})
_ENDS = frozenset({")", "&&", "||", "?", ":", ","})
"""What stands before and behind a comparison that is evaluated by itself."""

MAX_OPERAND = 64
"""Tokens of one side that are read: a path of more names is compared nowhere."""

_FAMILIES = {"integer": "number"}
_TOLD = {"string": "a text", "number": "a number", "boolean": "true or false", "array": "a list", "object": "an object"}


class UnlikeComparison(NamedTuple):
    """A comparison as it is written, what the two sides are, what comes of it, and how it is probably meant."""

    written: str
    sides: str
    result: bool | None
    """None where it is unclear."""

    meant: str
    is_whole: bool
    """Whether the condition is nothing else."""


class _Operand(NamedTuple):
    begin: int
    end: int


def unlike_comparisons(when: str, schemas: Sequence[Mapping[str, Any]]) -> Iterator[UnlikeComparison]:
    """Yield the comparisons of *when* whose sides are of unlike types according to all *schemas*."""
    tokens = tokens_of(when)
    for place, token in enumerate(tokens):
        if token.kind != "sign" or token.word not in _TURNED or not schemas:
            continue
        left, right = _operand_before(tokens, place), _operand_behind(tokens, place)
        if left is None or right is None:
            continue
        for argument, literal, sign in ((left, right, token.word), (right, left, _TURNED[token.word])):
            path, kind = _path(tokens[slice(*argument)]), _literal_kind(tokens[slice(*literal)])
            if path is None or kind is None:
                continue
            found = [{_FAMILIES.get(one, one) for one in schema_kinds(schema, path)} for schema in schemas]
            if not all(kinds and kind not in kinds for kinds in found):
                continue
            kinds = sorted(set[str]().union(*found) - {"null"})
            yield UnlikeComparison(
                written=_text(tokens[left.begin : right.end]),
                sides=f"{' or '.join(_TOLD.get(one, one) for one in kinds)} with {_TOLD[kind]}",
                result={"==": False, "!=": True}.get(sign),
                meant=_meant(_text(tokens[slice(*argument)]), sign, tokens[slice(*literal)], kinds),
                is_whole=(left.begin, right.end) == (0, len(tokens)),
            )


def _operand_before(tokens: list[Token], place: int) -> _Operand | None:
    """Return what stands alone before the sign at *place*: back to where a condition or a part of it begins."""
    begin, depth = place, 0
    while begin > 0 and place - begin < MAX_OPERAND:
        word = tokens[begin - 1].word if tokens[begin - 1].kind == "sign" else ""
        depth += (word == "]") - (word == "[")
        if depth < 0 or (depth == 0 and word in _BEGINS):
            break
        begin -= 1
    return _Operand(begin, place) if begin == 0 or sign_at(tokens, begin - 1) in _BEGINS else None


def _operand_behind(tokens: list[Token], place: int) -> _Operand | None:
    end, depth = place + 1, 0
    while end < len(tokens) and end - place < MAX_OPERAND:
        word = tokens[end].word if tokens[end].kind == "sign" else ""
        depth += (word == "[") - (word == "]")
        if depth < 0 or (depth == 0 and word in _ENDS):
            break
        end += 1
    return _Operand(place + 1, end) if end == len(tokens) or sign_at(tokens, end) in _ENDS else None


def _path(tokens: list[Token]) -> list[str] | None:
    """Return the names that *tokens* follow from `args`; None where they are anything else."""
    words = [(token.kind, token.word) for token in tokens]
    if words[:1] != [("name", "args")]:
        return None
    path, rest = [], words[1:]
    while rest:
        match rest:
            case [("sign", "."), ("name", name), *rest]:
                path.append(name)
            case [("sign", "["), ("text", quoted), ("sign", "]"), *rest] if (key := text_value(quoted)) is not None:
                path.append(key)
            case _:
                return None
    return path or None


def _literal_kind(tokens: list[Token]) -> str | None:
    match [(token.kind, token.word) for token in tokens]:
        case [("text", quoted)] if text_value(quoted) is not None:
            return "string"
        case [("number", _)] | [("sign", "-"), ("number", _)]:
            return "number"
        case [("name", "true" | "false")]:
            return "boolean"
        case _:
            return None


def _meant(argument: str, sign: str, literal: list[Token], kinds: Sequence[str]) -> str:
    """Return how the comparison is probably meant; an empty text where nobody can know."""
    written = _text(literal)
    text = text_value(written) if literal[0].kind == "text" else None
    if kinds == ["number"] and text is not None and _is_number(text):
        return f"{argument} {sign} {text}"
    if kinds == ["boolean"] and text in ("true", "false"):
        return f"{argument} {sign} {text}"
    if kinds == ["string"] and text is None:
        return f"{argument} {sign} '{written}'" if sign in _EQUALITIES else f"double({argument}) {sign} {written}"
    if kinds == ["array"] and sign in _EQUALITIES:
        return f"{written} in {argument}" if sign == "==" else f"!({written} in {argument})"
    return ""


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite() and text.strip() == text and text[0] not in "+._"
    except InvalidOperation:
        return False


def _text(tokens: Sequence[Token]) -> str:
    """Return *tokens* as they are usually written: spaces stand around comparisons alone."""
    return "".join(f" {one.word} " if one.kind == "sign" and one.word in _TURNED else one.word for one in tokens)

"""A part of CEL, parsed and evaluated as the definition of the language says, for oracles only.

Uses no code of the platform. The part: literals, lists, names, members, `==` `!=` `<` `<=` `>` `>=` `in` `+` `-` `!`
`&&` `||` `?:`, `has`, `size`, `startsWith`, `endsWith`, `contains`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+\.\d+|\d+)|(?P<text>"[^"\\]*"|'[^'\\]*')|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<sign>==|!=|<=|>=|&&|\|\||[<>!?:.,()\[\]+-]))"""
)
CONSTANTS = {"true": True, "false": False, "null": None}
LONGEST_INT = 2**63

Node = tuple[Any, ...]


class UnclearError(Exception):
    """The value is unclear: a member is missing, or the types do not fit."""


def condition(text: str, context: Mapping[str, Any]) -> str:
    """Return `yes`, `no` or `unclear`."""
    try:
        value = _value(_Reader(text).whole(), context)
    except UnclearError:
        return "unclear"
    return "yes" if value is True else "no" if value is False else "unclear"


class _Reader:
    """Recursive descent, one method per precedence."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        place = 0
        text = text.rstrip()
        while place < len(text):
            found = TOKEN.match(text, place)
            assert found is not None, f"not in this part of CEL: {text[place:]}"
            assert found.lastgroup is not None
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()
        self.at = 0

    def whole(self) -> Node:
        node = self.choice()
        assert self.at == len(self.tokens), self.tokens[self.at :]
        return node

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        found = self.peek()
        if found and (not wanted or found in wanted):
            self.at += 1
            return found
        return ""

    def must(self, wanted: str) -> None:
        assert self.take(wanted), f"{wanted} expected, not {self.peek()}"

    def choice(self) -> Node:
        node = self.either()
        if self.take("?"):
            yes = self.either()
            self.must(":")
            return ("choice", node, yes, self.choice())
        return node

    def either(self) -> Node:
        node = self.both()
        while self.take("||"):
            node = ("either", node, self.both())
        return node

    def both(self) -> Node:
        node = self.relation()
        while self.take("&&"):
            node = ("both", node, self.relation())
        return node

    def relation(self) -> Node:
        node = self.sum()
        while sign := self.take("==", "!=", "<", "<=", ">", ">=", "in"):
            node = (sign, node, self.sum())
        return node

    def sum(self) -> Node:
        node = self.unary()
        while sign := self.take("+", "-"):
            node = (sign, node, self.unary())
        return node

    def unary(self) -> Node:
        if self.take("!"):
            return ("not", self.unary())
        if self.take("-"):
            return ("minus", self.unary())
        return self.member()

    def member(self) -> Node:
        node = self.primary()
        while sign := self.take(".", "["):
            if sign == "[":
                node = ("index", node, self.choice())
                self.must("]")
                continue
            name = self.take()
            node = ("call", name, node, *self.arguments()) if self.take("(") else ("member", node, name)
        return node

    def arguments(self) -> list[Node]:
        found: list[Node] = []
        while not self.take(")"):
            found.append(self.choice())
            self.take(",")
        return found

    def primary(self) -> Node:
        if self.take("("):
            node = self.choice()
            self.must(")")
            return node
        if self.take("["):
            items = []
            while not self.take("]"):
                items.append(self.choice())
                self.take(",")
            return ("list", *items)
        kind, word = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return ("constant", float(word) if "." in word else int(word))
        if kind == "text":
            return ("constant", word[1:-1])
        if word in CONSTANTS:
            return ("constant", CONSTANTS[word])
        return ("call", word, *self.arguments()) if self.take("(") else ("name", word)


def _value(node: Node, context: Mapping[str, Any]) -> Any:
    kind, *rest = node
    if kind in ("both", "either"):
        return _logic(kind == "either", rest[0], rest[1], context)
    if kind == "choice":
        test = _value(rest[0], context)
        if not isinstance(test, bool):
            raise UnclearError
        return _value(rest[1] if test else rest[2], context)
    if kind == "constant":
        return rest[0]
    if kind == "name":
        return context[rest[0]]
    if kind == "list":
        return [_value(item, context) for item in rest]
    if kind == "member":
        return _member(_value(rest[0], context), rest[1])
    if kind == "call":
        return _call(rest[0], rest[1:], context)
    return _operation(kind, [_value(part, context) for part in rest])


def _logic(settling: bool, left: Node, right: Node, context: Mapping[str, Any]) -> bool:
    """`&&` and `||`: one operand that settles the result does so even if the other is unclear."""
    told = []
    for side in (left, right):
        try:
            value = _value(side, context)
        except UnclearError:
            continue
        if value is settling:
            return settling
        if isinstance(value, bool):
            told.append(value)
    if len(told) < 2:
        raise UnclearError
    return not settling


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise UnclearError
    return value[name]


def _call(name: str, parts: list[Node], context: Mapping[str, Any]) -> Any:
    if name == "has":
        _, owner, member = parts[0]
        found = _value(owner, context)
        if not isinstance(found, dict):
            raise UnclearError
        return member in found
    values = [_value(part, context) for part in parts]
    if name == "size":
        if not isinstance(values[0], str | list | dict):
            raise UnclearError
        return len(values[0])
    if not all(isinstance(value, str) for value in values):
        raise UnclearError
    tests: dict[str, Callable[[str, str], bool]] = {
        "startsWith": str.startswith,
        "endsWith": str.endswith,
        "contains": str.__contains__,
    }
    return tests[name](*values)


def _operation(sign: str, values: list[Any]) -> Any:
    if sign == "not":
        if not isinstance(values[0], bool):
            raise UnclearError
        return not values[0]
    if sign == "minus":
        return _arithmetic("-", 0.0 if isinstance(values[0], float) else 0, values[0])
    left, right = values
    if sign == "index":
        return _indexed(left, right)
    if sign in ("==", "!="):
        return _equal(left, right) is (sign == "==")
    if sign == "in":
        return _within(left, right)
    if sign in ("+", "-"):
        return _arithmetic(sign, left, right)
    return _ordered(sign, left, right)


def _indexed(whole: Any, key: Any) -> Any:
    if isinstance(whole, list) and type(key) is int and 0 <= key < len(whole):
        return whole[key]
    if isinstance(key, str):
        return _member(whole, key)
    raise UnclearError


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _arithmetic(sign: str, left: Any, right: Any) -> Any:
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if sign == "+" and isinstance(left, list) and isinstance(right, list):
        return left + right
    if not (_number(left) and _number(right) and type(left) is type(right)):
        raise UnclearError
    found = left + right if sign == "+" else left - right
    if isinstance(found, int) and not -LONGEST_INT <= found < LONGEST_INT:
        raise UnclearError
    return found


def _equal(left: Any, right: Any) -> bool:
    if _number(left) and _number(right):
        return bool(left == right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    return bool(left == right)


def _within(item: Any, whole: Any) -> bool:
    if isinstance(whole, list):
        return any(_equal(item, one) for one in whole)
    if not isinstance(whole, dict) or not isinstance(item, str | int):
        raise UnclearError
    return item in whole


def _ordered(sign: str, left: Any, right: Any) -> bool:
    same = type(left) is type(right) and isinstance(left, str | bool)
    if not same and not (_number(left) and _number(right)):
        raise UnclearError
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign])

"""Flows: in which order the members of a swarm act, written as `a >> b` and `(a | b) >> c`.

A flow is a row of stages joined by `>>`; a parallel stage stands in parentheses and is a whole stage. A mistake is
reported with its column, counted from 1. Nothing is evaluated: the text is read, and stages come out.
"""

import re
from typing import NamedTuple

Stages = tuple[tuple[str, ...], ...]
"""Stages in order; the members of a parallel stage in the order of their names, however they were written."""

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z0-9][A-Za-z0-9_.:/-]*)|(?P<sign>>>|[|()])|(?P<wrong>\S))")
MAX_NAME = 128


class SwarmFlowFault(NamedTuple):
    """One mistake: `flow_invalid`, `flow_cycle` or `flow_duplicate`, and where it is."""

    code: str
    column: int
    text: str

    def __str__(self) -> str:
        """Describe the mistake and its place."""
        return f"column {self.column}: {self.text}"


class SwarmFlowError(ValueError):
    """The flow has mistakes: the first of form, or every name that stands in it twice."""

    def __init__(self, faults: tuple[SwarmFlowFault, ...]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


class _Token(NamedTuple):
    column: int
    text: str
    is_name: bool = False

    @property
    def shown(self) -> str:
        """The token as messages name it."""
        return repr(self.text) if self.text else "the end"


def _invalid(column: int, text: str) -> SwarmFlowError:
    return SwarmFlowError((SwarmFlowFault("flow_invalid", column, text),))


def _tokens(text: str) -> list[_Token]:
    """Return the tokens of *text*, an empty one at its end."""
    text = text.rstrip()
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        column, word = match.start(kind) + 1, match.group(kind)
        if kind == "wrong":
            raise _invalid(column, f"unexpected {word!r}; a flow has names, '>>', '|' and parentheses")
        if len(word) > MAX_NAME:
            raise _invalid(column, f"a name has at most {MAX_NAME} characters, this one {len(word)}")
        found.append(_Token(column, word, is_name=kind == "name"))
    return [*found, _Token(len(text) + 1, "")]


class _FlowParser:
    """Reads the stages of one flow from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def stages(self) -> list[list[_Token]]:
        """Return the names of every stage; raises SwarmFlowError at the first mistake."""
        if len(self._tokens) == 1:
            raise _invalid(1, "the flow is empty")
        found = [self._stage("the flow begins with {0}; a stage stands before it")]
        while (token := self._next()).text:
            if token.text == "|":
                raise _invalid(token.column, "'|' outside of parentheses; write a parallel stage as (a | b)")
            if token.text == ")":
                raise _invalid(token.column, "')' closes nothing")
            if token.text != ">>":
                raise _invalid(token.column, f"{token.shown} follows a stage; put '>>' between stages")
            found.append(self._stage(f"a stage is missing after the '>>' of column {token.column}, before {{0}}"))
        return found

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _stage(self, missing: str) -> list[_Token]:
        token = self._next()
        if token.text == "(":
            return self._group(token)
        if token.text == ")":
            raise _invalid(token.column, "')' closes nothing")
        if not token.is_name:
            raise _invalid(token.column, missing.format(token.shown))
        return [token]

    def _group(self, opened: _Token) -> list[_Token]:
        members: list[_Token] = []
        while True:
            token = self._next()
            if token.text == ")" and not members:
                raise _invalid(opened.column, "the group is empty")
            self._member(opened, token)
            members.append(token)
            token = self._next()
            if token.text == ")":
                return members
            if token.text != "|":
                raise self._unclosed(opened, token)

    def _member(self, opened: _Token, token: _Token) -> None:
        """Refuse what is no name where one has to stand."""
        if token.is_name:
            return
        if token.text == "(":
            raise _invalid(token.column, "a group inside a group; a group is a whole stage")
        if not token.text:
            raise self._unclosed(opened, token)
        raise _invalid(token.column, f"a name is missing before {token.shown}")

    def _unclosed(self, opened: _Token, token: _Token) -> SwarmFlowError:
        if token.text == ">>":
            message = f"'>>' inside the group of column {opened.column}; a group is a whole stage, close it before"
            return _invalid(token.column, message)
        if token.text == "(":
            return _invalid(token.column, "a group inside a group; a group is a whole stage")
        if token.is_name:
            return _invalid(token.column, f"{token.shown} follows a name; put '|' between the members of a group")
        return _invalid(opened.column, "this '(' is never closed")


def _repeats(stages: list[list[_Token]]) -> tuple[SwarmFlowFault, ...]:
    """Name every member that stands in the flow twice: later on that is a cycle, in one stage a duplicate."""
    seen: dict[str, tuple[int, int]] = {}
    faults = []
    for place, stage in enumerate(stages):
        for token in stage:
            before = seen.setdefault(token.text, (place, token.column))
            if before == (place, token.column):
                continue
            code = "flow_duplicate" if before[0] == place else "flow_cycle"
            where = "twice in one stage" if before[0] == place else "in two stages, which would be a cycle"
            faults.append(
                SwarmFlowFault(code, token.column, f"{token.text} stands {where} (first in column {before[1]})")
            )
    return tuple(faults)


def parse_flow(text: str) -> Stages:
    """Return the stages of *text*; raises SwarmFlowError.

    The order is that of the stages, and of the names within one: the same flow always gives the same order.
    """
    stages = _FlowParser(text).stages()
    if faults := _repeats(stages):
        raise SwarmFlowError(faults)
    return tuple(tuple(sorted(token.text for token in stage)) for stage in stages)


def write_flow(stages: Stages) -> str:
    """Return the flow that has these *stages*."""
    return " >> ".join(stage[0] if len(stage) == 1 else f"({' | '.join(stage)})" for stage in stages)

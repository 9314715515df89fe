"""Says in plain words why an expression in CEL can't be read: its parser names the tokens that it would have taken."""

import re
from collections.abc import Callable
from typing import TypeVar

Program = TypeVar("Program")

CEL_LITERAL = re.compile(
    r"""\b[bB]?[rR][bB]?(?:'[^'\n]*'|"[^"\n]*")|'{3}.*?'{3}|"{3}.*?"{3}|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|//[^\n]*""",
    re.DOTALL,
)
"""A text or a comment within an expression."""

_ASSIGNED = re.compile(r"(?<![=!<>])=(?![=<>])")
_FIRST = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?(.+)")
_MEANINGS = (
    (re.compile(r"(?:mismatched|extraneous) input '<EOF>'.*"), "it ends too early"),
    (re.compile(r"(?:mismatched|extraneous) input ('.+?') expecting .*"), r"\1 does not belong there"),
    (re.compile(r"token recognition error at: '(.+?) *'?"), r"'\1' does not belong there"),
    (re.compile(r"no viable alternative at input ('.+')"), r"\1 does not belong there"),
    (re.compile(r"missing ('.+?') at '.*"), r"\1 is missing there"),
)
"""What the parser says, and what that means to somebody who does not know its rules."""


def compile_cel(text: str, compiler: Callable[[str], Program]) -> Program:
    """Return the program that *compiler* makes of *text*; raises ValueError with what is wrong, and where."""
    try:
        return compiler(text)
    except ValueError as error:
        raise ValueError(describe_cel_fault(str(error), text)) from error


def describe_cel_fault(said: str, text: str) -> str:
    """Return in one line what is wrong with the expression *text* that the parser *said* something of."""
    if _ASSIGNED.search(CEL_LITERAL.sub("", text)):
        return "= sets nothing here; did you mean ==?"
    found = _FIRST.search(said)
    if found is None:
        return said.partition("\n")[0]
    line, column, fault = found.groups()
    for pattern, meaning in _MEANINGS:
        if meant := pattern.fullmatch(fault):
            fault = meant.expand(meaning)
            break
    where = f"character {column}" if line == "1" else f"line {line}, character {column}"
    return f"it can't be read as CEL, at {where}: {fault}"

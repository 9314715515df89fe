"""Says in plain words why an expression in CEL can't be read: its parser names the tokens that it would have taken."""

import re
from collections.abc import Callable, Collection
from typing import TypeVar

from towpath_contracts.problems.near_names import nearest_name

Program = TypeVar("Program")

MAX_MEANT = 3
"""Unknown names of a condition of which is told what was meant."""

_CONSTANTS = {"true": "true", "false": "false", **dict.fromkeys(("null", "none", "nil", "undefined"), "null")}
"""What CEL has for the constants of other languages, by these in small letters."""

CEL_LITERAL = re.compile(
    r"""\b[bB]?[rR][bB]?(?:'[^'\n]*'|"[^"\n]*")|'{3}.*?'{3}|"{3}.*?"{3}|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|//[^\n]*""",
    re.DOTALL,
)
"""A text or a comment within an expression."""

_OPERATORS = (
    (re.compile(r"(?<![=!<>])=(?![=<>])"), "=", "==", ""),
    (re.compile(r"==="), "===", "==", ""),
    (re.compile(r"<>"), "<>", "!=", ""),
    (re.compile(r"=<"), "=<", "<=", ""),
    (re.compile(r"=>"), "=>", ">=", ""),
    (re.compile(r"(?<!&)&(?!&)"), "&", "&&", ""),
    (re.compile(r"(?<!\|)\|(?!\|)"), "|", "||", ""),
    (re.compile(r"(?<![\w.])and(?!\w)"), "'and'", "&&", ""),
    (re.compile(r"(?<![\w.])or(?!\w)"), "'or'", "||", ""),
    (re.compile(r"(?<![\w.])not(?!\w)"), "'not'", "!", ", as in !(a in b)"),
)
"""What people write who know another language, outside of texts, what CEL has for it, and how that is written."""

_QUOTES = (
    (re.compile(r"[\u2018\u2019\u201c\u201d]"), "a text stands between straight quotes, \" or '"),
    (re.compile(r"[\"']"), "a text is not closed, or has a backslash that means nothing: it ends with its own quote"),
)
"""What is wrong with a text; the first that is found."""

_ODD = "does not belong there"
_VALUE = "a value belongs there, such as args.amount or 'EUR'"
_OPERATOR = "an operator may stand there, such as && or ==, or nothing more"

_FIRST = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?(.+)")
_MEANINGS = (
    (re.compile(r"(?:mismatched|extraneous) input '<EOF>' expecting \{'\['.*"), f"it ends too early: {_VALUE}"),
    (re.compile(r"(?:mismatched|extraneous) input '<EOF>' expecting \{('.'), .*"), r"it ends too early: \1 is missing"),
    (re.compile(r"(?:mismatched|extraneous) input '<EOF>'.*"), "it ends too early"),
    (re.compile(r"(?:mismatched|extraneous) input ('.+?') expecting \{?<EOF>.*"), rf"\1 {_ODD}; {_OPERATOR}"),
    (re.compile(r"(?:mismatched|extraneous) input ('.+?') expecting \{'\['.*"), rf"\1 {_ODD}; {_VALUE}"),
    (re.compile(r"(?:mismatched|extraneous) input ('.+?') expecting ('.+?')"), rf"\1 {_ODD}; \2 does"),
    (re.compile(r"(?:mismatched|extraneous) input ('.+?') expecting .*"), rf"\1 {_ODD}"),
    (re.compile(r"token recognition error at: '(.+?) *'?"), r"'\1' does not belong there"),
    (re.compile(r"no viable alternative at input '\.+'"), "a name follows a dot, as in args.amount"),
    (re.compile(r"no viable alternative at input ('.+')"), r"\1 does not belong there"),
    (re.compile(r"missing ('.+?') at '.*"), r"\1 is missing there"),
    (re.compile(r"Incomplete .*_\?_:_.*"), "a choice has two ways: condition ? this : that"),
    (re.compile(r"invalid argument to has\(\) macro"), "has() takes a field, as in has(args.amount)"),
    (re.compile(r"argument must be a simple name"), "a name belongs there, as the first x in list.all(x, x > 0)"),
    (
        re.compile(r"reserved identifier: (\w+)"),
        r"'\1' is reserved; write one expression, such as args.amount < 5",
    ),
    (re.compile(r"invalid int literal"), "a whole number has at most 64 bits"),
    (re.compile(r"unsupported syntax:? '(.+)'"), r"'\1' does not belong there"),
)
"""What the parser says, and what that means to somebody who does not know its rules."""


def compile_cel(text: str, compiler: Callable[[str], Program]) -> Program:
    """Return the program that *compiler* makes of *text*; raises ValueError with what is wrong, and where."""
    try:
        return compiler(text)
    except ValueError as error:
        raise ValueError(describe_cel_fault(str(error), text)) from error


def foreign_operator(text: str) -> str:
    """Return what CEL has for the operators in *text* that it does not know, or the quote that is not closed."""
    outside = CEL_LITERAL.sub(" ", text)
    found = [told for pattern, *told in _OPERATORS if pattern.search(outside)]
    if len(found) > 1:
        *most, last = (written for written, _, _ in found)
        instead = ", ".join(f"{meant} for {written}{example}" for written, meant, example in found)
        return f"{', '.join(most)} and {last} are no operators here; write {instead}"
    for written, meant, example in found:
        what = "sets nothing" if written == "=" else "is no operator"
        return f"{written} {what} here; did you mean {meant}{example}?"
    return next((fault for sign, fault in _QUOTES if sign.search(outside)), "")


def describe_cel_fault(said: str, text: str) -> str:
    """Return in one line what is wrong with the expression *text* that the parser *said* something of."""
    if meant := foreign_operator(text):
        return meant
    found = _FIRST.search(said)
    if found is None:
        return said.partition("\n")[0]
    line, column, fault = found.groups()
    for pattern, meaning in _MEANINGS:
        if matched := pattern.fullmatch(fault):
            fault = matched.expand(meaning)
            break
    where = f"character {column}" if line == "1" else f"line {line}, character {column}"
    return f"it can't be read as CEL, at {where}: {fault}"


def unknown_names(unknown: Collection[str], seen: Collection[str]) -> str:
    """Return what is told of names that a condition of a policy does not see; most are arguments without `args.`."""
    names = sorted(unknown)
    told = f"unknown name {', '.join(names)}: a condition sees {', '.join(sorted(seen))}"
    return f"{told}; did you mean {', '.join(_meant(name, seen) for name in names[:MAX_MEANT])}?"


def _meant(name: str, seen: Collection[str]) -> str:
    """Return a constant as CEL writes it, else in quotes what is seen and much like *name*, else an argument.

    A slip seldom changes the first letter, and `target` and `urgent` share most of the others with `agent`.
    """
    if constant := _CONSTANTS.get(name.lower()):
        return constant
    begin_alike = [one for one in seen if one[:1] == name[:1].lower()]
    return repr(nearest_name(name, begin_alike) or f"args.{name}")

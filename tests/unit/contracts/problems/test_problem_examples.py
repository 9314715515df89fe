"""Each problem code is explained by what leads to it, a message as the platform prints it, and what mends it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest
from tests.docs_site.code_blocks import command_lines
from tests.support.places import ROOT
from tests.unit.docs_site.test_code_blocks import parse

from towpath.cli.app import make_app
from towpath_contracts.problems.examples.problem_examples import EXAMPLES
from towpath_contracts.problems.registry import REGISTRY

ARROW = " → "
FEW, MOST = 5, 9
"""A text with fewer letters of its own than the first fits any message; up to the second it has to fit the whole."""


def test_each_code_has_a_remedy_a_cause_and_an_example() -> None:
    assert list(EXAMPLES.keys() ^ REGISTRY.keys()) == []
    for code, (cause, example) in EXAMPLES.items():
        assert REGISTRY[code].remedy, code
        assert len(cause) > 30 and cause.endswith("."), f"{code}: say how it comes about"
        assert example.count(ARROW) == 1, f"{code}: a message, {ARROW.strip()}, and what mends it"


def test_no_two_codes_are_explained_alike() -> None:
    for told in zip(*EXAMPLES.values(), strict=True):
        assert sorted(text for text in set(told) if told.count(text) > 1) == []


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_message_of_an_example_is_one_that_the_code_writes(code: str) -> None:
    message = EXAMPLES[code].example.partition(ARROW)[0].split("Its log (")[0]
    assert _written().have(message), f"{code}: nothing in libs or services says this"


def test_a_message_that_nobody_writes_is_told() -> None:
    assert not _written().have("the order has left the building")


def test_each_command_of_an_example_is_one_that_the_command_line_takes() -> None:
    app, wrong = make_app(), []
    for code, (cause, example) in EXAMPLES.items():
        prose, *quoted = re.split(r"`([^`]*)`", f"{cause} {example}")
        for command, more in zip(quoted[::2], quoted[1::2], strict=True):
            prose += more
            for words in command_lines(command):
                if words[0] != "towpath" or len(words) < 3:
                    continue
                try:
                    parse(app, words)
                except (Exception, SystemExit) as error:  # noqa: BLE001 - two parsers, each with exceptions of its own
                    wrong.append(f"{code}: {command}: {error}")
        if re.search(r"(?<![./\w])towpath [a-z]", prose):
            wrong.append(f"{code}: a command stands outside of backticks")
    assert wrong == [], "\n".join(wrong)


class Texts(NamedTuple):
    """Every text of the product that may be a message: those that are whole, and those that values are put into."""

    contained: frozenset[str]
    whole: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]

    def have(self, message: str) -> bool:
        """Return whether one of them says *message*, with anything where a value is put in."""
        if message in self.whole or any(text in message for text in self.contained):
            return True
        return any(pattern.search(message) for pattern in self.patterns)


@cache
def _written() -> Texts:
    contained, whole, patterns = set[str](), set[str](), set[str]()
    for folder in ("libs", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.parent.name == "examples":
                continue
            for parts in _texts(ast.parse(path.read_text("utf-8"))):
                short = len(re.findall("[a-z]", "".join(part for part in parts if part))) < MOST
                if None in parts:
                    text = "".join(".+?" if part is None else re.escape(part) for part in parts)
                    patterns.add(f"^{text}$" if short else text)
                else:
                    (whole if short else contained).add("".join(part for part in parts if part))
    compiled = tuple(re.compile(text, re.DOTALL) for text in patterns)  # of the whole texts it would take seconds
    return Texts(frozenset(contained), frozenset(whole), compiled)


def _texts(tree: ast.AST) -> Iterator[list[str | None]]:
    """Yield the parts of each text with words; None stands for a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else None for part in node.values]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = [node.value]
        else:
            continue
        own = "".join(part for part in parts if part)
        if " " in own and len(re.findall("[a-z]", own)) >= FEW:
            yield parts

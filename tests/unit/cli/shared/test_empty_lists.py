"""A list without rows says what to do next, in one line."""

import ast
import re

import pytest
from tests.support.places import ROOT

CLI = ROOT / "libs" / "towpath" / "cli"
Function = ast.AsyncFunctionDef | ast.FunctionDef


def listing() -> list[Function]:
    """Return the commands that are called `list`."""
    written = [path.read_text("utf-8") for path in sorted(CLI.rglob("*.py"))]
    trees = [ast.parse(text) for text in written if 'name="list"' in text]
    functions = [one for tree in trees for one in ast.walk(tree) if isinstance(one, Function)]
    return [one for one in functions if any("name='list'" in ast.unparse(given) for given in one.decorator_list)]


def hint_of(function: Function) -> str:
    """Return what the command says of a list without rows; empty where another function words it."""
    given = [
        ast.unparse(one.value) for one in ast.walk(function) if isinstance(one, ast.keyword) and one.arg == "empty"
    ]
    named = {
        ast.unparse(one.targets[0]): ast.unparse(one.value) for one in ast.walk(function) if isinstance(one, ast.Assign)
    }
    return " ".join(named.get(one, one) for one in given if one != "''" and not one.endswith(")"))


@pytest.mark.parametrize("function", listing(), ids=lambda one: one.name)
def test_a_list_without_rows_says_what_to_do_next(function: Function) -> None:
    hint = hint_of(function)
    assert not hint or re.search(r": towpath [a-z]+", hint), hint


def test_the_lists_are_found_with_what_they_say() -> None:
    assert sum(bool(hint_of(one)) for one in listing()) >= 8

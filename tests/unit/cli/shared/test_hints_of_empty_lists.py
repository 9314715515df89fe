"""Every command that the hint of an empty list names is there, with the options that stand behind it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.shared.test_output_schemas import options_of

import towpath.cli
from towpath.cli.app import make_app
from towpath_embedded.__main__ import app as embedded_app

_COMMAND = re.compile(r"\btowpath ([a-z][^;.,:)`]*)")


def hints() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every hint: the argument `empty`, with what it names in its module."""
    for path in sorted(Path(towpath.cli.__path__[0]).rglob("*.py")):
        written = path.read_text("utf-8")
        if "empty" not in written:  # parsing takes long, and every process of tests that collects this does it
            continue
        tree = ast.parse(written)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for given in (one.value for one in call.keywords if one.arg == "empty"):
                for text in texts(given, tree, set()):
                    yield f"{path.name}:{given.lineno}", text


def texts(node: ast.AST, tree: ast.Module, seen: set[str]) -> Iterator[str]:
    """Yield the texts in *node*, and those that the variables and functions of the module that it names hold."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and node.id not in seen:
        seen.add(node.id)
        for held in ast.walk(tree):
            if isinstance(held, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in held.targets):
                yield from texts(held.value, tree, seen)
            elif isinstance(held, ast.FunctionDef) and held.name == node.id:
                for returned in (one for one in ast.walk(held) if isinstance(one, ast.Return) and one.value):
                    yield from texts(returned, tree, seen)
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child, tree, seen)


def fault(said: str) -> str:
    """Return what is wrong with a command as a hint says it, without its first word; nothing where it can be called."""
    words, path = said.split(), list[str]()
    node = embedded_app if words[0] == "up" else make_app()
    while words and words[0] in node and not words[0].startswith("-"):
        path.append(words.pop(0))
        node = node[path[-1]]
    if not path or (not node.default_command and [name for name in node if not name.startswith("-")]):
        return f"no command: towpath {said}"
    missing = {word for word in words if word.startswith("--")} - {"--help"} - options_of(" ".join(path))
    return f"towpath {' '.join(path)} has no {', '.join(sorted(missing))}" if missing else ""


COMMANDS = sorted({(at, said.strip()) for at, text in hints() for said in _COMMAND.findall(text)})


def test_the_hints_of_many_lists_name_a_command() -> None:
    assert len(COMMANDS) >= 15
    assert {"gates list --status all", "worker MODULE"} <= {said for _, said in COMMANDS}


@pytest.mark.parametrize(("at", "said"), COMMANDS)
def test_the_command_of_a_hint_can_be_called_as_it_stands_there(at: str, said: str) -> None:
    assert fault(said) == "", at


@pytest.mark.parametrize("said", ["gates lst", "gates", "gates list --stats all", "upp"])
def test_a_command_that_is_not_there_is_found(said: str) -> None:
    assert fault(said)

"""The rules that no other tool holds: lengths, documented names, no stubs, no registry addresses (CONTRIBUTING.md)."""

import ast
import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.places import ROOT

FUNCTION_LINES = 70
FILE_LINES = 400
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
REGISTRIES = re.compile(
    r"pypi\." + r"org|pythonhosted\." + r"org|registry\.npmjs|docker\." + r"io|ghcr\." + r"io|quay\." + r"io"
    r"|gcr\." + r"io|proxy\.golang|crates\." + r"io|index-url|extra-index|find-links"
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def tracked() -> tuple[Path, ...]:
    """Return every file that belongs to the repository, or would with the next commit, and exists."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def modules(*folders: str) -> list[Path]:
    """Return the Python files below *folders*."""
    return [path for path in tracked() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders]


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Return every statement and block of a file; expressions hold no function or class with a name."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, name, ())


def place(path: Path, node: Function | ast.ClassDef) -> str:
    """Return where *node* is, for a person to click on."""
    return f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def public(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    """Return the public functions and classes of a module or class body, and those inside its classes."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def overloads(node: Function | ast.ClassDef) -> bool:
    """Return whether *node* only declares a signature or a rule whose promise stands elsewhere."""
    names = {ast.unparse(decorator).split("(")[0].rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"overload", "override"})


def does_nothing(node: Function) -> bool:
    """Return whether *node* consists of `pass`, `...` or NotImplementedError."""
    body = [part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    return all(isinstance(part, ast.Pass) or "NotImplementedError" in names(part) for part in body)


def names(part: ast.stmt) -> Iterator[str]:
    """Return the names in *part*."""
    return (node.id for node in ast.walk(part) if isinstance(node, ast.Name))


def protocol_methods(classes: list[ast.ClassDef]) -> set[int]:
    """Return the lines of methods that a Protocol declares, or an abstract class asks for."""
    protocols = [node for node in classes if any("Protocol" in ast.unparse(base) for base in node.bases)]
    asked = {part.lineno for node in protocols for part in node.body if isinstance(part, Function)}
    methods = [part for node in classes for part in node.body if isinstance(part, Function)]
    return asked | {part.lineno for part in methods if "abstractmethod" in map(ast.unparse, part.decorator_list)}


class Findings(NamedTuple):
    """What the rules find in one file."""

    long: list[str]
    undocumented: list[str]
    pretending: list[str]


@functools.cache
def findings(path: Path) -> Findings:
    """Return what a file breaks; its tree, which is large, is not kept."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    parts = list(statements(tree))
    functions = [node for node in parts if isinstance(node, Function)]
    declared = protocol_methods([node for node in parts if isinstance(node, ast.ClassDef)])
    lengths = [(node, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
    # Where no name says so, a function that ends with another statement than `pass` or `...` does something.
    has_stubs = "NotImplementedError" in text
    bare = [] if ast.get_docstring(tree) is not None else [str(path.relative_to(ROOT))]
    if path.is_relative_to(ROOT / "libs" / "towpath"):
        bare += [place(path, n) for n in public(tree.body) if ast.get_docstring(n) is None and not overloads(n)]
    return Findings(
        long=[f"{place(path, node)}: {lines} lines" for node, lines in lengths if lines > FUNCTION_LINES],
        undocumented=bare,
        pretending=[
            place(path, node)
            for node in functions
            if (has_stubs or isinstance(node.body[-1], ast.Pass | ast.Expr))
            and does_nothing(node)
            and node.lineno not in declared
            and not overloads(node)
        ],
    )


CODE = ("libs", "services", "tests", "bench", "examples", "deploy", "docs")


def test_no_function_is_longer_than_a_screen() -> None:
    assert [found for path in modules(*CODE) for found in findings(path).long] == []


def test_no_file_is_longer_than_its_limit() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in modules(*CODE)}
    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES} == {}


def test_module_heads_and_the_public_sdk_are_documented() -> None:
    assert [found for path in modules("libs", "services") for found in findings(path).undocumented] == []


def test_no_function_only_pretends() -> None:
    checked = modules("libs", "services", "examples", "bench")
    assert [found for path in checked for found in findings(path).pretending] == []


def test_nothing_is_left_unfinished() -> None:
    left = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}"
        for path in modules(*CODE)
        if UNFINISHED.search(text := path.read_text("utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert left == []


def test_no_file_names_a_package_registry() -> None:
    named = []
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a binary file names nothing that a tool would read
        if path != Path(__file__) and REGISTRIES.search(text):
            named.append(str(path.relative_to(ROOT)))
    assert named == []


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("def f():\n    '''Say.'''\n    pass", True),
        ("def f():\n    ...", True),
        ("def f():\n    return 1", False),
        ("def f():\n    if g():\n        raise NotImplementedError", True),
        ("def f():\n    raise NotImplementedError('later')", True),
        ("def f():\n    raise ValueError('later')", False),
    ],
)
def test_the_rule_against_pretending_knows_a_stub(source: str, verdict: bool) -> None:
    (node,) = (part for part in ast.walk(ast.parse(source)) if isinstance(part, Function))
    assert does_nothing(node) is verdict

"""Finds the source of a symbol: a definition in a package, a named SQL statement, or a file of the deployment.

`PACKAGE:NAME` is a function, class or variable of any module of the package (`Class.method` for what is inside a
class), or a statement of any of its SQL files. A name without a package is that of a file that is no Python, wherever
it is. All modules are searched, because where code stands is what changes most often.
"""

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT

_PRODUCT = ("libs", "services")
_DOCUMENTS = (*_PRODUCT, "deploy")
"""Where files that are no Python are searched, beside the root itself."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SUGGESTIONS = 5


class MutationError(Exception):
    """A mutation can't be made: its symbol or its code is not there, or more than once."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A definition in a module; `node` is a part of `tree`, the whole module."""

    path: Path
    tree: ast.Module
    node: ast.stmt


@dataclass(frozen=True, kw_only=True)
class TextBlock:
    """A part of a file that is no Python."""

    path: Path
    start: int
    end: int


def find(symbol: str, root: Path = ROOT) -> list[Definition] | list[TextBlock]:
    """Return what *symbol* names below *root*: at least one place; raises MutationError where there is none.

    There are several where modules of one package define the same name.
    """
    package, colon, name = symbol.partition(":")
    if not colon:
        return _documents(symbol, root)
    folder = _folder(package, root)
    definitions = list(_definitions(folder, name))
    statements = [] if definitions else list(_statements(folder, name))
    if not definitions and not statements:
        raise MutationError(f"{package} has no {name}{_hint(name, folder, root)}")
    return definitions or statements


def _folder(package: str, root: Path) -> Path:
    for part in _PRODUCT:
        if (root / part / package / "__init__.py").is_file():
            return root / part / package
    raise MutationError(f"{package} is no package of the product")


def _documents(name: str, root: Path) -> list[TextBlock]:
    below = (path for part in _DOCUMENTS for path in (root / part).rglob(name))
    found = [path for path in (root / name, *below) if path.is_file()]
    if len(found) != 1 or found[0].suffix == ".py":
        raise MutationError(f"{name} is the name of {len(found)} files that are no Python, not of one")
    return [TextBlock(path=found[0], start=0, end=len(found[0].read_text("utf-8")))]


def _definitions(folder: Path, name: str) -> Iterator[Definition]:
    parts = name.split(".")
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text("utf-8")
        if all(part in source for part in parts):  # parsing is what costs
            tree = ast.parse(source)
            yield from (Definition(path=path, tree=tree, node=node) for node in _named(tree.body, parts))


def _named(body: list[ast.stmt], parts: list[str]) -> Iterator[ast.stmt]:
    first, *rest = parts
    for node in statements_of(body):
        if first not in _names(node):
            continue
        if not rest:
            yield node
        elif isinstance(node, _SCOPES):
            yield from _named(node.body, rest)


def statements_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Return the statements of *body* and of the compound statements in it, but not those of functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, _SCOPES):
            for field in ("body", "orelse", "finalbody"):
                yield from statements_of(getattr(node, field, []))
            for handler in getattr(node, "handlers", []):
                yield from statements_of(handler.body)


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def _statements(folder: Path, name: str) -> Iterator[TextBlock]:
    pattern = re.compile(rf"^-- name: {re.escape(name)}\n.*?(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)
    for path in sorted(folder.rglob("*.sql")):
        for block in pattern.finditer(path.read_text("utf-8")):
            yield TextBlock(path=path, start=block.start(), end=block.end())


def _hint(name: str, folder: Path, root: Path) -> str:
    """Name the packages that *name* may have moved to, or names like it in its own package."""
    packages = [path.parent for part in _PRODUCT for path in sorted((root / part).glob("*/__init__.py"))]
    elsewhere = [package.name for package in packages if any(_definitions(package, name))]
    if elsewhere:
        return f"; it is in {' and '.join(elsewhere)}"
    known = {found for path in folder.rglob("*.py") for found in _qualified(ast.parse(path.read_text("utf-8")).body)}
    similar = difflib.get_close_matches(name, sorted(known), n=_SUGGESTIONS)
    return f"; it has {', '.join(similar)}" if similar else ""


def _qualified(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in statements_of(body):
        for name in _names(node):
            yield prefix + name
            if isinstance(node, ast.ClassDef):
                yield from _qualified(node.body, f"{prefix}{name}.")

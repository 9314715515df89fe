"""Makes a mutation, a small wrong change of the product that tests have to notice.

A mutation names a symbol and never a file or a module, so code can move within its package, and be formatted anew.

`old` is compared by syntax tree, so its formatting and comments don't matter, and it has to occur exactly once in what
the symbol names; otherwise nothing is changed and the error says where it occurs. A mutation of other code than was
meant would make "the tests notice it" true of nothing.
"""

import ast
import itertools
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from tests.mutation.symbols import ROOT, Definition, MutationError, TextBlock, find


class Mutation(BaseModel):
    """In *symbol* the code *old* becomes *new*.

    Both are an expression, both a keyword argument (`name=value`), or both statements; an empty *new* removes the
    statements. With *text* they are a part of a string constant. In SQL statements, and in files that are no Python,
    they are a part of the text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: Annotated[str, Field(min_length=1)]
    old: Annotated[str, Field(min_length=1)]
    new: str
    text: bool = False


@dataclass(frozen=True, kw_only=True)
class MutatedFile:
    """A file with its mutation: the tree of a module, with the line numbers of the file as it is, or any other text."""

    path: Path
    content: ast.Module | str

    @property
    def source(self) -> str:
        """What to write to the file."""
        return self.content if isinstance(self.content, str) else f"{ast.unparse(self.content)}\n"


def mutated_file(mutation: Mutation, root: Path = ROOT) -> MutatedFile:
    """Return the file that *mutation* changes, with the change; raises MutationError where it can't be made."""
    places = [(place, edit) for place in find(mutation.symbol, root) for edit in _edits(place, mutation)]
    if len(places) != 1:
        where = ", ".join(sorted({str(place.path.relative_to(root)) for place, _ in places}))
        found = f"{len(places)} times ({where})" if places else "nowhere"
        raise MutationError(f"{mutation.symbol} has {mutation.old!r} {found}, not once")
    [(_, edit)] = places
    return edit()


def printed(path: Path) -> str:
    """Return what *path* holds as mutated files are written, from the syntax tree: the mutation is all that differs."""
    source = path.read_text("utf-8")
    return f"{ast.unparse(ast.parse(source))}\n" if path.suffix == ".py" else source


Node = TypeVar("Node", bound=ast.AST)
Edit = Callable[[], MutatedFile]
Slot = tuple[ast.AST, Callable[[ast.AST], None]]
"""A node and what puts another one in its place."""


def _edits(place: Definition | TextBlock, mutation: Mutation) -> Iterator[Edit]:
    if mutation.old == mutation.new:
        raise MutationError(f"the mutation of {mutation.symbol} changes nothing")
    if isinstance(place, TextBlock):
        yield from _text_edits(place, mutation)
        return
    for change in _tree_changes(place.node, mutation):
        yield partial(_changed, place, change)


def _changed(place: Definition, change: Callable[[], None]) -> MutatedFile:
    change()
    return MutatedFile(path=place.path, content=place.tree)


def _text_edits(place: TextBlock, mutation: Mutation) -> Iterator[Edit]:
    whole = place.path.read_text("utf-8")
    start = whole.find(mutation.old, place.start, place.end)
    while start != -1:
        changed = whole[:start] + mutation.new + whole[start + len(mutation.old) :]
        yield partial(MutatedFile, path=place.path, content=changed)
        start = whole.find(mutation.old, start + 1, place.end)


def _tree_changes(definition: ast.stmt, mutation: Mutation) -> Iterator[Callable[[], None]]:
    if mutation.text:
        return _constant_changes(definition, mutation)
    old, new = _expression(mutation.old), _expression(mutation.new)
    if old is not None and new is not None:
        if ast.dump(old) == ast.dump(new):
            raise MutationError(f"the mutation of {mutation.symbol} changes nothing")
        return _expression_changes(definition, old, new)
    return itertools.chain(
        _keyword_changes(definition, mutation.old, mutation.new),
        _statement_changes(definition, _statements(mutation.old), _statements(mutation.new)),
    )


def _constant_changes(definition: ast.stmt, mutation: Mutation) -> Iterator[Callable[[], None]]:
    docstrings = {id(node.value) for node in ast.walk(definition) if isinstance(node, ast.Expr)}
    for node in ast.walk(definition):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            changed = node.value.replace(mutation.old, mutation.new)
            for _ in range(node.value.count(mutation.old)):
                yield partial(setattr, node, "value", changed)


def _expression_changes(definition: ast.stmt, old: ast.expr, new: ast.expr) -> Iterator[Callable[[], None]]:
    wanted = ast.dump(old)
    for node, put in _expressions(definition):
        if ast.dump(node) == wanted:
            yield partial(put, _located(new, node))


def _expressions(definition: ast.stmt) -> Iterator[Slot]:
    for parent in ast.walk(definition):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.expr):
                yield value, partial(setattr, parent, field)
            elif isinstance(value, list):
                for index, one in enumerate(value):
                    if isinstance(one, ast.expr):
                        yield one, partial(value.__setitem__, index)


def _keyword_changes(definition: ast.stmt, old: str, new: str) -> Iterator[Callable[[], None]]:
    match _expression(f"f({old})"), _expression(f"f({new})"):
        case ast.Call(args=[], keywords=[wanted]), ast.Call(args=[], keywords=[made]):
            for node in ast.walk(definition):
                if isinstance(node, ast.keyword) and ast.dump(node) == ast.dump(wanted):
                    yield partial(vars(node).update, vars(_located(made, node)))


def _statement_changes(definition: ast.stmt, old: list[ast.stmt], new: list[ast.stmt]) -> Iterator[Callable[[], None]]:
    wanted = [ast.dump(one) for one in old]
    for parent in ast.walk(definition):
        for _field, body in ast.iter_fields(parent):
            if not (isinstance(body, list) and body and isinstance(body[0], ast.stmt)):
                continue
            for start in range(len(body) - len(old) + 1):
                if [ast.dump(one) for one in body[start : start + len(old)]] == wanted:
                    yield partial(_replace, body, start, len(old), new)


def _replace(body: list[ast.stmt], start: int, count: int, new: list[ast.stmt]) -> None:
    made = [_located(one, body[start]) for one in new]
    alone = not made and count == len(body)
    body[start : start + count] = [ast.copy_location(ast.Pass(), body[start])] if alone else made


def _located(new: Node, old: ast.AST) -> Node:
    """Give *new* the line of *old*, since a compiled tree needs lines, and tracebacks show them."""
    for node in ast.walk(new):
        if "lineno" in node._attributes:
            ast.copy_location(node, old)
    return new


def _expression(code: str) -> ast.expr | None:
    try:
        return ast.parse(code.strip(), mode="eval").body
    except SyntaxError:
        return None


def _statements(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(textwrap.dedent(code)).body
    except SyntaxError as error:
        raise MutationError(f"{code!r} is no Python: {error}") from error

"""Which unit tests could notice a value: files that import its module, the nearest first.

Near is who names it (the variable; or the class and the field; or a function that uses the variable), who imports its
module itself, and whose place in the tree mirrors it.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.mutation.values.import_graph import ImportGraph
from tests.mutation.values.inventory import Value, module_name
from tests.support.places import ROOT

READERS = "tests/unit/limits"
"""Tests that compare values with what is checked in, or told to users, each value in a test of its own."""

FILES = 3
"""For one value; what these don't notice is tried with all unit tests, many values at once."""

SECONDS = 6.0
"""That the tests of one value may take together, as they took without a mutation."""


@dataclass(frozen=True)
class UnitTests:
    """The files of unit tests, what they hold and need, and how long each takes."""

    graph: ImportGraph
    seconds: Mapping[str, float]
    root: Path = ROOT

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """Return the files by the names of their modules, but those that all values are tried with anyway."""
        found = sorted((self.root / "tests/unit").rglob("test_*.py"))
        return {module_name(path, self.root): path for path in found if not path.is_relative_to(self.root / READERS)}

    @cached_property
    def _words(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(re.findall(r"\w+", path.read_text("utf-8"))) for name, path in self.files.items()}

    @cached_property
    def _distances(self) -> Mapping[str, Mapping[str, int]]:
        return {name: self.graph.distances(name) for name in self.files}

    def readers_of(self, value: Value) -> list[str]:
        """Return the tests that compare values and name this one."""
        module, name = value.module.rpartition(".")[2], value.words[-1].partition("[")[0]
        found: list[str] = []
        for path in sorted((self.root / READERS).glob("test_*.py")):
            words = set(re.findall(r"\w+", path.read_text("utf-8")))
            named = name in words and (module in words or value.words[0] in words)
            if named and value.module in self.graph.distances(module_name(path, self.root)):
                found.append(str(path.relative_to(self.root)))
        return found

    def place(self, name: str) -> str:
        """Return what pytest is given for a file."""
        return str(self.files[name].relative_to(self.root))

    def of(self, value: Value, users: Sequence[str] = ()) -> list[str]:
        """Return the places of the nearest files, the nearest first; *users* are functions that use the value."""
        ranked = sorted(self._ranked(value, users), key=lambda pair: (-pair[0], pair[1]))
        chosen: list[str] = []
        left = SECONDS
        for _, name in ranked:
            took = self.seconds.get(self.place(name), 0.0)
            if len(chosen) < FILES and took <= left:
                chosen.append(self.place(name))
                left -= took
        return chosen

    def _ranked(self, value: Value, users: Sequence[str]) -> Iterator[tuple[float, str]]:
        path = set(re.split(r"[._]", value.module)) - {"towpath"}
        for name in self.files:
            distance = self._distances[name].get(value.module)
            if distance is None:
                continue
            words = self._words[name]
            named = sum(word in words for word in value.words) / len(value.words)
            used = any(user in words for user in users)
            alike = len(path & set(re.split(r"[._]", name))) / (len(path) or 1)
            yield 4 * named + 2 * used + 2 * (distance == 1) + alike + 1 / distance, name


def users_of(values: Sequence[Value]) -> Mapping[str, tuple[str, ...]]:
    """Return, by the names of *values* of one module, the functions and classes of it that use each variable."""
    if not values:
        return {}
    tree = ast.parse(values[0].path.read_bytes())
    held = {
        node.name: {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    return {
        value.name: tuple(name for name, names in held.items() if value.owner.partition("[")[0] in names)
        for value in values
    }

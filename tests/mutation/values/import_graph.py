"""Which modules of the product and of the tests import which, by syntax tree, also those that a function imports late.

Importing a module imports the packages that it is in, so these are among its imports.
"""

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.mutation.values.inventory import module_name, product_files
from tests.support.places import ROOT

from towpath_fabric import garbage_collector


@dataclass(frozen=True)
class ImportGraph:
    """The imports of each module, by names; `files` has where each module is."""

    files: Mapping[str, Path]
    imports: Mapping[str, frozenset[str]]
    others: frozenset[str]
    """What the product imports at once of other packages."""

    @cached_property
    def _importers(self) -> Mapping[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in self.imports}
        for name, imported in self.imports.items():
            for one in imported:
                found[one].add(name)
        return found

    def distances(self, start: str) -> dict[str, int]:
        """Return how many imports lead from *start* to each module that it needs."""
        return _reached([start], self.imports)

    def needed(self, starts: Iterable[str]) -> set[str]:
        """Return what importing *starts* imports, themselves among it."""
        return set(_reached(starts, self.imports))

    def dependents(self, starts: Iterable[str]) -> set[str]:
        """Return what has to be imported anew when *starts* have changed, themselves among it."""
        return set(_reached(starts, self._importers))


def _reached(starts: Iterable[str], edges: Mapping[str, Iterable[str]]) -> dict[str, int]:
    found = dict.fromkeys(starts, 0)
    waiting = deque(found)
    while waiting:
        name = waiting.popleft()
        for one in edges.get(name, ()):
            if one not in found:
                found[one] = found[name] + 1
                waiting.append(one)
    return found


def read_graph(root: Path = ROOT) -> ImportGraph:
    """Read every module of the product and of the tests once."""
    files = {module_name(path, root): path for path in [*product_files(root), *sorted((root / "tests").rglob("*.py"))]}
    own = {name.partition(".")[0] for name in files}
    imports: dict[str, frozenset[str]] = {}
    others: set[str] = set()
    with garbage_collector.paused():
        for name, path in files.items():
            tree = ast.parse(path.read_bytes())
            imports[name] = frozenset(_known(_imported(tree), name, files))
            if not name.startswith("tests"):
                others |= {one for node in tree.body for one in _imported(node) if one.partition(".")[0] not in own}
    return ImportGraph(files, imports, frozenset(others))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)


def _known(names: Iterable[str], own: str, files: Mapping[str, Path]) -> Iterator[str]:
    for name in (*names, own):
        parts = name.split(".")
        packages = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        yield from (one for one in packages if one in files and one != own)

"""The rules of the layout that no other tool holds: folders, names, citations, small modules (CONTRIBUTING.md)."""

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.support.places import ROOT
from tests.unit.repository.test_house_rules import modules, statements, tracked

FOLDER_MODULES = 20
SMALL_LINES = 60
ROOT_MODULES = {"__init__", "__main__", "wiring", "settings", "metrics"}
"""Modules that every service may have; they are small where there is little to say."""

ANATOMY = ROOT_MODULES | {"app", "adapters", "core", "migrations"}
FIELD_TERMS = {
    *("accounting", "binding", "housekeeping", "matching", "routing", "streaming", "testing", "tracing", "wiring"),
}
"""Nouns of the field that end like participles."""

TOP_LEVEL = {
    *("services", "libs", "clients", "deploy", "tests", "bench", "docs", "examples"),
    *("pyproject.toml", "Tiltfile", "justfile", "LICENSE"),
    *("README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
}

SAME_ROOMS = {"towpath_engine"}
"""The engine has the same rooms on every storey (state, reducers, rules, handlers), so names recur there on purpose."""

CITED_OUTSIDE = re.compile(
    r"(?<!RFC )§"
    r"|\bdesign §|\bfeatures? [A-F]\d|\([A-F]\d{1,2}(?:, [A-F]\d{1,2})*\)|\bbehaviours \d|\bsource design\b"
    r"|\b(?:facts|experience|reliability|redesign|behaviours)\.md §"
)


class ProductModule(NamedTuple):
    """What the rules look at of one module of the product."""

    path: Path
    name: str
    lines: int
    classes: tuple[str, ...]
    imports: tuple[str, ...]


def dotted(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts[1:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def product() -> tuple[ProductModule, ...]:
    """Read every module of the product once; no tree is kept."""
    found = []
    for path in modules("libs", "services"):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        imports = [
            f"{node.module}.{alias.name}"
            for node in statements(tree)
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("towpath")
            for alias in node.names
        ]
        classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
        found.append(ProductModule(path, dotted(path), len(text.splitlines()), classes, tuple(imports)))
    return tuple(found)


def importers() -> dict[str, set[str]]:
    """Return which modules of the product import each module of it."""
    known = {module.name for module in product()}
    found: dict[str, set[str]] = defaultdict(set)
    for module in product():
        for name in module.imports:
            target = name if name in known else name.rpartition(".")[0]
            found[target].add(module.name)
    return found


def test_a_folder_holds_at_most_twenty_modules() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for path in modules("libs", "services", "tests", "bench"):
        if path.name != "__init__.py":
            sizes[str(path.parent.relative_to(ROOT))] += 1
    assert {folder: size for folder, size in sizes.items() if size > FOLDER_MODULES} == {}


def test_a_module_is_named_by_a_noun() -> None:
    names = sorted(module.name for module in product())
    assert [n for n in names if n.endswith("ing") and re.split(r"[._]", n)[-1] not in FIELD_TERMS] == []


def test_no_two_modules_of_a_package_have_the_same_name() -> None:
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in product():
        package = module.name.split(".")[0]
        if module.path.stem not in ROOT_MODULES and package not in SAME_ROOMS:
            seen[package, module.path.stem].append(module.name)
    assert {name: found for name, found in seen.items() if len(found) > 1} == {}


def test_a_class_name_means_one_thing() -> None:
    seen: dict[str, list[str]] = defaultdict(list)
    for module in product():
        for name in module.classes:
            if not name.startswith("_"):
                seen[name].append(module.name)
    assert {name: found for name, found in seen.items() if len(found) > 1} == {}


def test_nothing_lies_about_at_the_top() -> None:
    top = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert {name for name in top if not name.startswith(".")} - TOP_LEVEL == set()


def test_every_service_has_the_same_anatomy() -> None:
    odd = {
        f"{path.name}/{part.name}"
        for path in (ROOT / "services").iterdir()
        if (path / "__init__.py").is_file()
        for part in path.iterdir()
        if part.name not in {"__pycache__", "py.typed"} and part.stem not in ANATOMY
    }
    assert odd == set()


def test_a_small_module_has_two_importers() -> None:
    by = importers()
    lonely = [
        f"{module.name}: {module.lines} lines, imported by {', '.join(by[module.name])}"
        for module in product()
        if module.path.stem not in ROOT_MODULES
        and module.lines < SMALL_LINES
        and len(by[module.name]) == 1
        and not module.name.startswith(tuple(SMALL_ON_PURPOSE))
    ]
    assert lonely == []


def test_nothing_outside_the_repository_is_cited() -> None:
    cited = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:100]}"
        for path in tracked()
        if path.suffix in {".py", ".sql", ".md", ".toml", ".yaml"} and path != Path(__file__)
        if CITED_OUTSIDE.search(text := path.read_text("utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if CITED_OUTSIDE.search(line)
    ]
    assert cited == []


SMALL_ON_PURPOSE = {
    "towpath.cli.shared.command_client": "imports the client, for which a command that asks no platform need not pay",
    "towpath_console": "one module a page, and a drawing",
    "towpath_contracts.events": "one module a group of events; `log` has their union",
    "towpath_contracts.problems": "rows of the registry, by subject",
    "towpath_embedded.chaos.replays": "asks the orchestrator, while the judge beside it reads tables only",
    "towpath_embedded.pending_runs": "a question to the database, apart from the supervisor that asks it",
    "towpath_engine.handlers": "one module a fact or a kind of run; `advance` and `run_kinds` list them",
    "towpath_engine.rules": "rules that read untrusted input stand alone, where their bounds are seen",
    "towpath_gateway.app": "one module a noun of the HTTP API",
    "towpath_gateway.core": "pure parts of the HTTP API",
    "towpath_watchdog.core": "one module a kind of finding",
}
"""Families of small modules, and why each member stands apart."""


def test_the_product_imports_no_test() -> None:
    found = {
        module.name
        for module in product()
        if re.search(r"^\s*(?:from|import) tests\b", module.path.read_text("utf-8"), re.MULTILINE)
    }
    assert found == set()

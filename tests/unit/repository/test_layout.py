"""The rules of the layout that no other tool holds: folders, names, citations, small modules (CONTRIBUTING.md)."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.support.places import ROOT
from tests.unit.repository.test_house_rules import modules, parsed, tracked

FOLDER_MODULES = 20
SMALL_LINES = 60
ROOT_MODULES = {"__init__", "__main__", "wiring", "settings", "metrics"}
"""Modules that every service may have; they are small where there is little to say."""

ANATOMY = ROOT_MODULES | {"app", "adapters", "core", "migrations"}
FIELD_TERMS = {
    *("accounting", "binding", "housekeeping", "matching", "routing", "streaming", "testing", "tracing", "wiring"),
}
"""Nouns of the field that end like participles."""

SAME_ROOMS = {"towpath_engine"}
"""The engine has the same rooms on every storey (state, reducers, rules, handlers), so names recur there on purpose."""

CITED_OUTSIDE = re.compile(
    r"(?<!RFC )§"
    r"|\bdesign §|\bfeatures? [A-F]\d|\([A-F]\d{1,2}(?:, [A-F]\d{1,2})*\)|\bbehaviours \d|\bsource design\b"
    r"|\b(?:facts|experience|reliability|redesign|behaviours)\.md §"
)


def packages() -> list[Path]:
    return [path for path in modules("libs", "services") if path.name == "__init__.py" and len(path.parents) >= 2]


def dotted(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts[1:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers() -> dict[str, set[str]]:
    """Return which modules of the product import each module of it."""
    known = {dotted(path) for path in modules("libs", "services")}
    found: dict[str, set[str]] = defaultdict(set)
    for path in modules("libs", "services"):
        for node in ast.walk(parsed(path)):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                target = name if name in known else name.rpartition(".")[0]
                if target in known:
                    found[target].add(dotted(path))
    return found


def test_a_folder_holds_at_most_twenty_modules() -> None:
    sizes: dict[str, int] = defaultdict(int)
    for path in modules("libs", "services", "tests", "bench"):
        if path.name != "__init__.py":
            sizes[str(path.parent.relative_to(ROOT))] += 1
    assert {folder: size for folder, size in sizes.items() if size > FOLDER_MODULES} == {}


def test_a_module_is_named_by_a_noun() -> None:
    stems = {dotted(path) for path in modules("libs", "services")}
    assert [n for n in sorted(stems) if n.endswith("ing") and re.split(r"[._]", n)[-1] not in FIELD_TERMS] == []


def test_no_two_modules_of_a_package_have_the_same_name() -> None:
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in modules("libs", "services"):
        package = dotted(path).split(".")[0]
        if path.stem not in ROOT_MODULES and package not in SAME_ROOMS:
            seen[package, path.stem].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in seen.items() if len(paths) > 1} == {}


def test_a_class_name_means_one_thing() -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for path in modules("libs", "services"):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                seen[node.name].add(dotted(path))
    assert {name: sorted(places) for name, places in seen.items() if len(places) > 1} == {}


def test_every_service_has_the_same_anatomy() -> None:
    odd = {
        f"{path.name}/{part.name}"
        for path in (ROOT / "services").iterdir()
        if (path / "__init__.py").is_file()
        for part in path.iterdir()
        if part.name != "__pycache__" and part.stem not in ANATOMY
    }
    assert odd == set()


def test_a_small_module_has_two_importers() -> None:
    by = importers()
    lonely = [
        f"{dotted(path)}: {lines} lines, imported by {', '.join(by[dotted(path)])}"
        for path in modules("libs", "services")
        if path.stem not in ROOT_MODULES
        and (lines := len(path.read_text("utf-8").splitlines())) < SMALL_LINES
        and len(by.get(dotted(path), ())) == 1
        and dotted(path) not in SMALL_ON_PURPOSE
    ]
    assert lonely == []


def test_nothing_outside_the_repository_is_cited() -> None:
    cited = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:100]}"
        for path in tracked()
        if path.suffix in {".py", ".sql", ".md", ".toml", ".yaml"} and path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if CITED_OUTSIDE.search(line)
    ]
    assert cited == []


SMALL_ON_PURPOSE: dict[str, str] = {}
"""Small modules with one importer, each with the reason why it stands apart."""

"""Finds the tests of a project: Python files for pytest, and YAML files that say that they are tests."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_KIND = re.compile(r"^kind:\s*['\"]?(PolicyTest|Evaluation)\b", re.MULTILINE)
_LEFT_OUT = frozenset({"node_modules", "venv", "__pycache__", "build", "dist"})
MAX_BYTES = 4_000_000


def yaml_tests(place: Path) -> dict[Path, str]:
    """Return the YAML tests at or below *place*, with the kind of each."""
    found = {path: _kind_of(path) for path in _files(place) if path.suffix in {".yaml", ".yml"}}
    return {path: kind for path, kind in found.items() if kind}


def has_python_tests(place: Path) -> bool:
    """Return whether pytest would find something at or below *place*, by its usual names of files."""
    return any(
        path.suffix == ".py" and (place.is_file() or path.name.startswith("test_") or path.stem.endswith("_test"))
        for path in _files(place)
    )


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for folder, inner, names in os.walk(place):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in _LEFT_OUT)
        yield from (Path(folder, name) for name in sorted(names))


def _kind_of(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            return ""
        found = _KIND.search(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
    return found[1] if found is not None else ""

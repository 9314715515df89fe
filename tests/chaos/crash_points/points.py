"""Lists the crash points of the code, and arms them.

The list is read from the sources and from nowhere else, without importing a service. So a new point is part of the next
sweep, and one that nothing reaches makes the sweep fail.
"""

import ast
import importlib.util
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

from towpath_fabric.crash_points import HITS

PACKAGES: Final = {
    "towpath_orchestrator": "orchestrator",
    "towpath_tas": "tas",
    "towpath_worker": "worker",
    "towpath": "worker",
    "towpath_decider": "decider",
    "towpath_log_writer": "log_writer",
    "towpath_gateway": "gateway",
}
"""Whose sources are read, and the role in whose processes they run; the SDK's points are those of the tool worker."""

_CALLS: Final = frozenset({"crash_point", "crash_point_after_flush"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """One place: `name` is `<role>.<place>`. A `sent` point kills once the broker has what was sent before it."""

    name: str
    role: str
    file: Path
    line: int
    sent: bool

    @property
    def owner(self) -> str:
        """The role that the name begins with; it has to be the one whose code this is."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPointHit:
    """A kill that took place."""

    name: str
    pid: int


def list_points() -> tuple[CrashPoint, ...]:
    """Return every point of the installed packages, in the order of roles, files and lines; LookupError without one.

    Raises ValueError where a name is not written as a literal: then it could not be listed.
    """
    return tuple(
        point
        for package, role in PACKAGES.items()
        for file in sorted(_folder(package).rglob("*.py"))
        for point in sorted(_points_of(file, role), key=attrgetter("line"))
    )


def naming_problems(found: Iterable[CrashPoint]) -> list[str]:
    """Describe what is wrong with the names: used twice, or of another role than the code."""
    seen = list(found)
    count = Counter(point.name for point in seen)
    wrong = [f"{name} stands in {times} places" for name, times in count.items() if times > 1]
    return wrong + [
        f"{point.name} stands in {point.file}:{point.line}, which runs as {point.role}"
        for point in seen
        if point.owner != point.role
    ]


def arm(folder: Path, name: str, nth: int = 1) -> None:
    """Have the *nth* passing of the point *name* from now on, in any process whose setting names *folder*, kill it."""
    waiting = folder / f".{name}.armed"
    waiting.write_text(str(nth))
    waiting.rename(folder / name)


def disarm(folder: Path, name: str) -> bool:
    """Take the point back; False where it was hit meanwhile."""
    try:
        (folder / name).unlink()
    except FileNotFoundError:
        return False
    return True


def is_armed(folder: Path, name: str) -> bool:
    """Return whether the point still waits for its passing."""
    return (folder / name).exists()


def hits(folder: Path) -> tuple[CrashPointHit, ...]:
    """Return every kill in *folder* so far, oldest first."""
    try:
        lines = (folder / HITS).read_text().splitlines()
    except FileNotFoundError:
        return ()
    return tuple(CrashPointHit(name=name, pid=int(pid)) for name, pid in (line.split() for line in lines))


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LookupError(f"the package {package} is not installed")
    return Path(spec.origin).parent


def _points_of(file: Path, role: str) -> Iterator[CrashPoint]:
    text = file.read_text("utf-8")
    if "crash_point" not in text:
        return
    for node in ast.walk(ast.parse(text, str(file))):
        if isinstance(node, ast.Call) and (called := _called(node)) in _CALLS:
            yield CrashPoint(
                name=_literal(node, file), role=role, file=file, line=node.lineno, sent=called != "crash_point"
            )


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def _literal(node: ast.Call, file: Path) -> str:
    match node.args:
        case [ast.Constant(value=str(name))]:
            return name
        case _:
            raise ValueError(f"{file}:{node.lineno}: a crash point's name is one literal")

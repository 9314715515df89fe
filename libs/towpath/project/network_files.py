"""The networks of a project by their names, whether they lie in a folder or in one file."""

from pathlib import Path
from typing import Any

from towpath.project.project_file import ProjectFile
from towpath.project.yaml_insertion import parse_yaml
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.problems.registry import ProblemError, problem


def network_place(project: ProjectFile) -> Path:
    """Return where the networks of *project* lie, or would."""
    return project.networks or Path("networks")


def find_network(folder: Path, project: ProjectFile, wanted: str, remedy: str) -> Path:
    """Return the file of the network *wanted* of the project in *folder*; without a name of the only one.

    Raises ProblemError `not_found` with those that there are, and with *remedy*.
    """
    place = network_place(project)
    inside = folder / place
    found = [inside] if inside.is_file() else sorted([*inside.glob("*.yaml"), *inside.glob("*.yml")])
    names = {_network_name(path): path for path in found}
    if not wanted and len(names) == 1:
        return next(iter(names.values()))
    if wanted not in names:
        there = f"in {place} there are {', '.join(names)}" if names else f"in {place} there is none"
        meant = suggest_name(wanted, names)
        detail = f"no network is called {wanted!r}; {there}{meant}" if wanted else f"which network? {there}"
        raise ProblemError(problem("not_found", detail, remedy=remedy))
    return names[wanted]


def _network_name(path: Path) -> str:
    written: Any = parse_yaml(path.read_text("utf-8"), path)
    return str(written.get("name", path.stem)) if isinstance(written, dict) else path.stem

"""The networks of a project by their names, whether they lie in a folder or in one file."""

from pathlib import Path
from typing import TypeGuard

from towpath.project.project_file import ProjectFile
from towpath.project.yaml_insertion import parse_yaml
from towpath_contracts.base import JsonObject
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
    written = {path: parse_yaml(path.read_text("utf-8"), path) for path in network_files(folder / place)}
    names = {str(one.get("name", path.stem)): path for path, one in written.items() if has_network(one)}
    if not wanted and len(names) == 1:
        return next(iter(names.values()))
    if wanted not in names:
        there = f"in {place} there are {', '.join(names)}" if names else f"in {place} there is none"
        meant = suggest_name(wanted, names)
        detail = f"no network is called {wanted!r}; {there}{meant}" if wanted else f"which network? {there}"
        raise ProblemError(problem("not_found", detail, remedy=remedy))
    return names[wanted]


def network_files(place: Path) -> list[Path]:
    """Return the files of YAML at *place*, a folder or one of them."""
    if place.is_file():
        return [place]
    return sorted(path for path in place.glob("*") if path.suffix in {".yaml", ".yml"} and path.is_file())


def has_network(content: object) -> TypeGuard[JsonObject]:
    """Return whether what a file of YAML has is a network; other files may lie beside it."""
    return isinstance(content, dict) and (content.get("kind") == "Network" or "agents" in content)

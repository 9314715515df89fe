"""What a harness that is given no network, or only its name, has from the project in which the test lies."""

import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from towpath.declared_places import DeclaredPlace
from towpath.project.network_files import find_network
from towpath.project.project_file import PROJECT_FILE, read_project, tool_files
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_testing.refusals import error_in_test

_FILES = (".yaml", ".yml", ".json")


class ProjectParts(NamedTuple):
    """A network's file, and what its project has for all of them."""

    network: Path
    policy: Path | None
    tools: tuple[ModuleType | Path, ...]


def is_name(network: object) -> bool:
    """Return whether *network* is the name of one, and no path of a file."""
    return isinstance(network, str) and "/" not in network and not network.endswith(_FILES)


def project_parts(network: str, test: DeclaredPlace | None) -> ProjectParts:
    """Return the parts of the project of *test* for *network*; without a name for the only network that there is.

    The project is the nearest above the file of the test, or above the working folder where nobody knows that file.
    """
    folder = _project_folder(Path(test.file).parent if test is not None else Path())
    try:
        project = read_project(_in_short(folder / PROJECT_FILE))
        remedy = 'Name one of the project, harness("NAME"), or give a path that ends in .yaml.'
        found = find_network(folder, project, network, remedy)
    except ProblemError as error:
        raise error_in_test(error.problem) from None
    policy = None if project.policy is None else _in_short(folder / project.policy)
    tools = dict.fromkeys(file for place in project.tools for file in tool_files(folder / place))
    loaded = _loaded_from(tools)
    return ProjectParts(_in_short(found), policy, tuple(loaded.get(file.resolve(), file) for file in tools))


def _loaded_from(files: Collection[Path]) -> dict[Path, ModuleType]:
    """Return the modules that were imported from *files*, under whatever path a link gave them."""
    names = {file.name for file in files}
    places = ((getattr(module, "__file__", None), module) for module in tuple(sys.modules.values()))
    named = ((Path(place), module) for place, module in places if isinstance(place, str))
    return {place.resolve(): module for place, module in named if place.name in names}


def _project_folder(place: Path) -> Path:
    inside = place.resolve()
    for folder in (inside, *inside.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    detail = f"there is no {PROJECT_FILE} in {inside} or above it, which says where networks, policy and tools lie"
    remedy = "Give the harness the files: harness(PATH, policy=PATH, tools=[…]); or make a project: towpath init."
    raise error_in_test(problem("not_found", detail, remedy=remedy))


def _in_short(path: Path) -> Path:
    """Return *path* as it is told: from the working folder, where it lies there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

"""Projects beside the working folder, for who asks a platform one folder above or below the one that it runs in.

A command finds a platform by `./.towpath` alone, and `up` a project by `./towpath.yaml`: what is seen elsewhere is only
told, and nothing is asked there. `up` imports what a project names, so that of another user is not told, nor one that
others may write.
"""

import contextlib
import os
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from towpath.client.settings import DATA_FOLDER, is_mine, platform_pid
from towpath.project.project_file import PROJECT_FILE

MAX_ENTRIES = 500
"""Entries of the working folder that are looked at: it may be anybody's home."""

MAX_ABOVE = 6
"""Folders above it."""

NEARBY_SHOWN = 3
"""Folders that are named."""


class NearbyProjects(NamedTuple):
    """Folders with a platform of this user that runs, and others with a project, each as it is typed after `cd`."""

    running: tuple[str, ...] = ()
    resting: tuple[str, ...] = ()


def find_nearby_projects(folder: Path) -> NearbyProjects:
    """Return the projects directly below *folder*, and of the folders above it the nearest."""
    running, resting = [], []
    for place, typed in _places(folder):
        if _runs(place):
            running.append(typed)
        elif _is_project(place):
            resting.append(typed)
    return NearbyProjects(tuple(running), tuple(resting))


def remedy_nearby(folder: Path) -> str:
    """Return what to do where no platform is asked in *folder* and a project lies nearby; else an empty text.

    Where *folder* has a project itself, that is the one that is meant.
    """
    if _is_there(folder / PROJECT_FILE):
        return ""
    found = find_nearby_projects(folder)
    if found.running:
        return f"A platform of yours runs in {_listed(found.running)}; ask there: cd {shlex.quote(found.running[0])}"
    return start_nearby(found)


def nothing_served(folder: Path) -> str:
    """Return what to say where nothing of a person is served in *folder*: probably a project nearby was meant."""
    elsewhere = remedy_nearby(folder)
    return f"nothing of yours is served here. {elsewhere}" if elsewhere else ""


def start_nearby(found: NearbyProjects) -> str:
    """Return how the first of the projects *found* that no platform runs in is started; else an empty text."""
    if not found.resting:
        return ""
    first = shlex.quote(found.resting[0])
    return f"A project lies in {_listed(found.resting)}; start it there: cd {first} && towpath up"


def _places(folder: Path) -> Iterator[tuple[Path, str]]:
    below: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # it may be gone, or somebody else's
        below = sorted(one.name for one in islice(entries, MAX_ENTRIES) if _is_looked_into(one))
    for name in below:
        yield folder / name, f"./{name}" if name.startswith("-") else name
    above = folder.resolve()
    for steps in range(1, MAX_ABOVE + 1):
        if above.parent == above:
            return
        above = above.parent
        if _runs(above) or _is_project(above):
            yield above, "/".join([".."] * steps)
            return


def _is_looked_into(entry: "os.DirEntry[str]") -> bool:
    """Return whether *entry* is a folder with a name that a terminal shows as it is, and that is not hidden."""
    try:
        return entry.name.isprintable() and entry.name[0] != "." and entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _runs(place: Path) -> bool:
    return platform_pid(place / DATA_FOLDER) is not None


def _is_project(place: Path) -> bool:
    return is_mine(place) and is_mine(place / PROJECT_FILE)


def _is_there(path: Path) -> bool:
    """Return whether *path* is seen: folders of other users are closed, and nothing in them is meant."""
    try:
        return path.exists()
    except OSError:
        return False


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NEARBY_SHOWN} more" if len(names) > NEARBY_SHOWN else ""
    return f"{', '.join(names[:NEARBY_SHOWN])}{more}"

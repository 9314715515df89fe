"""Finds the data folders and databases of platforms in what a sandbox is granted, so that they can be hidden.

The folder of this worker's own platform is held open and found wherever it was moved to. Others are known by their
name or by the keys in them, in the upper levels of what is granted: a whole tree would take too long to look through.
Once found they are held as well, so that no program moves them out of sight, or fills the levels above them.
"""

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from towpath.tools.isolation.granted_path import GrantedPath

DATA_FOLDER: Final = ".towpath"
"""Of the embedded platform, with its keys: empty in the sandbox where it lies in a folder that was granted."""

KEY_FILES: Final = frozenset({"authorization", "ticket.key", "seal.key"})
"""A folder with two of these is one too, by whatever name."""

LEVELS: Final = 4
"""A folder that is granted is looked through so far down."""

MAX_FOLDERS: Final = 1_000
"""So many folders are looked into before a program starts, those above first: 25 ms, 100 ms from a disk."""

_CLUSTER_PLACES: Final = (Path("/var/lib/towpath"), Path("/var/tmp/towpath"))  # noqa: S108 - of root's platforms
_OF_A_PLATFORM: Final = (".s.PGSQL.5432", "lock", "nats")

MAX_HELD: Final = 64

_own: Path | None = None
_held: dict[tuple[int, int], int] = {}
"""Descriptors of data folders, by device and number."""

_lock = Lock()


def set_data_folder(folder: Path) -> None:
    """Hide the data folder of the platform of this process, wherever it lies in what is granted."""
    global _own  # noqa: PLW0603 - a process belongs to one platform
    _own = folder.absolute()
    _hold(_own)


def _hold(folder: Path) -> None:
    """Keep *folder* open, unless so many are already, or it is not there, or this is no Linux and has no sandbox."""
    if len(_held) >= MAX_HELD:
        return
    with contextlib.suppress(OSError, AttributeError):
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        about = os.fstat(descriptor)
        if _held.setdefault((about.st_dev, about.st_ino), descriptor) != descriptor:
            os.close(descriptor)


def _held_folders() -> Iterator[Path]:
    """Yield where the folders that are held are now, and give up those that were removed."""
    for key, descriptor in [*_held.items()]:
        if os.fstat(descriptor).st_nlink:
            yield Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 - its text
        else:
            os.close(_held.pop(key))


def hidden_places(granted: Sequence[GrantedPath], looked_through: Sequence[GrantedPath]) -> Iterator[Path]:
    """Yield where data folders and databases of platforms would be seen in what is *granted*.

    What a path leads to is compared: another name of a folder shows the same. Databases trust whoever reaches them.
    """
    own = () if _own is None else (_own,)
    found = {folder.resolve() for folder in (*own, *_found(looked_through)) if folder.is_dir()}
    with _lock:
        data = found | {folder for folder in _held_folders() if folder.is_dir()}
        for folder in found:
            _hold(folder)
    inside_only = {folder.resolve() for folder in _database_folders()} - data
    for path, real, *_ in granted:
        yield from (path / one.relative_to(real) for one in data | (inside_only - {real}) if one.is_relative_to(real))
        yield from (_as_seen(path, real, one) for one in data if real.is_relative_to(one))


def _found(granted: Sequence[GrantedPath]) -> Iterator[Path]:
    """Yield the data folders in the upper levels of what is *granted*, and those that it lies in."""
    waiting: deque[tuple[Path, int]] = deque()
    for one in granted:
        yield from (folder for folder in (one.real, *one.real.parents) if folder.name == DATA_FOLDER)
        if one.is_folder:
            waiting.append((one.real, 0))
    left = MAX_FOLDERS
    while waiting and left:
        folder, level = waiting.popleft()
        left -= 1
        keys = 0
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                keys += entry.name in KEY_FILES
                if entry.name == DATA_FOLDER:  # a link as well: what it leads to may be granted too
                    yield folder / DATA_FOLDER
                elif level + 1 < LEVELS and entry.is_dir(follow_symlinks=False):
                    waiting.append((folder / entry.name, level + 1))
        if keys > 1:
            yield folder


def _as_seen(path: Path, real: Path, folder: Path) -> Path:
    """Return what *folder*, which *real* lies in, is called by *path*, another name of *real*; else *path* itself."""
    depth = len(real.relative_to(folder).parts)
    same = depth and path.parts[-depth:] == real.parts[-depth:] and path.parents[depth - 1].resolve() == folder
    return path.parents[depth - 1] if same else path


def _database_folders() -> Iterator[Path]:
    """Yield where embedded platforms of this machine have data and sockets outside their data folders."""
    for place in _CLUSTER_PLACES:
        yield from place.glob("cluster-*")
    for folder in Path(tempfile.gettempdir()).glob("towpath-*"):
        with contextlib.suppress(OSError):  # another user's, who has closed it
            if any((folder / name).exists() for name in _OF_A_PLATFORM):
                yield folder

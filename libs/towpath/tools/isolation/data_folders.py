"""Finds the data folders and databases of platforms in what a sandbox is granted, so that they can be hidden.

The folder of this worker's own platform is held open and found wherever it was moved to. Others are known by the keys
in them, in the upper levels of what is granted: a whole tree would take too long to look through. Once found they are
held as well, so that no program moves them out of sight, or fills the levels above them. No name and no link suffices:
a program may make any, and would hide what others were granted.
"""

import contextlib
import errno
import logging
import os
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from towpath.tools.isolation.granted_path import GrantedPath

DATA_FOLDER: Final = ".towpath"
"""Of the embedded platform, with its keys: so named, one of the signs suffices."""

KEY_FILES: Final = frozenset({"authorization", "ticket.key", "seal.key"})
"""A folder with two of these is one, by whatever name."""

_SIGNS: Final = KEY_FILES | {"state.json", "nats"}
"""One of these is in every `.towpath` that holds anything secret."""

LEVELS: Final = 4
"""A folder that is granted is looked through so far down."""

MAX_FOLDERS: Final = 1_000
"""So many folders are looked into before a program starts, those above first: 25 ms, 100 ms from a disk.

As many again where the program may write, and where these do not suffice it does not start: a program could have made
them, so that the next one finds the keys below.
"""

_CLUSTER_PLACES: Final = (Path("/var/lib/towpath"), Path("/var/tmp/towpath"))  # noqa: S108 - of root's platforms
_OF_A_PLATFORM: Final = (".s.PGSQL.5432", "lock", "nats")

MAX_HELD: Final = 64

_own: Path | None = None
_own_key: tuple[int, int] | None = None
_held: dict[tuple[int, int], int] = {}
"""Descriptors of data folders, by device and number."""

_lock = Lock()
_log = logging.getLogger(__name__)


def set_data_folder(folder: Path) -> None:
    """Hide the data folder of the platform of this process, wherever it lies in what is granted."""
    global _own, _own_key  # noqa: PLW0603 - a process belongs to one platform
    _own = folder.absolute()
    with contextlib.suppress(OSError, AttributeError):  # it is not there; this is no Linux and has no sandbox
        descriptor = _open(_own, follow=True)
        _own_key = _key(descriptor)
        _hold(descriptor)


def _open(folder: Path, *, follow: bool = False) -> int:
    return os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))


def _hold(descriptor: int) -> bool:
    """Keep a folder open, unless it is already or so many are; return whether it was new."""
    key = _key(descriptor)
    with _lock:
        if key not in _held and len(_held) < MAX_HELD:
            _held[key] = descriptor
            return True
    os.close(descriptor)
    return False


def _key(descriptor: int) -> tuple[int, int]:
    about = os.fstat(descriptor)
    return about.st_dev, about.st_ino


def _place(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 - its text


def _has_keys(descriptor: int, *, named: bool) -> bool:
    """Return whether an open folder is a data folder; *named*: it is called like one, and is no link."""
    found = 0
    for name in _SIGNS if named else KEY_FILES:
        with contextlib.suppress(OSError):
            os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            found += 1
    return found >= (1 if named else 2)


def _opened_with_keys(folder: Path, *, follow: bool = False) -> int | None:
    """Open *folder* if it is a data folder: what is looked at is what is held, also where a program swaps them."""
    try:
        descriptor = _open(folder, follow=follow)
    except OSError:  # a link, no folder, removed meanwhile
        return None
    if _has_keys(descriptor, named=folder.name == DATA_FOLDER and not follow):
        return descriptor
    os.close(descriptor)
    return None


def _held_folders() -> Iterator[Path]:
    """Yield where the folders that are held are now, and give up those that were removed, or whose keys were."""
    for key, descriptor in [*_held.items()]:
        place = _place(descriptor)
        has_keys = key == _own_key or _has_keys(descriptor, named=place.name == DATA_FOLDER)
        if has_keys and os.fstat(descriptor).st_nlink:
            yield place
        else:
            os.close(_held.pop(key))


def hidden_places(granted: Sequence[GrantedPath], looked_through: Sequence[GrantedPath]) -> Iterator[Path]:
    """Yield where data folders and databases of platforms would be seen in what is *granted*.

    What a path leads to is compared: another name of a folder shows the same. Databases trust whoever reaches them.
    """
    own = set() if _own is None or not _own.is_dir() else {_own.resolve()}
    found = _found_and_held(looked_through)
    with _lock:
        data = own | found | {folder for folder in _held_folders() if folder.is_dir()}
    inside_only = {folder.resolve() for folder in _database_folders()} - data
    for path, real, *_ in granted:
        yield from (path / one.relative_to(real) for one in data | (inside_only - {real}) if one.is_relative_to(real))
        yield from (_as_seen(path, real, one) for one in data if real.is_relative_to(one))


def _found_and_held(granted: Sequence[GrantedPath]) -> set[Path]:
    """Return the data folders that are found in what is *granted*, and hold and tell those that are new.

    Raises OSError where a program may have made too many folders to find them.
    """
    found = set()
    for descriptor in _found(granted):
        folder = _place(descriptor)
        found.add(folder)
        if _hold(descriptor):
            _log.warning("%s holds keys of a platform: no program in a sandbox sees what is in it from now on", folder)
    return found


def _found(granted: Sequence[GrantedPath]) -> Iterator[int]:
    """Open the data folders in the upper levels of what is *granted*, and those that it lies in."""
    for folder in {above for one in granted for above in (one.real, *one.real.parents)}:
        descriptor = _opened_with_keys(folder)
        if descriptor is not None:
            yield descriptor
    writable = [one for one in granted if one.writable and one.is_folder]
    left = yield from _found_below([one.real for one in writable])
    if left:
        names = ", ".join(str(one.place) for one in writable)
        told = f"more than {MAX_FOLDERS:,} folders are in what it may change ({names}), too many to look for keys of"
        raise OSError(errno.E2BIG, f"{told} platforms in them: grant a smaller folder")
    yield from _found_below([one.real for one in granted if not one.writable and one.is_folder])


def _found_below(folders: Sequence[Path]) -> Generator[int, None, bool]:
    """Open the data folders in the upper levels of *folders*; return whether some were not looked into."""
    waiting = deque((folder, 0) for folder in folders)
    left = MAX_FOLDERS
    while waiting and left:
        folder, level = waiting.popleft()
        left -= 1
        keys = 0
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                keys += entry.name in KEY_FILES
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.name == DATA_FOLDER:  # a link as well: what it leads to may be granted too
                    descriptor = _opened_with_keys(folder / DATA_FOLDER, follow=not is_folder)
                    if descriptor is not None:
                        yield descriptor
                        continue
                if is_folder and level + 1 < LEVELS:
                    waiting.append((folder / entry.name, level + 1))
        if keys > 1:
            descriptor = _opened_with_keys(folder)
            if descriptor is not None:
                yield descriptor
    return bool(waiting)


def _as_seen(path: Path, real: Path, folder: Path) -> Path:
    """Return what *folder*, which *real* lies in, is called by *path*, another name of *real*; else *path* itself."""
    depth = len(real.relative_to(folder).parts)
    same = depth and path.parts[-depth:] == real.parts[-depth:] and path.parents[depth - 1].resolve() == folder
    return path.parents[depth - 1] if same else path


def _database_folders() -> Iterator[Path]:
    """Yield where embedded platforms of this machine have data and sockets outside their data folders."""
    for place in _CLUSTER_PLACES:
        if not place.is_symlink():  # anybody may make a link there, also to what is not a platform's
            yield from (one for one in place.glob("cluster-*") if not one.is_symlink())
    for folder in Path(tempfile.gettempdir()).glob("towpath-*"):
        with contextlib.suppress(OSError):  # another user's, who has closed it
            if not folder.is_symlink() and any((folder / name).exists() for name in _OF_A_PLATFORM):
                yield folder

"""Opens what a sandbox is granted, so that nothing which a program has put in place of it is granted instead.

A program that may change a folder can replace what is in it by a link to a file of the worker's user, and whoever is
granted that name next would be given the file. So a grant is walked one folder after another, each opened without
following a link, and is mounted by its descriptor. Links of the system are followed: no program in a sandbox made them.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_MAX_LINKS: Final = 40
"""As many as Linux follows in one path."""

_SYSTEM_FOLDERS: Final = (Path("/"), Path("/var"))
_SYSTEM_TREES: Final = (Path("/etc"), Path("/nix"), Path("/opt"), Path("/run"), Path("/usr"))
"""Where a link of root is the system's also where the worker is root itself, whose programs may own what they write."""


class GrantedPath(NamedTuple):
    """A file or folder that is open: where it is mounted, and what it really is."""

    place: Path
    real: Path
    descriptor: int
    writable: bool

    @property
    def is_folder(self) -> bool:
        """Whether there can be anything in it."""
        return stat.S_ISDIR(os.fstat(self.descriptor).st_mode)

    @property
    def words(self) -> tuple[str, str, str]:
        """What bubblewrap is told."""
        return ("--bind-fd" if self.writable else "--ro-bind-fd", str(self.descriptor), str(self.place))


@contextlib.contextmanager
def open_granted(path: Path, *, writable: bool = False, follow: bool = False) -> Iterator[GrantedPath]:
    """Open *path* for a mount. With *follow* its links are followed first, whoever made them: for programs.

    Raises FileNotFoundError where nothing is there, OSError where a link is in the way that is not the system's.
    """
    try:
        descriptor = _walk(path.resolve() if follow else path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(errno.ENOENT, f"{path} is granted to it and does not exist") from error
    try:
        yield GrantedPath(path, Path(os.readlink(f"/proc/self/fd/{descriptor}")), descriptor, writable)  # noqa: PTH115
    finally:
        os.close(descriptor)


def _walk(path: Path) -> int:
    """Open *path* from the root on, and what links of the system lead to."""
    assert path.is_absolute()
    left = list(reversed(path.parts[1:]))
    at, links = _open("/", None), 0
    try:
        while left:
            name = left.pop()
            below = _open(name, at)
            if not stat.S_ISLNK(os.fstat(below).st_mode):
                os.close(at)
                at = below
                continue
            links += 1
            try:
                target = _target_of_system_link(Path(os.readlink(f"/proc/self/fd/{at}"), name), below, path, links)  # noqa: PTH115
            finally:
                os.close(below)
            left += reversed(target.parts[target.is_absolute() :])
            if target.is_absolute():
                os.close(at)
                at = _open("/", None)
    except BaseException:
        os.close(at)
        raise
    return at


def _open(name: str, folder: int | None) -> int:
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _target_of_system_link(link: Path, descriptor: int, path: Path, number: int) -> Path:
    target = Path(os.readlink("", dir_fd=descriptor))
    if number > _MAX_LINKS:
        raise OSError(errno.ELOOP, f"{path} is granted to it and has too many links in it")
    if not is_of_the_system(link, os.fstat(descriptor).st_uid):
        told = f"{path} is granted to it and {link} is a link, which a program may have made: grant where it leads to"
        raise OSError(errno.ELOOP, told)
    return target


def is_of_the_system(link: Path, owner: int) -> bool:
    """Return whether no program in a sandbox of this worker can have made *link*."""
    if owner != 0:
        return False
    folder = link.parent
    return os.geteuid() != 0 or folder in _SYSTEM_FOLDERS or any(map(folder.is_relative_to, _SYSTEM_TREES))

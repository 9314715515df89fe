"""Whether other OS users than those one trusts may change a file or a folder, by its owner and its mode; private files.

Who may write a folder decides what is found in it, whoever owns the files there. A group counts as others, but for the
private group that many systems give each user: there folders are writable by the group as they are made (umask 002).
Who may write a folder further up can rename the one below and put another in its place, so these are looked at too.
"""

import grp
import os
import pwd
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = 0
"""Root may change everything anyway."""
_MOST_LINKS = 40
"""As many the kernel follows in one path."""


def fault_of(path: Path, trusted: Collection[int]) -> str | None:
    """Return who else than the *trusted* users may change *path*, or what it leads to; None where nobody may.

    Raises OSError where *path* is not there.
    """
    return fault_of_status(path.lstat(), trusted) or fault_of_status(path.stat(), trusted)


def fault_above(path: Path, trusted: Collection[int]) -> str | None:
    """Return the folder above *path* in which others than the *trusted* users and root may rename what lies there.

    None where there is no such folder. A sticky one, such as /tmp, is passed: only owners rename there. Who owns `/` is
    trusted too: in a user namespace root bears another number. So is who owns the program's own files, as root in a
    container works in a checkout of the user outside: they need no folder to have root do what they want.
    """
    known = {ROOT, Path("/").stat().st_uid, program_owner(), *trusted}
    faults = ((place, _fault_of_way(place.lstat(), known)) for place in _way_to(path))
    return next((f"{place} {fault}" for place, fault in faults if fault is not None), None)


def program_owner() -> int:
    """Return who owns the files of this program."""
    return Path(__file__).stat().st_uid


def _way_to(path: Path) -> Iterator[Path]:
    """Yield each folder and link that *path* leads through, in order, as far as there is any; not what it leads to."""
    left, here, links = list(reversed(path.absolute().parts[1:])), Path("/"), 0
    while left:
        name = left.pop()
        if name == "..":
            here = here.parent
            continue
        yield here
        entry = here / name
        if entry.is_symlink() and links < _MOST_LINKS:
            links += 1
            yield entry
            target = entry.readlink()
            here = Path("/") if target.is_absolute() else here
            left.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        elif entry.is_dir():
            here = entry
        else:
            return


def _fault_of_way(status: os.stat_result, trusted: Collection[int]) -> str | None:
    if status.st_uid not in trusted:
        return "belongs to another user"
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return None
    own_group = any(is_private_group(status.st_gid, user) for user in {status.st_uid, *trusted})
    by_group = status.st_mode & stat.S_IWGRP and not own_group
    return "can be written by other users" if by_group or status.st_mode & stat.S_IWOTH else None


def fault_of_status(status: os.stat_result, trusted: Collection[int]) -> str | None:
    """Return the same by the *status* of a path; a link has no mode of its own, and a socket none that counts here."""
    if status.st_uid not in trusted:
        return "belongs to another user"
    if stat.S_ISLNK(status.st_mode) or stat.S_ISSOCK(status.st_mode):
        return None
    by_group = status.st_mode & stat.S_IWGRP and not is_private_group(status.st_gid, status.st_uid)
    return "can be written by other users" if by_group or status.st_mode & stat.S_IWOTH else None


def is_private_group(group: int, user: int) -> bool:
    """Return whether *group* is the one that bears the name of *user*, and that nobody else is in."""
    if user == group == ROOT:
        return True
    try:
        person, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:  # not of this system: of the machine whose folder a container sees
        return group == user
    return person.pw_gid == group and found.gr_name == person.pw_name and set(found.gr_mem) <= {person.pw_name}


def read_trusted(path: Path, trusted: Collection[int]) -> str:
    """Return the text of *path*, looked at and read by one descriptor; a link is not followed.

    Raises OSError where there is none, and PermissionError where others than the *trusted* users may change it.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), encoding="ascii") as file:
        status = os.fstat(file.fileno())
        fault = fault_of_status(status, trusted) if stat.S_ISREG(status.st_mode) else "is not a file"
        if fault is not None:
            raise PermissionError(f"{path} {fault}")
        return file.read()


def write_private(path: Path, text: str) -> None:
    """Write *text* to *path*, whole or not at all, readable by its owner only from the first byte on."""
    making = path.with_name(f"{path.name}.{os.getpid()}.new")
    making.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        making.replace(path)
    except BaseException:
        making.unlink(missing_ok=True)  # it may hold secrets, and nobody looks for it
        raise

"""Whether other OS users than those one trusts may change a file or a folder, by its owner and its mode.

Who may write a folder decides what is found in it, whoever owns the files there. A group counts as others, but for the
private group that many systems give each user: there folders are writable by the group as they are made (umask 002).
"""

import grp
import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path

ROOT = 0
"""Root may change everything anyway."""


def fault_of(path: Path, trusted: Collection[int]) -> str | None:
    """Return who else than the *trusted* users may change *path*, or what it leads to; None where nobody may.

    Raises OSError where *path* is not there.
    """
    return fault_of_status(path.lstat(), trusted) or fault_of_status(path.stat(), trusted)


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

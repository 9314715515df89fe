"""The logs of processes: opened for a new one, and put aside when they grow too long.

Whoever can put another folder, or a link, in the place of one that a log is in must not choose which file is written or
emptied. So a log is opened below a folder that is held, no link is followed, and nothing but a file of this user that
has no other name is emptied.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

LOG_LIMIT_BYTES = 16 * 1024 * 1024  # one older log is kept, so a process costs at most twice this on disk
TRIM_S = 10.0  # a log outgrows its limit by what is written in this time


@contextlib.contextmanager
def opened_log(log: Path) -> Iterator[BinaryIO]:
    """Open *log* for a new process, which appends to it; one that is new is readable by its owner only."""
    log.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with _held(log.parent) as folder:
        with contextlib.suppress(OSError):  # such as a full disk, which a long log may have filled
            _trim_in(folder, log.name)
        descriptor = os.open(log.name, flags, 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "ab") as output:
        yield output


async def trim_regularly(folder: Path) -> None:
    """Trim the logs of *folder*, which is held from now on: one that is put in its place later is not looked into."""
    with _held(folder) as held:
        while True:
            await asyncio.sleep(TRIM_S)
            names: list[str] = []
            with contextlib.suppress(OSError), os.scandir(held) as entries:
                names = [entry.name for entry in entries]
            for name in names:
                if name.endswith(".log"):
                    with contextlib.suppress(OSError):  # such as a full disk: the next time
                        _trim_in(held, name)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _trim_in(folder: int, name: str) -> None:
    """Copy the log *name* of the open *folder* and empty it if it grew too long, while its writer has it open.

    The writer appends, so it goes on at the new end; what it writes between the two steps is lost. What is no log of
    this user, or was just removed, is left as it is.
    """
    try:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.fdopen(os.open(name, flags, dir_fd=folder), "r+b")
    except OSError:
        return
    with file:
        if _is_own(os.fstat(folder)) and _may_be_emptied(os.fstat(file.fileno())):
            _copy(file, folder, f"{name}.1")
            os.ftruncate(file.fileno(), 0)


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid()


def _may_be_emptied(status: os.stat_result) -> bool:
    """Return whether the log is too long, and a file of this user without another name elsewhere."""
    is_only_name = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return is_only_name and _is_own(status) and status.st_size > LOG_LIMIT_BYTES


def _copy(file: BinaryIO, folder: int, name: str) -> None:
    """Copy *file* to *name* in *folder*: made anew beside it, so that what lies there is replaced, not written to."""
    making = f"{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(making, flags, 0o600, dir_fd=folder), "wb") as copy:
            shutil.copyfileobj(file, copy, 1024 * 1024)
        os.rename(making, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(making, dir_fd=folder)
        raise

"""The folders in which calls have the files of their runs, and nothing of which outlives the call or its worker.

Each worker has one folder, which it holds locked for as long as it lives; the next worker of this user that starts
removes those that nobody holds. What a program leaves there may be of any depth and have any rights, so the removal
neither recurses nor trusts a path.
"""

import asyncio
import contextlib
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

from towpath_fabric.telemetry.logs import Logger

PREFIX = "towpath-calls-"
_TRIES = 3


class CallFolders:
    """Makes a folder for a call below the one of this worker."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._own: tuple[Path, int] | None = None

    @contextlib.asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """Give a new folder, and remove it with all that is in it in the end; raises OSError where none can be made."""
        place = self._make()
        try:
            yield place
        finally:
            await asyncio.to_thread(self._remove, place)

    def _make(self) -> Path:
        if self._own is not None and not self._own[0].is_dir():  # whoever cleans such folders up has taken it away
            self.close()
        if self._own is None:
            self._own = _locked_folder()
        return Path(tempfile.mkdtemp(dir=self._own[0]))

    def _remove(self, place: Path) -> None:
        try:
            place.chmod(
                0o700
            )  # a program may have closed its own folder; no link can be here, in a folder of the worker's
            remove_folder(place)
        except OSError as error:
            self._log.warning("a call's files could not be removed", error=type(error).__name__, errno=error.errno)

    def remove_left(self) -> None:
        """Remove what dead workers of this user have left."""
        with contextlib.suppress(OSError):
            for place in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
                with contextlib.suppress(OSError):  # somebody else's, or one that is being removed
                    held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                    try:
                        if os.fstat(held).st_uid == os.geteuid():
                            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                            self._remove(place)
                    finally:
                        os.close(held)

    def close(self) -> None:
        """Remove the folder of this worker."""
        if self._own is not None:
            place, held = self._own
            self._own = None
            if place.is_dir():
                self._remove(place)
            os.close(held)


def _locked_folder() -> tuple[Path, int]:
    """Make a folder and lock it; another worker may have taken it for one that was left before it was locked."""
    for _ in range(_TRIES):
        place = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()  # a sandbox is granted it, and follows no link
        held = -1
        try:
            held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(held).st_nlink and place.is_dir():
                return place, held
        except OSError:
            if held < 0 and place.is_dir():
                raise
        if held >= 0:
            os.close(held)
    raise FileNotFoundError(2, "every folder for files of calls was removed at once")


def remove_folder(place: Path) -> None:
    """Remove *place* and all that is in it, with two open files however deep it is; raises OSError if any is left."""
    top = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        left = _emptied(top, top)
        while left:
            name = left.pop()
            with contextlib.suppress(OSError):
                folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
                try:
                    left += _emptied(folder, top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    place.rmdir()


def _emptied(folder: int, top: int) -> list[str]:
    """Remove the files of *folder*, move its folders to *top*, and return what they are called there."""
    moved = []
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        with contextlib.suppress(OSError):  # the others can go all the same
            if not is_folder:
                os.unlink(name, dir_fd=folder)
                continue
            os.chmod(name, 0o700, dir_fd=folder)
            new = uuid4().hex
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
            moved.append(new)
    return moved

"""The files of a run in a folder of this machine, for the time of one call.

The call's ticket decides which files these are, and every file must match its digest. What a tool changed goes back as
a change set, which the run may refuse; nothing outlives the call.
"""

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import BLOB_GET_CALLS
from towpath_contracts.tools.calls import BlobChunk, ToolInvocation
from towpath_contracts.tools.internal_outcomes import GetWorkspaceChunk
from towpath_contracts.tools.workspace import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_NAMES_BYTES,
    MAX_WORKSPACE_BYTES,
    FileChange,
    LostChangesReason,
    PathRefusedError,
    clean_path,
)
from towpath_fabric.ports import MessageBus
from towpath_worker.adapters.blobs import put_blob
from towpath_worker.core.results import EncodedResult, ResultRefusedError

ANSWER_S = 5.0
TRIES = 4
PAUSE_S = 0.5
READ_ONLY = 0o444
MAX_LEVELS = 4 * MAX_DEPTH
"""Of folders: no file of a run lies that deep, and a folder without files may."""

MAX_ENTRIES = 20 * MAX_FILES
"""Files, folders and links that are looked at: most of what a program leaves there is no file of the run."""

MAX_SHOWN = 256
"""Characters of a path that an outcome names."""


class FileChangesLostError(Exception):
    """What the tool changed can't be handed over; `lost` says why. The call has happened all the same."""

    def __init__(self, code: str, path: str = "") -> None:
        self.lost = LostChangesReason(code=code, path=path[:MAX_SHOWN].encode("utf-8", "replace").decode())
        super().__init__(f"{code}: {path}")


class RunFiles:
    """The files of the run of *invocation*, in a new folder below *parent*."""

    def __init__(self, bus: MessageBus, invocation: ToolInvocation, parent: Path) -> None:
        self._bus = bus
        self._invocation = invocation
        self.folder = parent / "workspace"
        self._digests: dict[str, str] = {}

    async def fetch(self) -> None:
        """Write the files; raises ResultRefusedError `workspace_unavailable`, whatever went wrong."""
        try:
            await self._fetch()
        except (OSError, ValueError) as error:  # a full disk, or a list that is none
            message = f"the run's files could not be written: {type(error).__name__}"
            raise ResultRefusedError("workspace_unavailable", message) from error

    async def _fetch(self) -> None:
        self.folder.mkdir()
        if not self._invocation.workspace:
            return
        files: dict[str, Any] = json.loads(await self._blob(self._invocation.workspace))
        for path, about in files.items():
            data = await self._blob(about["digest"])
            location = self.folder / clean_path(path)
            location.parent.mkdir(parents=True, exist_ok=True)
            location.write_bytes(data)
            if about["read_only"]:
                location.chmod(READ_ONLY)
            self._digests[path] = about["digest"]

    async def changed(self) -> tuple[FileChange, ...]:
        """Return what is different now, with texts stored; raises FileChangesLostError if not all can be taken."""
        try:
            found = await asyncio.to_thread(self._read)
        except OSError as error:
            raise FileChangesLostError("workspace_unreadable", _path_in_run(error, self.folder)) from error
        changes = [FileChange(path=path) for path in sorted(set(self._digests) - set(found))]
        written = {path: digest_text(data) for path, data in sorted(found.items())}
        written = {path: digest for path, digest in written.items() if self._digests.get(path) != digest}
        changes += [FileChange(path=path, digest=digest, size=len(found[path])) for path, digest in written.items()]
        if len(changes) > MAX_FILES or sum(len(change.path) for change in changes) > MAX_NAMES_BYTES:
            raise FileChangesLostError("workspace_full")
        for path, digest in written.items():
            await self._store(path, EncodedResult(value=None, data=found[path], digest=digest))
        return tuple(changes)

    async def _store(self, path: str, text: EncodedResult) -> None:
        try:
            await put_blob(self._bus, self._invocation, text)
        except ResultRefusedError as error:
            raise FileChangesLostError(error.code, path) from error

    def _read(self) -> dict[str, bytes]:
        """Read every plain file, as long as the run may have so much; links lead out of the copy and are left out."""
        found: dict[str, bytes] = {}
        room = MAX_WORKSPACE_BYTES
        for path in _plain_files(self.folder):
            location = self.folder / path
            size = location.stat().st_size
            room -= size
            if len(found) >= MAX_FILES or size > MAX_FILE_BYTES or room < 0:
                raise FileChangesLostError("workspace_full", path)
            data = location.read_bytes()
            try:
                clean_path(path)
                data.decode()
            except (PathRefusedError, UnicodeDecodeError) as error:
                raise FileChangesLostError("changes_refused", path) from error
            found[path] = data
        return found

    async def _blob(self, digest: str) -> bytes:
        parts: list[bytes] = []
        while True:
            request = GetWorkspaceChunk(digest=digest, index=len(parts), ticket=self._invocation.ticket)
            chunk = await self._ask(request)
            parts.append(base64.b64decode(chunk.data_base64))
            if len(parts) >= chunk.total:
                break
        data = b"".join(parts)
        if digest_text(data) != digest:
            raise ResultRefusedError("workspace_unavailable", f"the bytes of {digest} are others")
        return data

    async def _ask(self, request: GetWorkspaceChunk) -> BlobChunk:
        for attempt in range(TRIES):
            try:
                answer: BlobChunk = await self._bus.request(BLOB_GET_CALLS, request, timeout_s=ANSWER_S)
            except ProblemError as error:
                if not error.problem.retryable or attempt == TRIES - 1:
                    message = f"the run's files can't be had: {error.problem.code}"
                    raise ResultRefusedError("workspace_unavailable", message) from error
            else:
                return answer
            await asyncio.sleep(PAUSE_S)
        msg = "unreachable: the last turn answers or raises"
        raise AssertionError(msg)


def _plain_files(folder: Path) -> Iterator[str]:
    """Yield the paths of all files below *folder*, in a fixed order; raises FileChangesLostError for a tree too large.

    It does not recurse: what a program leaves may be deeper than any stack.
    """
    waiting = [""]
    left = MAX_ENTRIES
    while waiting:
        inside = waiting.pop()
        if inside.count("/") > MAX_LEVELS:
            raise FileChangesLostError("workspace_unreadable", inside)
        with os.scandir(folder / inside) as entries:
            found = sorted(islice(entries, left + 1), key=lambda entry: entry.name)
        left -= len(found)
        if left < 0:
            raise FileChangesLostError("workspace_full", inside)
        yield from (inside + entry.name for entry in found if entry.is_file(follow_symlinks=False))
        waiting += (f"{inside}{entry.name}/" for entry in reversed(found) if entry.is_dir(follow_symlinks=False))


def _path_in_run(error: OSError, folder: Path) -> str:
    """Name the file that *error* is about as the run knows it; nothing of this machine."""
    location = Path(str(error.filename or ""))
    return location.relative_to(folder).as_posix() if location.is_relative_to(folder) else ""

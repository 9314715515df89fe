"""Where scripts come from: the task's own, as a blob of the orchestrator, or a file in the script folder.

A blob is what its digest says or it is refused; a file lies in the folder or it is not read.
"""

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from uuid import UUID

from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.near_names import MAX_NAMES, nearest_name
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import BLOB_GET_RUNS
from towpath_contracts.tools.calls import BlobChunk, GetBlobChunk
from towpath_decider.core.conversation import ModelCallFailure
from towpath_decider.core.script import Script
from towpath_fabric.ports import MessageBus
from towpath_fabric.request_loop import PlatformUnavailableError

MAX_SCRIPTS = 1_024
"""Scripts kept; runs whose script was dropped fetch it again."""

SHOWN_SCRIPTS = 8
"""Of those that there are, where one is missing."""

MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""As large as a blob may be."""


class ScriptLoadError(Exception):
    """A script can't be had; `failure` says why and whether to try again."""

    def __init__(self, failure: ModelCallFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _unreadable(what: str, error: Exception) -> ScriptLoadError:
    return ScriptLoadError(ModelCallFailure(code="script_invalid", message=f"{what}: {error}"))


class BlobScriptSource:
    """Scripts by digest, fetched once however many runs begin with them at the same moment."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self._known: OrderedDict[str, Script] = OrderedDict()
        self._fetching: dict[str, asyncio.Task[Script]] = {}

    async def get(self, digest: str, run_id: UUID) -> Script:
        """Return the script of *digest*, on behalf of *run_id*. Raises ScriptLoadError, PlatformUnavailableError."""
        script = self._known.get(digest)
        if script is not None:
            self._known.move_to_end(digest)
            return script
        task = self._fetching.get(digest)
        if task is None:
            task = asyncio.create_task(self._fetch(digest, run_id))
            self._fetching[digest] = task
            task.add_done_callback(lambda done: self._on_fetched(digest, done))
        return await asyncio.shield(task)  # one run's timeout must not take the script from the others

    def _on_fetched(self, digest: str, task: "asyncio.Task[Script]") -> None:
        self._fetching.pop(digest, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._known[digest] = task.result()
        while len(self._known) > MAX_SCRIPTS:
            self._known.popitem(last=False)

    async def _fetch(self, digest: str, run_id: UUID) -> Script:
        try:
            data = await fetch_blob(self._bus, digest, run_id)
        except ProblemError as error:
            message = f"the script {digest} could not be fetched: {error}"
            if error.problem.retryable:
                raise PlatformUnavailableError(message) from error
            raise ScriptLoadError(ModelCallFailure(code="script_unavailable", message=message)) from error
        try:
            if digest_text(data) != digest:
                msg = "its contents do not match its digest"
                raise ValueError(msg)  # noqa: TRY301 - one reaction to every unreadable script
            return Script.parse(data)
        except ValueError as error:
            raise _unreadable(f"the script {digest}", error) from error

    async def close(self) -> None:
        """Stop fetching."""
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def fetch_blob(bus: MessageBus, digest: str, run_id: UUID) -> bytes:
    """Fetch a blob of *run_id* piece by piece. Raises ProblemError of the orchestrator, or `unavailable`."""
    pieces: list[bytes] = []
    total, size = 1, 0
    while len(pieces) < total and size <= MAX_SCRIPT_BYTES:
        chunk: BlobChunk = await bus.request(
            BLOB_GET_RUNS, GetBlobChunk(digest=digest, index=len(pieces), run_id=run_id)
        )
        pieces.append(base64.b64decode(chunk.data_base64))
        total, size = chunk.total, size + len(pieces[-1])
    return b"".join(pieces)


class FileScriptSource:
    """Scripts by the name of a JSON file; a file that was changed is read again."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder.resolve() if folder is not None else None
        self._known: dict[Path, tuple[tuple[int, int], Script]] = {}

    def get(self, name: str) -> Script:
        """Return the script *name* (or *name*.json). Raises ScriptLoadError. Reads a file: call it in a thread."""
        path = self._find(name)
        try:
            found = path.stat()
            version = (found.st_mtime_ns, found.st_size)
            known = self._known.get(path)
            if known is not None and known[0] == version:
                return known[1]
            if found.st_size > MAX_SCRIPT_BYTES:
                msg = f"it has {found.st_size} bytes; the limit is {MAX_SCRIPT_BYTES}"
                raise ValueError(msg)  # noqa: TRY301 - one reaction to every unreadable script
            script = Script.parse(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _unreadable(f"the script {path.name}", error) from error
        self._known[path] = (version, script)
        return script

    def missing(self, name: str) -> str:
        """Return why the script *name* can't be had; empty where it is there. Looks for a file: call it in a thread."""
        try:
            self._find(name)
        except ScriptLoadError as error:
            return error.failure.message
        return ""

    def _find(self, name: str) -> Path:
        if self._folder is None:
            message = f"the model scripted:{name} needs a script folder, and TOWPATH_SCRIPT_DIR is not set"
            raise ScriptLoadError(ModelCallFailure(code="script_missing", message=message))
        for candidate in (name, f"{name}.json"):
            path = (self._folder / candidate).resolve()
            if path.is_relative_to(self._folder) and path.is_file():
                return path
        known = sorted({path.name.removesuffix(".json") for path in islice(self._folder.glob("*.json"), MAX_NAMES)})
        message = f"the model scripted:{name} plays {name}.json, and {_known_scripts(self._folder.name, known)}"
        near = nearest_name(name, known)
        message += f"; did you mean scripted:{near}?" if near else ""
        raise ScriptLoadError(ModelCallFailure(code="script_missing", message=message))


def _known_scripts(folder: str, known: Sequence[str]) -> str:
    """Say which scripts the *folder* has."""
    if not known:
        return f"the script folder {folder!r} has none"
    more = f" and {len(known) - SHOWN_SCRIPTS} more" if len(known) > SHOWN_SCRIPTS else ""
    return f"the script folder {folder!r} has only {', '.join(f'{one}.json' for one in known[:SHOWN_SCRIPTS])}{more}"

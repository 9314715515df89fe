"""The workspace of a run: virtual files, and the rules for their names and sizes.

A file is a name and the digest of its text; what it holds is a blob. Names are relative and ASCII, and never lead
out of the workspace. What the caller mounted is read-only.
"""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart

MAX_DEPTH = 16
MAX_SEGMENT = 80
MAX_PATH = MAX_DEPTH * (MAX_SEGMENT + 1)
MAX_WRITE_CHARS = 48_000
"""Characters of one write."""

MAX_FILE_BYTES = 512 * 1024
"""One file, also after many appends: what a call reads travels with its fact."""

MAX_WORKSPACE_BYTES = 1024 * 1024
"""All files together: a search reads all of them."""

MAX_FILES = 1_000

MAX_NAMES_BYTES = 128 * 1024
"""The names of all files that the run itself has made, and of one change set: one event must be able to name them."""

MAX_MOUNT_BYTES = 512 * 1024
"""All mounted files of a task, with their names: a task is one message, and the broker carries 1 MiB."""

MAX_MOUNT_FILES = 500


class PathRefusedError(ValueError):
    """The name can't be one of a workspace file; the text says why, for the model."""


def clean_path(text: str) -> str:
    """Return *text* as the name of a file or folder; duplicate slashes collapse. Raises PathRefusedError."""
    if text.startswith("/"):
        msg = f"{text!r} is absolute; paths are relative to the workspace"
        raise PathRefusedError(msg)
    if not text.isascii() or not text.isprintable():
        msg = "a path has printable ASCII characters only"
        raise PathRefusedError(msg)
    segments = [segment for segment in text.split("/") if segment]
    if not segments:
        msg = "the path is empty"
        raise PathRefusedError(msg)
    if "." in segments or ".." in segments:
        msg = f"{text!r} has a segment . or .."
        raise PathRefusedError(msg)
    if len(segments) > MAX_DEPTH:
        msg = f"the path has {len(segments)} segments; the limit is {MAX_DEPTH}"
        raise PathRefusedError(msg)
    if max(map(len, segments)) > MAX_SEGMENT:
        msg = f"a segment of the path is longer than {MAX_SEGMENT} characters"
        raise PathRefusedError(msg)
    return "/".join(segments)


class FileEntry(MessagePart):
    """One file as the run's log names it: `version` counts its writes, 1 is the first."""

    path: str
    digest: str
    size: int
    version: int = 1
    read_only: bool = False


class FileChange(MessagePart):
    """What became of one file; `digest` is None where it was deleted."""

    path: str
    digest: str | None = None
    size: int = Field(default=0, ge=0)


class LostChangesReason(MessagePart):
    """The reason why nothing of what a tool did to its scratch copy is taken: a code, and the file, if any."""

    code: str = Field(max_length=64, pattern=r"^[a-z_]+$")
    path: str = Field(default="", max_length=256)


class FileVersion(MessagePart):
    """One version of a file: who wrote it stands in the log at `seq`."""

    version: int
    digest: str
    size: int
    seq: int
    at: datetime


class WorkspaceFileView(MessagePart):
    """One file of a run's workspace; `versions` are the last of them, oldest first, the current one included."""

    path: str
    digest: str
    size: int
    version: int
    read_only: bool
    created_at: datetime
    updated_at: datetime
    versions: tuple[FileVersion, ...] = ()


class WorkspaceView(Message):
    """The workspace of a run, files in order of their paths; `plan` is its plan, None where it has none."""

    run_id: UUID
    seq: int
    status: str
    files: tuple[WorkspaceFileView, ...] = ()
    deleted: tuple[str, ...] = ()
    plan: JsonObject | None = None


class FileText(Message):
    """The text of one version of a file."""

    run_id: UUID
    path: str
    version: int
    digest: str
    content: str

"""The workspace and the plan of a run, read from its log: for people, while the run goes on and afterwards.

The log is the truth; this is a reading of it, bounded like the workspace itself.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.tools.workspace import FileVersion, WorkspaceFileView, WorkspaceView

WORKSPACE_EVENTS = ("run_created", "run_forked", "plan_changed", "workspace_changed")
"""The types of events that the view is made of; all others may be left out."""

VERSIONS_KEPT = 50
"""Of one file: older ones are in the log."""


class WorkspaceReader:
    """Keeps what the workspace of a run is made of, and how far its log was read."""

    def __init__(self, run_id: UUID) -> None:
        """Nothing is known of *run_id* yet."""
        self._run_id = run_id
        self._seq = 0
        self._status = "running"
        self._entries: list[ev.LogEntry] = []

    def take(self, entry: "ev.LogEntry") -> None:
        """Read one more event."""
        self._seq = entry.seq
        if isinstance(entry.event, ev.RunFinished):
            self._status = entry.event.status
        if entry.event.type in WORKSPACE_EVENTS:
            self._entries.append(entry)

    def view(self) -> WorkspaceView:
        """Return the workspace after the events so far."""
        return project_workspace(self._run_id, self._seq, self._status, self._entries)


def project_workspace(run_id: UUID, seq: int, status: str, entries: Iterable["ev.LogEntry"]) -> WorkspaceView:
    """Return the workspace as *entries* leave it."""
    files: dict[str, WorkspaceFileView] = {}
    deleted: dict[str, None] = {}
    plan: JsonObject | None = None
    for entry in entries:
        match entry.event:
            case ev.RunCreated():
                for file in entry.event.workspace:
                    files[file.path] = _first(file.model_dump(), entry.seq, entry.at)
            case ev.RunForked():
                desk = entry.event.inherited.get("desk") or {}
                plan = desk.get("plan") or plan
                inherited = (desk.get("files") or {}).items()
                files |= {path: _first({"path": path, **file}, entry.seq, entry.at) for path, file in inherited}
            case ev.WorkspacePlanChanged():
                plan = entry.event.plan
            case ev.WorkspaceChanged():
                _change(files, deleted, entry.event, entry.seq, entry.at)
            case _:
                continue
    shown = tuple(files[path] for path in sorted(files))
    return WorkspaceView(run_id=run_id, seq=seq, status=status, files=shown, deleted=tuple(sorted(deleted)), plan=plan)


def _first(file: JsonObject, seq: int, at: datetime) -> WorkspaceFileView:
    version = FileVersion(version=file["version"], digest=file["digest"], size=file["size"], seq=seq, at=at)
    return WorkspaceFileView(
        path=file["path"],
        digest=version.digest,
        size=version.size,
        version=version.version,
        read_only=bool(file.get("read_only")),
        created_at=at,
        updated_at=at,
        versions=(version,),
    )


def _change(
    files: dict[str, WorkspaceFileView],
    deleted: dict[str, None],
    event: "ev.WorkspaceChanged",
    seq: int,
    at: datetime,
) -> None:
    for change in event.changes:
        before = files.pop(change.path, None)
        if change.digest is None:
            deleted[change.path] = None
            continue
        deleted.pop(change.path, None)
        number = 1 if before is None else before.version + 1
        made = _first({"path": change.path, "version": number, "digest": change.digest, "size": change.size}, seq, at)
        if before is not None:
            versions = (*before.versions, *made.versions)[-VERSIONS_KEPT:]
            made = made.model_copy(update={"created_at": before.created_at, "versions": versions})
        files[change.path] = made

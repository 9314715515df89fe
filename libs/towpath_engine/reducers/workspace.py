"""Applies the events of internal tools: plan and files of the workspace, and outcomes that the ledger must confirm."""

from datetime import datetime, timedelta
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.ids import effect_id
from towpath_contracts.tools.internal_tools import PLATFORM_WORKER
from towpath_contracts.tools.workspace import FileEntry
from towpath_engine.state.replace import replace
from towpath_engine.state.run import EffectKind, PendingEffect, RunState
from towpath_engine.state.workspace import EMPTY_WORKSPACE, RunWorkspace, WorkspaceFile, plan_from

OUTCOME_RESEND_S = 5
"""First resend of an outcome that the ledger has not confirmed."""


def initial_workspace(files: tuple[FileEntry, ...], at: datetime) -> RunWorkspace | None:
    """Return the workspace of a run that begins with *files*; None where there are none."""
    if not files:
        return None
    return RunWorkspace(
        files={
            file.path: WorkspaceFile(
                digest=file.digest,
                size=file.size,
                version=file.version,
                read_only=file.read_only,
                created_at=at,
                updated_at=at,
            )
            for file in files
        }
    )


def apply_plan_changed(state: RunState, event: ev.WorkspacePlanChanged, _at: datetime) -> RunState:
    return replace(state, desk=replace(state.desk or EMPTY_WORKSPACE, plan=plan_from(event.plan)))


def apply_workspace_changed(state: RunState, event: ev.WorkspaceChanged, at: datetime) -> RunState:
    desk = state.desk or EMPTY_WORKSPACE
    return replace(state, desk=replace(desk, files=_changed(desk, event, at)))


def _changed(desk: RunWorkspace, event: ev.WorkspaceChanged, at: datetime) -> dict[str, WorkspaceFile]:
    files = dict(desk.files)
    for change in event.changes:
        before = files.pop(change.path, None)
        if change.digest is None:
            continue
        files[change.path] = WorkspaceFile(
            digest=change.digest,
            size=change.size,
            version=1 if before is None else before.version + 1,
            created_at=at if before is None else before.created_at,
            updated_at=at,
        )
    return files


def outcome_effect(run_id: UUID, execution_id: UUID) -> UUID:
    """Return the id of the effect that reports to the ledger the outcome of a call."""
    return effect_id(run_id, f"outcome:{execution_id}")


def with_unconfirmed_outcome(state: RunState, event: ev.ToolCallFinished, at: datetime) -> RunState:
    """Return *state* with the outcome of a call that the run applied itself pending; workers report all others."""
    spec = state.snapshot.all_tools.get(event.tool)
    if event.worker != PLATFORM_WORKER or spec is None or not spec.internal:
        return state
    outcome: JsonObject = {
        "execution_id": str(event.execution_id),
        "tool": event.tool,
        "status": event.status,
        "result": event.result,
        "failure": None if event.failure is None else event.failure.model_dump(mode="json"),
    }
    owed = PendingEffect(
        effect_id=outcome_effect(state.run_id, event.execution_id),
        kind=EffectKind.OUTCOME,
        attempt=1,
        resend_at=at + timedelta(seconds=OUTCOME_RESEND_S),
        outcome=outcome,
    )
    return replace(state, pending=(*state.pending, owed))


def apply_outcome_recorded(state: RunState, event: ev.InternalOutcomeRecorded, _at: datetime) -> RunState:
    """Return *state* without the outcome that the ledger holds now."""
    gone = outcome_effect(state.run_id, event.execution_id)
    return replace(state, pending=tuple(p for p in state.pending if p.effect_id != gone))


def unconfirmed_outcomes(state: RunState) -> tuple[PendingEffect, ...]:
    """Return the outcomes that the ledger has not confirmed; the end of a run does not change them."""
    return tuple(p for p in state.pending if p.kind is EffectKind.OUTCOME)

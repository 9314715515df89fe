"""The audit as a log: export it, take its checkpoint, prove entries.

A credential exports its own project's entries, and hashes of the rest.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from pydantic import AwareDatetime, Field

from towpath_audit.bundle import EVERY_PROJECT
from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.tools.audit import (
    AuditExportCursor,
    AuditPiece,
    AuditProof,
    CheckpointView,
    ExportAudit,
    GetCheckpoint,
    ProveRun,
)
from towpath_gateway.app.dependencies import (
    AuditReader,
    Dependencies,
    documented,
    json_answer,
    require_scope,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import OPERATE_PLATFORM

router = APIRouter(prefix="/v1/audit", route_class=BoundedJsonRoute, tags=["tool access"])

AUDIT_TIMEOUT_S = 60.0
"""A piece may have to wait for a seal, and the seal for the one before it."""


class ExportAuditBody(ClientMessage):
    """Asks for one piece of the audit log; the next piece is asked for with the cursor and last hash of this one.

    Which part of the log; then, with each piece's cursor and the SHA-256 of its last line, the next piece.
    """

    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    every_project: bool = False
    cursor: AuditExportCursor | None = None
    previous: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")


@router.post(
    "/export",
    response_model=AuditPiece,
    responses=documented("cursor_refused", "export_moved", "audit_unreadable"),
    summary="Export the audit, piece by piece",
)
async def export_audit(wanted: ExportAuditBody, dependencies: Dependencies, principal: AuditReader) -> Response:
    """Return the next lines of a bundle, which `towpath audit verify` checks without the platform.

    The bundle of every project needs the scope `platform:operate` too.
    """
    if wanted.every_project:
        require_scope(principal, OPERATE_PLATFORM)
    request = ExportAudit(
        project=EVERY_PROJECT if wanted.every_project else principal.project,
        actor=principal.actor,
        since=wanted.since,
        until=wanted.until,
        cursor=wanted.cursor,
        previous=wanted.previous,
    )
    return json_answer(await dependencies.platform.request(rpc.AUDIT_EXPORT, request, AUDIT_TIMEOUT_S))


@router.get(
    "/checkpoint",
    response_model=CheckpointView,
    responses=documented("audit_broken", "audit_clock_differs"),
    summary="The newest checkpoint",
)
async def get_checkpoint(dependencies: Dependencies, principal: AuditReader) -> Response:
    """Seal what is committed and return the signed checkpoint; keep it where the platform can't reach it."""
    request = GetCheckpoint(project=principal.project)
    return json_answer(await dependencies.platform.request(rpc.AUDIT_CHECKPOINT, request, AUDIT_TIMEOUT_S))


@router.get(
    "/proof/{run_id}",
    response_model=AuditProof,
    responses=documented("not_found", "audit_broken", "audit_clock_differs", "request_too_large"),
    summary="Prove entries of a run",
)
async def prove_run(
    run_id: UUID,
    dependencies: Dependencies,
    principal: AuditReader,
    execution_id: Annotated[UUID | None, Query(description="of this call alone")] = None,
    size: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="the leaves of a checkpoint you kept")] = None,
) -> Response:
    """Return the entries with their paths in the tree of a signed checkpoint: the newest, or that of `size` leaves."""
    request = ProveRun(project=principal.project, run_id=run_id, execution_id=execution_id, size=size)
    return json_answer(await dependencies.platform.request(rpc.AUDIT_PROVE, request, AUDIT_TIMEOUT_S))


@router.get(
    "/entries/{entry_id}/proof",
    response_model=AuditProof,
    responses=documented("not_found", "audit_broken", "audit_clock_differs"),
    summary="Prove one entry",
)
async def prove_entry(
    entry_id: Annotated[int, Path(ge=1, le=2**63 - 1)],
    dependencies: Dependencies,
    principal: AuditReader,
    size: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="the leaves of a checkpoint you kept")] = None,
) -> Response:
    """Return one entry, also one of no run, with its path in the tree of a signed checkpoint."""
    request = ProveRun(project=principal.project, entry_id=entry_id, size=size)
    return json_answer(await dependencies.platform.request(rpc.AUDIT_PROVE, request, AUDIT_TIMEOUT_S))

"""The audit over HTTP: searching it, exporting it, its checkpoints, erasures.

A method is one operation of the HTTP API, with its answer as a typed message; an export is as many as it takes.
"""

import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

from towpath.client.transport import Transport
from towpath_contracts.tools.access import AuditPage
from towpath_contracts.tools.audit import AuditPiece, AuditProof, CheckpointView
from towpath_contracts.tools.erasures import ErasureList, ErasureStatus, ErasureView


class AuditFilters(TypedDict, total=False):
    """Of `client.audit.search`; `since` and `until` are inclusive, `before` is the entry that ended the page before."""

    run_id: "UUID | str | None"
    execution_id: "UUID | str | None"
    agent_key: str | None
    tool: str | None
    verdict: str | None
    phase: str | None
    actor: str | None
    args_digest: str | None
    since: datetime | str | None
    until: datetime | str | None
    before: int | None
    limit: int | None


class PayloadSelection(TypedDict, total=False):
    """Which payloads of the audit are to be erased: those that fit all that is given. `before` is exclusive."""

    run_id: "UUID | str | None"
    execution_id: "UUID | str | None"
    caller: str | None
    before: datetime | str | None


class ErasureFilters(TypedDict, total=False):
    """Of `client.audit.erasures`."""

    status: "ErasureStatus | None"
    before: "UUID | str | None"
    limit: int | None


class AuditResource:
    """The record of what was decided and what happened."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def search(self, **filters: Unpack[AuditFilters]) -> AuditPage:
        """Return entries, newest first."""
        query = {name: _text(value) for name, value in filters.items() if value is not None}
        return AuditPage.model_validate(await self._transport.request("GET", "/v1/audit", query=query))

    async def export(
        self, *, since: datetime | None = None, until: datetime | None = None, every_project: bool = False
    ) -> AsyncIterator[str]:
        """Yield the lines of a bundle, without their newlines; *since* and *until* are inclusive.

        *every_project* needs the scope `platform:operate`: nothing is hidden in that bundle.
        """
        asked: dict[str, Any] = {"since": _text(since), "until": _text(until), "every_project": every_project or None}
        body = {name: value for name, value in asked.items() if value is not None}
        while True:
            piece = AuditPiece.model_validate(await self._transport.request("POST", "/v1/audit/export", body=body))
            for line in piece.lines:
                yield line
            if piece.cursor is None:
                return
            last = hashlib.sha256(piece.lines[-1].encode()).hexdigest()
            body |= {"cursor": piece.cursor.model_dump(mode="json"), "previous": last}

    async def checkpoint(self) -> CheckpointView:
        """Return a checkpoint over everything that is recorded now; keep it where the platform can't reach it."""
        return CheckpointView.model_validate(await self._transport.request("GET", "/v1/audit/checkpoint"))

    async def prove(
        self, run_id: UUID | str, *, execution_id: UUID | str | None = None, size: int | None = None
    ) -> AuditProof:
        """Prove the entries of a run, or of one call of it, under the newest checkpoint or that of *size* leaves."""
        query = {"execution_id": None if execution_id is None else str(execution_id), "size": size}
        return AuditProof.model_validate(await self._transport.request("GET", f"/v1/audit/proof/{run_id}", query=query))

    async def prove_entry(self, entry_id: int, *, size: int | None = None) -> AuditProof:
        """Prove one entry, also one of no run, under the newest checkpoint or that of *size* leaves."""
        path = f"/v1/audit/entries/{entry_id}/proof"
        return AuditProof.model_validate(await self._transport.request("GET", path, query={"size": size}))

    async def request_erasure(self, reason: str, **which: Unpack[PayloadSelection]) -> ErasureView:
        """Ask for the payloads that fit all of *which* to be erased."""
        named = {name: _text(value) for name, value in which.items() if value is not None}
        body = {"reason": reason, **named}
        return ErasureView.model_validate(await self._transport.request("POST", "/v1/erasures", body=body))

    async def request_run_erasure(self, run_id: UUID | str, reason: str) -> ErasureView:
        """Ask for all that is stored of an ended run, and of the runs below it, to be erased."""
        path = f"/v1/runs/{run_id}/erase"
        return ErasureView.model_validate(await self._transport.request("POST", path, body={"reason": reason}))

    async def erasures(self, **filters: Unpack[ErasureFilters]) -> ErasureList:
        """Return erasures, newest first."""
        query = {name: _text(value) for name, value in filters.items() if value is not None}
        return ErasureList.model_validate(await self._transport.request("GET", "/v1/erasures", query=query))

    async def erasure(self, erasure_id: UUID | str) -> ErasureView:
        """Return one erasure: who asked, and how far it is."""
        return ErasureView.model_validate(await self._transport.request("GET", f"/v1/erasures/{erasure_id}"))

    async def confirm_erasure(self, erasure_id: UUID | str) -> ErasureView:
        """Have an erasure carried out that another person asked for; nothing brings back what is erased."""
        path = f"/v1/erasures/{erasure_id}/confirm"
        return ErasureView.model_validate(await self._transport.request("POST", path))

    async def withdraw_erasure(self, erasure_id: UUID | str) -> ErasureView:
        """Drop a request that nobody has confirmed."""
        path = f"/v1/erasures/{erasure_id}/withdraw"
        return ErasureView.model_validate(await self._transport.request("POST", path))


def _text(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)

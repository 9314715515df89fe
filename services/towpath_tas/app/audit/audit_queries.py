"""Queries of the audit log, and uploads and downloads of the blobs of calls.

An answer never holds anything of another project. A blob is stored only under the digest of its own bytes, and only for
a call in progress that shows a valid ticket.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from typing import Any

from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.tools.access import AuditEntry, AuditPage, AuditQuery, RecordAction
from towpath_contracts.tools.calls import MAX_RESULT_BYTES, BlobChunk
from towpath_contracts.tools.internal_outcomes import GetWorkspaceChunk
from towpath_contracts.tools.tickets import TicketClaims
from towpath_fabric.tickets import TicketRefusedError
from towpath_tas.adapters.ledger_tables import QUERIES, platform_audit_row
from towpath_tas.app.calls.dispatcher import TicketIssuer
from towpath_tas.app.policy.policy_diff import HISTORY, ID_TIME_SLACK, entry_at
from towpath_tas.app.worker_turns import WorkerTurns

MAX_TOTAL = 10_000
"""Matches are counted up to this number: counting more would take long."""

MAX_SCANNED = 250_000
"""Entries that one page scans at most, a tenth of a second of Postgres; as many are counted beside it."""

MAX_SCANNED_PAYLOADS = 50_000
"""Entries that one page scans where payloads decide: these are in a table of their own, and no index has them."""

MAX_PAGE_BYTES = 900_000
"""Of the entries of one page, which travels as one message: a call's details may have 300 kB."""

ENTRY_BYTES = 1_500
"""Of an entry beside its details and its actor, at most: who acted may be any text, such as a worker's name."""

CHUNK_BYTES = 256 * 1024
MAX_CHUNKS = MAX_RESULT_BYTES // CHUNK_BYTES

_TICKET = re.compile(rb'"ticket"\s*:\s*"([\w.-]+)"')


class AuditQueries:
    """Answers queries, and records actions of people that are no tool calls."""

    def __init__(self, pool: Any, reads: Any = None) -> None:
        """Entries are stored by *pool*, and searched in *reads*, where it is given; it may be a moment behind."""
        self._pool = pool
        self._reads = reads or pool

    async def record(self, request: RecordAction) -> ActionDone:
        """Store an entry, unless it is there `once` already; it is committed when this returns."""
        detail = {**request.detail, "reason": request.reason}
        entry = platform_audit_row(
            *(request.project, request.action, "initiated"), actor=request.actor, run_id=request.run_id, detail=detail
        )
        if request.once and request.run_id is not None:
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(QUERIES.lock_run_actions, request.run_id)
                said = (request.run_id, request.project, request.action, request.actor)
                if not await connection.fetchval(QUERIES.run_action_said, *said):
                    await connection.execute(QUERIES.add_audit, [entry])
        else:
            await self._pool.execute(QUERIES.add_audit, [entry])
        return ActionDone(detail="recorded")

    async def query(self, request: AuditQuery) -> AuditPage:
        """Return a page of entries, newest first.

        A page scans a bounded part of the audit: it may be empty and still have a page before it. It has as many
        entries as fit an answer, and at least one.
        """
        filters = (
            *(request.project, request.run_id, request.execution_id, request.agent_key, request.tool),
            *(request.verdict, request.phase, request.actor, request.since, request.until),
        )
        whole = request.run_id is not None  # a run's entries have an index of their own
        page_of, total_of = (QUERIES.audit, QUERIES.audit_total)
        if whole:
            page_of, total_of = (QUERIES.audit_of_run, QUERIES.audit_total_of_run)
        first, last = await self._window(request)
        most = MAX_SCANNED if request.args_digest is None else MAX_SCANNED_PAYLOADS
        upper = last if request.before is None else min(last, request.before - 1)
        lower = first if whole else max(first, upper - most + 1)
        bounds = (request.before, request.limit + 1, lower, upper)
        rows = await self._reads.fetch(page_of, *filters, *bounds, request.args_digest)
        counted_from = first if whole else max(first, last - most + 1)
        total = len(rows)
        if len(rows) > request.limit or request.before is not None:  # else the page is all of what is counted
            total = await self._reads.fetchval(total_of, *filters, MAX_TOTAL, counted_from, last, request.args_digest)
        page = _fitting(rows[: request.limit])
        before = page[-1]["entry_id"] if len(rows) > len(page) else lower if lower > first else None
        return AuditPage(entries=tuple(_entry(row) for row in page), next_before=before, total=total)

    async def _window(self, request: AuditQuery) -> tuple[int, int]:
        """Return the first and last entry that the times of *request* can mean."""
        first = 1 if request.since is None else await entry_at(self._reads, request.since, -ID_TIME_SLACK)
        if request.until is not None:
            return first, await entry_at(self._reads, request.until, ID_TIME_SLACK) - 1
        return first, await self._reads.fetchval(HISTORY.last_entry)


class CallBlobRequests:
    """Stores large results in pieces, and returns the files of a call."""

    def __init__(self, pool: Any, tickets: TicketIssuer, turns: WorkerTurns) -> None:
        self._pool = pool
        self._tickets = tickets
        self._turns = turns

    def owner_of(self, _subject: str, body: bytes) -> str:
        """Return the project of a request before it is read, by its ticket; nothing without a good one."""
        found = _TICKET.search(body)
        try:
            return "" if found is None else self._tickets.read(found[1].decode()).project
        except TicketRefusedError:
            return ""

    async def put(self, chunk: BlobChunk) -> ActionDone:
        """Store one piece; the last one completes the blob. Raises ProblemError for anything invalid."""
        claims = self._vouched(chunk)
        async with self._turns.held(claims.project):
            return await self._put(chunk, claims)

    async def _put(self, chunk: BlobChunk, claims: TicketClaims) -> ActionDone:
        if not await self._pool.fetchval(QUERIES.blob_wanted, claims.run_id, claims.execution_id):
            raise ProblemError(problem("forbidden", "the call is not under way"))
        execution_id = claims.execution_id
        if await self._pool.fetchval(QUERIES.blob_exists, claims.project, chunk.digest):
            return ActionDone(detail="stored")
        await self._pool.execute(QUERIES.add_piece, execution_id, chunk.digest, chunk.index, _data(chunk))
        if chunk.index < chunk.total - 1:
            return ActionDone(detail=f"piece {chunk.index + 1} of {chunk.total}")
        rows = await self._pool.fetch(QUERIES.pieces, execution_id, chunk.digest)
        data = b"".join(row["data"] for row in rows)
        await self._pool.execute(QUERIES.drop_pieces, execution_id, chunk.digest)
        if [row["piece"] for row in rows] != list(range(chunk.total)) or digest_text(data) != chunk.digest:
            detail = f"{len(rows)} of {chunk.total} pieces are here and make another digest; send all of them again"
            raise ProblemError(problem("request_invalid", detail))
        await self._pool.execute(QUERIES.add_blob, claims.project, chunk.digest, data, len(data))
        return ActionDone(detail="stored")

    async def get(self, request: GetWorkspaceChunk) -> BlobChunk:
        """Return one piece of the file list of a call in progress, or of a file in it; raises ProblemError."""
        claims = self._opened(request.ticket)
        async with self._turns.held(claims.project):
            return await self._get(request, claims)

    async def _get(self, request: GetWorkspaceChunk, claims: TicketClaims) -> BlobChunk:
        row = await self._pool.fetchrow(QUERIES.files_of_call, claims.run_id, claims.execution_id)
        if row is None:
            raise ProblemError(problem("forbidden", "the call is not under way, or works with no files"))
        named = {file["digest"] for file in json.loads(row["data"]).values()} | {row["digest"]}
        if request.digest not in named:
            raise ProblemError(problem("forbidden", f"the call works with no file {request.digest}"))
        data = await self._pool.fetchval(QUERIES.blob_data, claims.project, request.digest)
        if data is None:
            raise ProblemError(problem("not_found", f"no blob {request.digest}"))
        return BlobChunk(
            digest=request.digest,
            index=request.index,
            total=max(1, -(-len(data) // CHUNK_BYTES)),
            data_base64=base64.b64encode(
                data[request.index * CHUNK_BYTES : (request.index + 1) * CHUNK_BYTES]
            ).decode(),
        )

    def _opened(self, ticket: str) -> TicketClaims:
        try:
            return self._tickets.read(ticket)
        except TicketRefusedError as error:
            raise ProblemError(problem("forbidden", f"the ticket is {error.reason}")) from error

    def _vouched(self, chunk: BlobChunk) -> TicketClaims:
        if not 0 <= chunk.index < chunk.total:
            raise ProblemError(problem("request_invalid", f"piece {chunk.index} of {chunk.total} can't be"))
        if chunk.total > MAX_CHUNKS:
            raise ProblemError(problem("request_too_large", f"at most {MAX_RESULT_BYTES} bytes are stored"))
        claims = self._opened(chunk.ticket)
        if chunk.execution_id is not None and chunk.execution_id != claims.execution_id:
            raise ProblemError(problem("forbidden", "the ticket is for another call"))
        return claims


def _data(chunk: BlobChunk) -> bytes:
    try:
        data = base64.b64decode(chunk.data_base64, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ProblemError(problem("request_invalid", "data_base64 is not base64")) from error
    if len(data) > CHUNK_BYTES:
        raise ProblemError(problem("request_too_large", f"a piece has at most {CHUNK_BYTES} bytes"))
    return data


def _fitting(rows: Sequence[Any]) -> Sequence[Any]:
    """Return as many of *rows* as fit an answer, and at least one."""
    room = MAX_PAGE_BYTES
    for place, row in enumerate(rows):
        actor = json.dumps(row["actor"], ensure_ascii=False)
        room -= len(row["detail"].encode()) + len(actor.encode()) + ENTRY_BYTES
        if room < 0:
            return rows[: max(1, place)]
    return rows


def _entry(row: Any) -> AuditEntry:
    detail = json.loads(row["detail"])
    version = detail.get("tool_version") if row["execution_id"] is not None else None
    told = {"detail": detail, "tool_version": version if type(version) is int else 0}
    return AuditEntry.model_validate({**dict(row), **told})

"""Exports of the audit, piece by piece.

A bundle discloses the entries of one project, or of all; of other leaves it holds what they hash, so that the Merkle
tree can be recomputed. What a piece holds depends on its cursor alone, so any replica can make it.

The cursor comes back from a client and says what the service signs next, so it is signed itself: together with the
project, the requested times and the end of the piece before. Otherwise a client could have a bundle signed that skips
entries of its choice.
"""

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from towpath_audit import bundle
from towpath_audit.bundle import digest, serialize_line
from towpath_audit.completeness import EFFECTS, PERMISSIONS
from towpath_audit.notes import PublicKey, Signer, write_time
from towpath_audit.sealed_erasures import ERASED
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.audit import (
    AuditExportCursor,
    AuditPiece,
    CheckpointView,
    ExportAudit,
    GetCheckpoint,
)
from towpath_fabric.clock import wall
from towpath_tas.app.audit.export_piece import (
    MAX_LEAVES,
    ExportPiece,
    add_leaves_and_checkpoints,
    effect_line,
    entry_of,
    is_large,
    payload_of,
)
from towpath_tas.app.audit.export_start import bundle_start
from towpath_tas.app.audit.sealer import QUERIES, Sealer, SealRefusedError
from towpath_tas.app.audit.stored_lines import add_stored, detail_of, is_whole
from towpath_tas.app.audit.tree_paths import MerklePaths, MissingLeavesError

MAX_SEALS = 400
MAX_EFFECTS = 1_000
"""Rows read for one piece."""

LET_GO = frozenset({"started", "succeeded", "failed", "unknown"})
"""What the ledger says of a call that was let go."""

MAX_EARLIER_BYTES = 8_000
"""Larger payloads of entries from before the bundle are not shown: many of them may come with one piece."""

MAX_POLICY_BYTES = 100_000
"""The same of entries that applied policies: there are few, and each names up to 150 rules."""

_CURSOR_FORMAT = b"towpath-audit-cursor-1\n"
_ZERO_ID = UUID(int=0)


class AuditLogRequests:
    """Seals and exports: requests about the log as a whole."""

    def __init__(self, pool: Any, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer

    async def checkpoint(self, request: GetCheckpoint) -> CheckpointView:  # FastStream drops names that begin with "_"
        """Seal what is committed, and return the checkpoint; raises ProblemError for a log that can't be sealed."""
        key = self._sealer.signer.public
        try:
            sealed = await self._sealer.current()
        except SealRefusedError as error:
            raise ProblemError(problem(error.code, str(error))) from error
        return CheckpointView(
            note=sealed.note,
            size=sealed.edge.size,
            at=sealed.at,
            public_key=key.text,
            fingerprint=key.fingerprint,
        )

    async def export(self, request: ExportAudit) -> AuditPiece:
        """Return the next piece of a bundle; the first one seals what is committed, which fixes its end."""
        _check_cursor(request, self._sealer.signer)
        try:
            return await self._piece(request)
        except (ValueError, OverflowError) as error:  # a time beyond the calendar, say: no service writes such a row
            raise ProblemError(
                problem("audit_unreadable", f"a table has a value that nobody writes: {error}")
            ) from error

    async def _piece(self, request: ExportAudit) -> AuditPiece:
        piece = ExportPiece()
        cursor = request.cursor
        if cursor is None:
            cursor = await self._begin(request, piece)
            number = 0
        else:
            number = cursor.page
        if cursor.leaves_done:
            following = await self._effects(request, cursor, piece)
        else:
            following = await self._leaves(request, cursor, piece)
        piece.flush()
        watched = await self._check_unchanged(request, cursor)
        trailer = bundle.page(number, request.previous, piece.lines, self._sealer.signer, last=following is None)
        if following is not None:
            following = following.model_copy(update={"watched": watched})
            following = _sign_cursor(following, request, trailer, self._sealer.signer)
        return AuditPiece(lines=(*piece.lines, trailer), cursor=following)

    async def _check_unchanged(self, request: ExportAudit, cursor: AuditExportCursor) -> int | None:
        """Return up to which leaf was checked; raises ProblemError for an erasure or a drop after the bundle's end.

        Checked after the piece was read, so a change that the piece could have missed is always seen here.
        """
        if cursor.watched is None:
            return None
        row = await self._pool.fetchrow(QUERIES.moved, cursor.watched, request.project)
        if row["moved"]:
            raise ProblemError(problem("export_moved", "payloads were erased, or retention dropped a segment"))
        seen: int = row["seen"]
        return max(cursor.watched, seen)

    async def _begin(self, request: ExportAudit, piece: ExportPiece) -> AuditExportCursor:
        end_seal, size, watched = await self._end()
        async with self._pool.acquire() as connection:
            keys = await self._sealer.known_keys(connection)
            first = await bundle_start(connection, keys, request.since)
        if (
            first.seal_id >= end_seal
        ):  # nothing was sealed since then: a bundle has a checkpoint of its own all the same
            end_seal, size, watched = await self._end(fresh=True)
        piece.add(
            bundle.header(
                origin=self._sealer.signer.public.name,
                project=request.project,
                since=_iso_time(request.since),
                until=_iso_time(request.until),
                edge=first.edge,
                size=size,
                keys=keys,
                exported_at=write_time(wall()),
                exported_by=request.actor,
                sealed=watched is not None,
                begins=first.note,
                kept=first.kept,
            )
        )
        since = max((one for one in (request.since, first.effects_from) if one is not None), default=None)
        return AuditExportCursor(
            page=1,
            end_seal=end_seal,
            size=size,
            seal_id=first.seal_id,
            leaf=first.edge.size,
            effects_since=since,
            watched=watched,
        )

    async def _end(self, *, fresh: bool = False) -> tuple[int, int, int | None]:
        """Return the last seal and size of the bundle, and from which leaf on erasures are checked for.

        A log that can't be sealed any more is exported as it stands: it is evidence, and its erasures get no leaf.
        """
        try:
            sealed = await self._sealer.current(fresh=fresh)
        except SealRefusedError as error:
            row = await self._pool.fetchrow(QUERIES.last_seal)
            if row is None:
                raise ProblemError(problem(error.code, str(error))) from error
            return row["seal_id"], row["size"], None
        return sealed.seal_id, sealed.edge.size, sealed.edge.size

    async def _leaves(self, request: ExportAudit, cursor: AuditExportCursor, piece: ExportPiece) -> AuditExportCursor:
        async with self._pool.acquire() as connection:
            seals = await connection.fetch(QUERIES.seals, cursor.seal_id, cursor.end_seal, MAX_SEALS)
            rows = await connection.fetch(QUERIES.leaves, cursor.leaf, cursor.size, MAX_LEAVES)
            more = len(rows) == MAX_LEAVES
            keys = await self._sealer.known_keys(connection)
            start = piece.mark()
            while True:
                shown = _disclosed(rows, request)
                await _add_earlier(connection, shown, request, piece, keys)
                await _add_policies(connection, shown, piece)
                await _add_steps(connection, shown, piece)
                await add_stored(connection, shown, piece, cursor.size, request.until)
                if not piece.full or len(rows) < 2:
                    break
                piece.cut(start)  # what these leaves rest on leaves no room for them: half of them, then
                rows, more = rows[: len(rows) // 2], True
        disclosed = {row["leaf_index"] for row in shown}
        seal_id, leaf = add_leaves_and_checkpoints(seals, rows, disclosed, cursor, piece, more=more)
        done = seal_id >= cursor.end_seal
        page = cursor.page + 1 if request.cursor is not None else cursor.page
        return cursor.model_copy(update={"page": page, "seal_id": seal_id, "leaf": leaf, "leaves_done": done})

    async def _effects(
        self, request: ExportAudit, cursor: AuditExportCursor, piece: ExportPiece
    ) -> AuditExportCursor | None:
        """Add ledger rows. A call whose decision is sealed later, or not disclosed here, belongs to another bundle."""
        rows = await self._pool.fetch(
            QUERIES.effects,
            *(request.project, cursor.run_id or _ZERO_ID, cursor.execution_id or _ZERO_ID),
            *(cursor.effects_since, request.until, MAX_EFFECTS),
        )
        for row in rows:
            if _was_let_go(row) and _belongs_to_bundle(row, cursor.size, request.until):
                piece.add(effect_line(row, last_entry=is_whole(row, cursor.size, request.until)))
        if len(rows) < MAX_EFFECTS:
            return None
        last = rows[-1]
        update = {"page": cursor.page + 1, "run_id": last["run_id"], "execution_id": last["execution_id"]}
        return cursor.model_copy(update=update)


def _sign_cursor(cursor: AuditExportCursor, request: ExportAudit, trailer: str, signer: Signer) -> AuditExportCursor:
    """Return *cursor* with the signature that `_check_cursor` requires; *trailer* ends the piece before."""
    signature = signer.sign(_signed_bytes(cursor, request, digest(trailer)))
    return cursor.model_copy(update={"signature": base64.b64encode(signature).decode()})


def _check_cursor(request: ExportAudit, signer: Signer) -> None:
    """Raise ProblemError `cursor_refused` for a request whose cursor was not given for just this request.

    A time that can't be written is refused as well, as `request_invalid`.
    """
    _ = _iso_time(request.since), _iso_time(request.until)
    if request.cursor is None:
        if request.previous:
            raise ProblemError(problem("cursor_refused", "the first piece has none before it: send no previous"))
        return
    try:
        signature = base64.b64decode(request.cursor.signature, validate=True)
    except ValueError:
        signature = b""
    if not signer.public.holds(signature, _signed_bytes(request.cursor, request, request.previous)):
        detail = "the cursor was not given for this project, this time and this piece"
        raise ProblemError(problem("cursor_refused", detail))


def _signed_bytes(cursor: AuditExportCursor, request: ExportAudit, previous: str) -> bytes:
    content = cursor.model_dump(mode="json", exclude={"signature"})
    content["effects_since"] = _iso_time(cursor.effects_since)
    sent_scope = (request.project, _iso_time(request.since), _iso_time(request.until), previous)
    return _CURSOR_FORMAT + serialize_line({"cursor": content, "asked": sent_scope}).encode()


def _iso_time(at: datetime | None) -> str | None:
    """Return *at* as bundles write it; raises ProblemError for a time that is out of the calendar in UTC."""
    try:
        return None if at is None else write_time(at)
    except OverflowError as error:
        raise ProblemError(problem("request_invalid", "a time is out of the calendar")) from error


def _disclosed(rows: Iterable[Any], request: ExportAudit) -> list[Any]:
    """Return the leaves that are disclosed; a leaf without its record is, because a verifier has to find it."""
    shown = []
    for row in rows:
        own = request.project in {row["project"], bundle.EVERY_PROJECT}
        if row["entry_id"] is None:
            shown.append(row)
        elif row["phase"].startswith("audit.") and (own or not row["project"]):
            shown.append(row)  # entries about the log itself are needed to verify it, whatever times are requested
        elif own and _in_time(row["at"], request):
            shown.append(row)
    return shown


def _in_time(at: datetime, request: ExportAudit) -> bool:
    """Only `until` limits: all entries since the checkpoint before `since` are disclosed, as a commit may be late."""
    return request.until is None or at <= request.until


async def _add_earlier(
    connection: Any, shown: Iterable[Any], request: ExportAudit, piece: ExportPiece, keys: Sequence[PublicKey]
) -> None:
    """Add what this piece rests on and stands before the bundle begins, with its path.

    That is the decisions of its calls with the votes of their approvals, the policies that were decided under, and who
    asked for the erasures that it names and confirmed them. The piece that begins the bundle also has the last entry of
    retention before it, and the policy that was in force there: no older one decides in it.
    """
    shown, begins = list(shown), request.cursor is None
    going = [row for row in shown if row["execution_id"] is not None and _rests_on_earlier(row)]
    policies = _policies_of(shown)
    erasures = [str(detail_of(row).get("erasure_id")) for row in shown if row["phase"] == ERASED]
    if request.since is None or not (going or policies or erasures or begins):
        return
    edge = (await bundle_start(connection, keys, request.since)).edge
    if edge.size == 0:
        return
    calls = [row["run_id"] for row in going], [row["execution_id"] for row in going]
    found = list(await connection.fetch(QUERIES.earlier, *calls, edge.size, MAX_EARLIER_BYTES))
    if policies is not None:
        found += await connection.fetch(QUERIES.policies_before, *policies, edge.size, MAX_POLICY_BYTES)
    if erasures:
        found += await connection.fetch(QUERIES.erasures_before, erasures, edge.size)
    if begins:
        found += await connection.fetch(QUERIES.newest_policy_before, request.project, edge.size, MAX_POLICY_BYTES)
        found += await connection.fetch(QUERIES.dropped_before, edge.size)
    paths = MerklePaths(connection)
    for row in {one["entry_id"]: one for one in found}.values():
        try:
            path = await paths.of(row["leaf_index"], edge.size)
        except MissingLeavesError:
            continue  # a damaged log is evidence too: the verifier finds what is missing
        payload = payload_of(row)
        if payload is not None and is_large(payload):
            payload = None  # none of these is so large: it was swapped, and what is not shown excuses nothing
        piece.add(bundle.earlier(row["leaf_index"], entry_of(row), path, payload))


def _rests_on_earlier(row: Any) -> bool:
    return row["phase"] in EFFECTS or (row["phase"], row["verdict"]) in PERMISSIONS


def _policies_of(shown: Iterable[Any]) -> tuple[list[str], list[int]] | None:
    """Return the policy versions that were decided under, as projects and versions."""
    named = sorted({(row["project"], row["policy_version"]) for row in shown if row["phase"] == "decision"})
    return ([one for one, _ in named], [two for _, two in named]) if named else None


async def _add_policies(connection: Any, shown: Iterable[Any], piece: ExportPiece) -> None:
    policies = _policies_of(shown)
    if policies is None:
        return
    for row in await connection.fetch(QUERIES.policy_versions, *policies):
        piece.add(bundle.policy(row["project"], row["version"], row["digest"], write_time(row["applied_at"])))


async def _add_steps(connection: Any, shown: Iterable[Any], piece: ExportPiece) -> None:
    calls = [row for row in shown if row["phase"] == "decision" and row["execution_id"] is not None]
    if not calls:
        return
    found = await connection.fetch(
        QUERIES.steps, [row["run_id"] for row in calls], [row["execution_id"] for row in calls]
    )
    for row in found:
        where = bundle.step(
            *(str(row["execution_id"]), str(row["run_id"]), row["seq"]),
            kept=row["kept"],
            erased=row["erased"],
            caller=row["caller"],
            project=row["project"],
        )
        piece.add(where)


def _was_let_go(row: Any) -> bool:
    """Return whether a call may have had an effect: by its row, or by the entry that let it start."""
    return row["status"] in LET_GO or row["claimed"]


def _belongs_to_bundle(row: Any, size: int, until: datetime | None) -> bool:
    if row["decided_at"] is None:
        return True
    sealed = row["decided_leaf"] is not None and row["decided_leaf"] < size
    return sealed and (until is None or row["decided_at"] <= until)

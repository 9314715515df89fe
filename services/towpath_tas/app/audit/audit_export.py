"""Exports of the audit, piece by piece, and the erasing of payloads.

A bundle discloses the entries of one project only; of all other leaves it holds the hashes, so that the tree can
be followed. What a piece holds depends on its cursor alone, so any replica can make it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from towpath_audit import bundle
from towpath_audit.completeness import EFFECTS
from towpath_audit.entries import Entry, Payload
from towpath_audit.merkle import Edge
from towpath_audit.notes import write_time
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.audit import (
    AuditCursor,
    AuditErased,
    AuditExport,
    AuditPiece,
    CheckpointView,
    EraseAudit,
    GetCheckpoint,
)
from towpath_fabric.clock import wall
from towpath_tas.app.audit.export_cursor import held, moment, signed
from towpath_tas.app.audit.sealer import QUERIES, BrokenLogError, Sealer, known_keys
from towpath_tas.app.audit.tree_paths import Paths, TornLogError

PIECE_LEAVES = 400
PIECE_SEALS = 400
PIECE_EFFECTS = 1_000
PIECE_BYTES = 400_000
"""About what one piece holds, as it travels: a message of the broker has at most 1 MB."""

SHOWN_BYTES = 300_000
"""A payload that is larger would not fit into a message of the broker, and is said to be withheld."""

ERASED_AT_ONCE = 5_000
ERASED_PER_REQUEST = 100_000
NOTHING = UUID(int=0)


@dataclass(slots=True)
class _Piece:
    """Lines on their way, and the leaves that are not disclosed and wait to become one line; `weight` is in bytes."""

    lines: list[str] = field(default_factory=list)
    weight: int = 0
    _hidden: list[bytes] = field(default_factory=list)
    _hidden_from: int = 0

    @property
    def full(self) -> bool:
        return self.weight >= PIECE_BYTES

    def add(self, line: bundle.Line) -> None:
        self.flush()
        self._write(line)

    def hide(self, index: int, leaf_hash: bytes) -> None:
        if not self._hidden:
            self._hidden_from = index
        self._hidden.append(leaf_hash)

    def flush(self) -> None:
        if self._hidden:
            self._write(bundle.hidden(self._hidden_from, self._hidden))
            self._hidden = []

    def _write(self, line: bundle.Line) -> None:
        text = bundle.written(line)
        self.lines.append(text)
        self.weight += len(json.dumps(text))  # as it travels: a text within a text


class Bundles:
    """Answers what is asked of the log as a whole."""

    def __init__(self, pool: Any, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer

    async def checkpoint(self, _request: GetCheckpoint) -> CheckpointView:
        """Seal what is committed, and return the checkpoint; raises ProblemError for a log that can't be sealed."""
        key = self._sealer.signer.public
        try:
            sealed = await self._sealer.current()
        except BrokenLogError as error:
            raise ProblemError(problem("audit_broken", str(error))) from error
        return CheckpointView(
            note=sealed.note,
            size=sealed.edge.size,
            at=sealed.at,
            public_key=key.text,
            fingerprint=key.fingerprint,
        )

    async def export(self, request: AuditExport) -> AuditPiece:
        """Return the next piece of a bundle; the first one seals what is committed, and so fixes its end."""
        held(request, self._sealer.signer)
        piece = _Piece()
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
        watched = await self._unmoved(request, cursor)
        trailer = bundle.page(number, request.previous, piece.lines, self._sealer.signer, last=following is None)
        if following is not None:
            following = following.model_copy(update={"watched": watched})
            following = signed(following, request, trailer, self._sealer.signer)
        return AuditPiece(lines=(*piece.lines, trailer), cursor=following)

    async def _unmoved(self, request: AuditExport, cursor: AuditCursor) -> int | None:
        """Say up to which leaf was looked; raises ProblemError where an erasure or a drop came after the bundle's end.

        Asked after the piece was read, so that nothing that the piece could miss is missed here.
        """
        if cursor.watched is None:
            return None
        row = await self._pool.fetchrow(QUERIES.moved, cursor.watched, request.project)
        if row["moved"]:
            raise ProblemError(problem("export_moved", "payloads were erased, or retention dropped a segment"))
        seen: int = row["seen"]
        return max(cursor.watched, seen)

    async def erase(self, request: EraseAudit) -> AuditErased:
        """Erase the payloads that fit, step by step, each in the log; raises ProblemError where nothing is named."""
        named = (request.run_id, request.execution_id, request.caller, request.before)
        if all(one is None for one in named):
            raise ProblemError(problem("request_invalid", "say whose payloads: run_id, execution_id, caller or before"))
        erased = 0
        while erased < ERASED_PER_REQUEST:
            rows = await self._pool.fetch(QUERIES.erasable, request.project, *named, ERASED_AT_ONCE)
            if not rows:
                return AuditErased(erased=erased)
            ids = [row["entry_id"] for row in rows]
            gone = await self._pool.fetchval(QUERIES.erase, request.project, ids, request.actor, request.reason)
            erased += len(gone)
        return AuditErased(erased=erased, more=True)

    async def _begin(self, request: AuditExport, piece: _Piece) -> AuditCursor:
        end_seal, size, watched = await self._end()
        async with self._pool.acquire() as connection:
            first = await _first_seal(connection, request.since)
            keys = await known_keys(connection)
        if first[0] >= end_seal:  # nothing was sealed since then: a bundle has a checkpoint of its own all the same
            end_seal, size, watched = await self._end(fresh=True)
        seal_id, edge, at = first
        piece.add(
            bundle.header(
                origin=self._sealer.signer.public.name,
                project=request.project,
                since=moment(request.since),
                until=moment(request.until),
                edge=edge,
                size=size,
                keys=keys,
                exported_at=write_time(wall()),
                exported_by=request.actor,
            )
        )
        since = max((one for one in (request.since, at) if one is not None), default=None)
        return AuditCursor(
            page=1,
            end_seal=end_seal,
            size=size,
            seal_id=seal_id,
            leaf=edge.size,
            effects_since=since,
            watched=watched,
        )

    async def _end(self, *, fresh: bool = False) -> tuple[int, int, int | None]:
        """Where the bundle ends, and from where on erasures are watched for.

        A log that can't be sealed any more is exported as it stands: it is evidence, and its erasures get no leaf.
        """
        try:
            sealed = await self._sealer.current(fresh=fresh)
        except BrokenLogError:
            row = await self._pool.fetchrow(QUERIES.last_seal)
            return row["seal_id"], row["size"], None
        return sealed.seal_id, sealed.edge.size, sealed.edge.size

    async def _leaves(self, request: AuditExport, cursor: AuditCursor, piece: _Piece) -> AuditCursor:
        async with self._pool.acquire() as connection:
            seals = await connection.fetch(QUERIES.seals, cursor.seal_id, cursor.end_seal, PIECE_SEALS)
            rows = await connection.fetch(QUERIES.leaves, cursor.leaf, cursor.size, PIECE_LEAVES)
            shown = _shown(rows, request)
            await _earlier(connection, shown, request, piece, begins=request.cursor is None)
            await _policies(connection, shown, piece)
            await _steps(connection, shown, piece)
        seal_id, leaf = _interleave(seals, rows, {row["leaf_index"] for row in shown}, cursor, piece)
        done = seal_id >= cursor.end_seal
        page = cursor.page + 1 if request.cursor is not None else cursor.page
        return cursor.model_copy(update={"page": page, "seal_id": seal_id, "leaf": leaf, "leaves_done": done})

    async def _effects(self, request: AuditExport, cursor: AuditCursor, piece: _Piece) -> AuditCursor | None:
        """A call whose decision is sealed later, or not disclosed here, belongs to another bundle."""
        rows = await self._pool.fetch(
            QUERIES.effects,
            *(request.project, cursor.run_id or NOTHING, cursor.execution_id or NOTHING),
            *(cursor.effects_since, request.until, PIECE_EFFECTS),
        )
        for row in rows:
            if _belongs(row, cursor.size, request.until):
                piece.add(_effect(row))
        if len(rows) < PIECE_EFFECTS:
            return None
        last = rows[-1]
        update = {"page": cursor.page + 1, "run_id": last["run_id"], "execution_id": last["execution_id"]}
        return cursor.model_copy(update=update)


async def _first_seal(connection: Any, since: datetime | None) -> tuple[int, Edge, datetime | None]:
    """Where the bundle's tree begins: at the last checkpoint before *since*, or where retention left off, or at 0."""
    kept = await connection.fetchval(QUERIES.first_leaf)
    begin = await connection.fetchrow(QUERIES.seal_of_size, kept) if kept else None
    if since is not None:
        begin = await connection.fetchrow(QUERIES.seal_before, since) or begin
    if begin is None:
        return 0, Edge(), None
    return begin["seal_id"], Edge.unpacked(begin["size"], begin["edge"]), begin["at"]


def _shown(rows: Iterable[Any], request: AuditExport) -> list[Any]:
    """The leaves that are disclosed; a leaf without its record is, because that is what has to be found."""
    shown = []
    for row in rows:
        if row["entry_id"] is None:
            shown.append(row)
        elif row["phase"].startswith("audit.") and row["project"] in {"", request.project}:
            shown.append(row)  # what the log says of itself is needed to understand it, whatever time was asked for
        elif row["project"] == request.project and _within(row["at"], request):
            shown.append(row)
    return shown


def _within(at: datetime, request: AuditExport) -> bool:
    """The bundle begins at the checkpoint before `since`, and all behind that is shown: a commit may be late."""
    return request.until is None or at <= request.until


def _interleave(
    seals: Sequence[Any], rows: Sequence[Any], shown: set[int], cursor: AuditCursor, piece: _Piece
) -> tuple[int, int]:
    """Write leaves and, after the last leaf that each covers, checkpoints; return what was written last."""
    seal_id, leaf, place = cursor.seal_id, cursor.leaf, 0
    more = len(rows) == PIECE_LEAVES
    for seal in seals:
        while leaf < seal["size"]:
            if piece.full or (place >= len(rows) and more):
                return seal_id, leaf
            if place >= len(rows):
                break  # leaves that are gone are not waited for: the checkpoint behind them tells
            _leaf(rows[place], rows[place]["leaf_index"] in shown, piece)
            leaf, place = rows[place]["leaf_index"] + 1, place + 1
        if piece.full:
            return seal_id, leaf
        piece.add(bundle.checkpoint(seal["note"]))
        seal_id = seal["seal_id"]
    return seal_id, leaf


def _leaf(row: Any, shown: bool, piece: _Piece) -> None:
    if not shown:
        piece.hide(row["leaf_index"], row["hash"])
    elif row["entry_id"] is None:
        gone = {"kind": "leaf", "leaf": row["leaf_index"], "entry": None, "payload": None, "hash": row["hash"].hex()}
        piece.add(gone)
    else:
        withheld = row["detail"] is not None and len(row["detail"].encode()) > SHOWN_BYTES
        payload = None if withheld else payload_of(row)
        piece.add(bundle.leaf(row["leaf_index"], entry_of(row), payload, row["hash"], withheld=withheld))


def entry_of(row: Any) -> Entry:
    """Return the entry of a row that has its columns."""
    return Entry(
        entry_id=row["entry_id"],
        at=write_time(row["at"]),
        run_id=_text(row["run_id"]),
        execution_id=_text(row["execution_id"]),
        **{name: row[name] for name in _AS_THEY_ARE},
    )


_AS_THEY_ARE = (
    *("project", "phase", "verdict", "tool", "operation", "network", "agent_key", "caller", "actor", "rule"),
    *("policy_version", "commitment"),
)


def payload_of(row: Any) -> Payload | None:
    """Return the payload of a row that has its columns; None where it is erased."""
    if row["salt"] is None:
        return None
    return Payload(salt=row["salt"], args_digest=row["args_digest"], detail=row["detail"])


async def _earlier(connection: Any, shown: Iterable[Any], request: AuditExport, piece: _Piece, *, begins: bool) -> None:
    """Show what let the calls go that went on in this piece and were decided before the bundle, each with its path.

    The piece that *begins* the bundle shows what retention last said before it, too.
    """
    going = [row for row in shown if row["execution_id"] is not None and row["phase"] in EFFECTS]
    if request.since is None or not (going or begins):
        return
    _, edge, _ = await _first_seal(connection, request.since)
    if edge.size == 0:
        return
    calls = [row["run_id"] for row in going], [row["execution_id"] for row in going]
    found = list(await connection.fetch(QUERIES.earlier, *calls, edge.size))
    if begins:
        found += await connection.fetch(QUERIES.dropped_before, edge.size)
    paths = Paths(connection)
    for row in found:
        try:
            path = await paths.of(row["leaf_index"], edge.size)
        except TornLogError:
            continue  # a torn log is evidence too: what it can't prove is missing in the bundle, and is found there
        piece.add(bundle.earlier(row["leaf_index"], entry_of(row), path))


async def _policies(connection: Any, shown: Iterable[Any], piece: _Piece) -> None:
    named = {(row["project"], row["policy_version"]) for row in shown if row["phase"] == "decision"}
    if not named:
        return
    pairs = sorted(named)
    found = await connection.fetch(QUERIES.policy_versions, [one for one, _ in pairs], [two for _, two in pairs])
    for row in found:
        piece.add(bundle.policy(row["project"], row["version"], row["digest"], write_time(row["applied_at"])))


async def _steps(connection: Any, shown: Iterable[Any], piece: _Piece) -> None:
    calls = [row for row in shown if row["phase"] == "decision" and row["execution_id"] is not None]
    if not calls:
        return
    found = await connection.fetch(
        QUERIES.steps, [row["run_id"] for row in calls], [row["execution_id"] for row in calls]
    )
    for row in found:
        piece.add(bundle.step(str(row["execution_id"]), str(row["run_id"]), row["seq"], kept=row["kept"]))


def _belongs(row: Any, size: int, until: datetime | None) -> bool:
    if row["decided_at"] is None:
        return True
    sealed = row["decided_leaf"] is not None and row["decided_leaf"] < size
    return sealed and (until is None or row["decided_at"] <= until)


def _effect(row: Any) -> bundle.Line:
    return bundle.effect(
        project=row["project"],
        run_id=str(row["run_id"]),
        execution_id=str(row["execution_id"]),
        tool=row["tool"],
        operation=row["operation"],
        status=row["status"],
        effect_class=row["effect_class"],
        policy_version=row["policy_version"],
        created_at=write_time(row["created_at"]),
    )


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)

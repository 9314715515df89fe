"""One piece of an audit export: its lines, and how rows of the log become lines.

A piece travels as one message of the broker, so it is bounded in bytes. Of entries of other projects only digests are
shown, and consecutive ones share a line. They are computed anew from what is stored, so that an entry which was changed
after it was sealed is found in the bundle of any project.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from towpath_audit import bundle
from towpath_audit.entries import AuditLogEntry, ErasablePayload, HiddenEntry
from towpath_audit.notes import write_time
from towpath_contracts.tools.audit import AuditExportCursor

MAX_LEAVES = 400
MAX_PIECE_BYTES = 400_000
"""About what one piece holds, as it travels: a message of the broker has at most 1 MB."""

MAX_PAYLOAD_BYTES = 300_000
"""As it travels: a larger payload would not fit into a message of the broker, so its large members are withheld."""

NEVER_LARGE = MAX_PAYLOAD_BYTES // 14
"""Characters that can't be so much: one of them travels in fourteen bytes at most."""

_ENTRY_COLUMNS = (
    *("project", "phase", "verdict", "tool", "operation", "network", "agent_key", "caller", "actor", "rule"),
    *("policy_version", "commitment"),
)


@dataclass(slots=True)
class ExportPiece:
    """Collects lines, and leaves that are not disclosed until they become one line."""

    lines: list[str] = field(default_factory=list)
    size_bytes: int = 0
    _hidden: list[HiddenEntry] = field(default_factory=list)
    _hidden_from: int = 0

    @property
    def full(self) -> bool:
        return self.size_bytes >= MAX_PIECE_BYTES

    def mark(self) -> tuple[int, int]:
        """Return where the piece ends now, for `cut`."""
        return len(self.lines), self.size_bytes

    def cut(self, mark: tuple[int, int]) -> None:
        """Take out what was added since *mark*."""
        del self.lines[mark[0] :]
        self.size_bytes = mark[1]

    def add(self, line: bundle.Line) -> None:
        self.flush()
        self._write(line)

    def hide(self, index: int, entry: HiddenEntry) -> None:
        if not self._hidden:
            self._hidden_from = index
        self._hidden.append(entry)

    def flush(self) -> None:
        if self._hidden:
            self._write(bundle.hidden(self._hidden_from, self._hidden))
            self._hidden = []

    def _write(self, line: bundle.Line) -> None:
        text = bundle.serialize_line(line)
        self.lines.append(text)
        self.size_bytes += travelling_bytes(text)


def add_leaves_and_checkpoints(
    seals: Sequence[Any],
    rows: Sequence[Any],
    disclosed: set[int],
    cursor: AuditExportCursor,
    piece: ExportPiece,
    *,
    more: bool,
) -> tuple[int, int]:
    """Add leaves and, after the last leaf that each covers, checkpoints; return the last seal id and the next leaf.

    *more*: there are leaves behind *rows*.
    """
    seal_id, leaf, position = cursor.seal_id, cursor.leaf, 0
    for seal in seals:
        while leaf < seal["size"]:
            # One line always has room, whatever leaves rest on: else the same piece would be asked for again for ever.
            if (piece.full and position) or (position >= len(rows) and more):
                return seal_id, leaf
            if position >= len(rows):
                break  # missing leaves are not waited for: the checkpoint behind them shows that they are missing
            _add_leaf(rows[position], rows[position]["leaf_index"] in disclosed, piece)
            leaf, position = rows[position]["leaf_index"] + 1, position + 1
        if piece.full and (position or seal_id != cursor.seal_id):
            return seal_id, leaf
        piece.add(bundle.checkpoint(seal["note"]))
        seal_id = seal["seal_id"]
    return seal_id, leaf


def _add_leaf(row: Any, disclosed: bool, piece: ExportPiece) -> None:
    if not disclosed:
        hidden = entry_of(row).hidden()
        if hidden.leaf_hash() == row["hash"]:
            piece.hide(row["leaf_index"], hidden)
        else:
            piece.add(bundle.unfit(row["leaf_index"], row["hash"]))
    elif row["entry_id"] is None:
        missing = {"kind": "leaf", "leaf": row["leaf_index"], "entry": None, "payload": None, "hash": row["hash"].hex()}
        piece.add(missing)
    else:
        payload = payload_of(row)
        if payload is not None and is_large(payload):
            piece.add(bundle.large_leaf(row["leaf_index"], entry_of(row), payload, row["hash"]))
        else:
            piece.add(bundle.leaf(row["leaf_index"], entry_of(row), payload, row["hash"]))


def is_large(payload: ErasablePayload) -> bool:
    """Return whether *payload* would not fit into a message: it is a text in a line, which is a text in a message.

    A quote that a model wrote into a name is two characters of the details, and eight bytes of a message.
    """
    if len(payload.detail) + len(payload.args_digest) <= NEVER_LARGE:
        return False
    shown = payload.as_json()
    return travelling_bytes(bundle.serialize_line(dict(shown))) > MAX_PAYLOAD_BYTES


def travelling_bytes(text: str) -> int:
    """Return how long *text* is as it travels, a text within a text."""
    return len(json.dumps(text))


def entry_of(row: Any) -> AuditLogEntry:
    return AuditLogEntry(
        entry_id=row["entry_id"],
        at=write_time(row["at"]),
        run_id=_optional_text(row["run_id"]),
        execution_id=_optional_text(row["execution_id"]),
        **{name: row[name] for name in _ENTRY_COLUMNS},
    )


def payload_of(row: Any) -> ErasablePayload | None:
    """Return the payload of *row*; None where it is erased."""
    if row["salt"] is None:
        return None
    return ErasablePayload(salt=row["salt"], args_digest=row["args_digest"], detail=row["detail"])


def effect_line(row: Any, *, last_entry: bool) -> bundle.Line:
    """Return a call of the ledger; *last_entry*: the bundle has the last entry about it."""
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
        last_entry=last_entry,
    )


def _optional_text(value: UUID | None) -> str | None:
    return None if value is None else str(value)

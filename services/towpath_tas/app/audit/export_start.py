"""Where a bundle begins: at the last checkpoint before a time, at what retention left, or at the first leaf.

The times of checkpoints that a table has are only where to look: what counts is the signed one, since whoever can write
the table could otherwise have a bundle begin after what he wants to hide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, NoteError, PublicKey, open_note
from towpath_tas.app.audit.sealer import QUERIES
from towpath_tas.core.seal_times import MAX_CLOCK_DIFFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleStart:
    """The tree before the first leaf, its checkpoint with the signed time, and the one that retention left (`kept`)."""

    seal_id: int = 0
    edge: MerkleFrontier = field(default_factory=MerkleFrontier)
    at: datetime | None = None
    note: str | None = None
    kept: str | None = None
    effects_from: datetime | None = None
    """Calls that were made from then on were decided in what follows."""


async def bundle_start(connection: Any, keys: Sequence[PublicKey], since: datetime | None) -> BundleStart:
    """Return where a bundle begins; with all that is kept where no checkpoint is proved to be from before *since*.

    What a damaged log begins with is returned as it is stored: the verifier tells what is wrong with it.
    """
    first_leaf = await connection.fetchval(QUERIES.first_leaf)
    kept = await connection.fetchrow(QUERIES.seal_of_size, first_leaf) if first_leaf else None
    note = None if kept is None else kept["note"]
    if since is not None:
        row = await connection.fetchrow(QUERIES.seal_before, since, MAX_CLOCK_DIFFERENCE)
        signed = None if row is None else _signed_time(row, keys)
        if signed is not None and signed == row["at"]:
            return replace(_start(row, signed, note), effects_from=since)
    if kept is None:
        return BundleStart()
    signed = _signed_time(kept, keys)  # what was dropped may be that much later, by Postgres's clock
    return replace(_start(kept, signed, note), effects_from=None if signed is None else signed + MAX_CLOCK_DIFFERENCE)


def _start(row: Any, at: datetime | None, kept: str | None) -> BundleStart:
    try:
        edge = MerkleFrontier.unpacked(row["size"], row["edge"])
    except ValueError:
        return BundleStart(kept=kept)
    return BundleStart(seal_id=row["seal_id"], edge=edge, at=at, note=row["note"], kept=kept)


def _signed_time(row: Any, keys: Sequence[PublicKey]) -> datetime | None:
    """Return when the checkpoint *row* was signed; None where it is not signed as it is stored."""
    try:
        signed = Checkpoint.read(open_note(row["note"], keys)[0])
        edge = MerkleFrontier.unpacked(row["size"], row["edge"])
    except (NoteError, ValueError):
        return None
    return signed.at if (signed.size, signed.root) == (edge.size, edge.root) else None

"""The audit as a log that can be checked: exporting it, its checkpoints, proofs.

An export is read in pieces that any replica can make; whoever reads hands each piece's `cursor` back, and the
digest of the last line, which chains the pieces to each other.
"""

from datetime import datetime
from uuid import UUID

from pydantic import AwareDatetime, Field

from towpath_contracts.base import Message, MessagePart


class AuditExportCursor(MessagePart):
    """Where an export stands. The tree's size was fixed by the first piece, so that the bundle has one end.

    It is handed back as it came: the signature binds it to the project, the times and the piece before. `watched` is
    the leaf up to which nobody erased or dropped anything meanwhile; None where the log can't be sealed any more.
    """

    page: int = Field(ge=1)
    end_seal: int
    size: int
    seal_id: int
    leaf: int
    leaves_done: bool = False
    effects_since: AwareDatetime | None = None
    run_id: UUID | None = None
    execution_id: UUID | None = None
    watched: int | None = None
    signature: str = Field(default="", max_length=200)


class ExportAudit(Message):
    """Read the next piece of a bundle; the first one without a cursor. Times are inclusive."""

    project: str
    actor: str
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    cursor: AuditExportCursor | None = None
    previous: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")


class AuditPiece(Message):
    """Lines of a bundle, without their newlines; the bundle is whole where there is no cursor."""

    lines: tuple[str, ...]
    cursor: AuditExportCursor | None = None


class GetCheckpoint(Message):
    """The newest checkpoint, after everything that is committed has been sealed; it is the same for every `project`."""

    project: str = ""


class CheckpointView(Message):
    """A signed checkpoint, to be kept where the platform can't reach it, and the key to check it with."""

    note: str
    size: int
    at: datetime
    public_key: str
    fingerprint: str


class ProveRun(Message):
    """Prove the entries of a run, or of one call of it, in the tree of the newest checkpoint or of that of `size`.

    With `entry_id`: that entry alone, also one that is of no run; nothing else is then given but `size`.
    """

    project: str
    run_id: UUID | None = None
    execution_id: UUID | None = None
    size: int | None = Field(default=None, ge=1, le=2**63 - 1)
    entry_id: int | None = Field(default=None, ge=1, le=2**63 - 1)


class AuditProof(Message):
    """The proof as text, to be kept as a file: `towpath audit verify` reads it without the platform."""

    proof: str
    entries: int
    size: int

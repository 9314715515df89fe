"""Was the tool in force that a decision let a call go by? Each such decision names the version of its tool.

Whoever owns the database can accept a version that waits, or take a withdrawn or held tool in, for a moment. The log
has who registered each version, accepted, withdrew or reinstated it, and when another definition held its calls. In
force is the newest accepted version that is not withdrawn. Decisions and these entries exclude each other, so their ids
tell what came first, also within a seal. Where the bundle doesn't show a version's entries, or their details are
erased, nothing is known of it: that is counted. They can rewrite the definition of a version for a moment as well: what
was decided meanwhile has the digest of what was read, and the entry that registered the version that of its own.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from towpath_audit.entries import ErasablePayload
from towpath_audit.sealed_calls import CallFault
from towpath_audit.sealed_erasures import read_detail
from towpath_audit.sealed_persons import EntryPlace

LET_GO = frozenset({("decision", "allow"), ("approval.consumed", "allow")})
"""Entries that let a call go by the version of its tool that they name."""

IN_FORCE_AFTER = {
    "tool.registered": True,
    "tool.proposed": False,
    "tool.accepted": True,
    "tool.refused": False,
    "tool.withdrawn": False,
    "tool.reinstated": True,
}
"""Whether the versions that an entry names are in force from then on, by its phase."""

DRIFTED, RESTORED = "tool.drifted", "tool.restored"

OFFERED = frozenset({"tool.registered", "tool.proposed"})
"""Entries with the digest of the definition that a version has."""

UNNAMED = 0
"""The version of a tool whose entry names only its definition: the services write no such one, a table may have it."""

OTHER_DEFINITION = "its definition was another than the one that was registered"


class _Change(NamedTuple):
    """An entry after which something is so, or not."""

    entry_id: int
    holds: bool


_entry_id = attrgetter("entry_id")


class _UsedVersion(NamedTuple):
    """A version of a tool of a project."""

    project: str
    tool: str
    version: int


@dataclass(slots=True)
class _Tool:
    """What the entries say of a tool: of its versions, and when its calls were held, by which version.

    After an entry whose details are erased (`untold`) nothing is known but what later ones say.
    """

    versions: dict[int, list[_Change]] = field(default_factory=dict)
    held: list[_Change] = field(default_factory=list)
    holder: int = 0
    untold: list[int] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)

    def state(self, changes: list[_Change], entry_id: int) -> bool | None:
        """Return what the last of *changes* before an entry says; None where it is not known."""
        at, erased = bisect_left(changes, entry_id, key=_entry_id), bisect_left(self.untold, entry_id)
        if not at or (erased and self.untold[erased - 1] > changes[at - 1].entry_id):
            return None
        return changes[at - 1].holds


@dataclass
class SealedTools:
    """Receives entries in the order of the log; `finish` returns decisions by versions that were not in force."""

    partial: bool = False
    tools: dict[tuple[str, str], _Tool] = field(default_factory=dict)
    wrong: dict[tuple[_UsedVersion, str], tuple[EntryPlace, int]] = field(default_factory=dict)
    unknown: dict[_UsedVersion, tuple[EntryPlace, int]] = field(default_factory=dict)
    unseen: int = 0

    def on_entry(self, place: EntryPlace, payload: ErasablePayload | None) -> None:
        """Add an entry about a tool, or one that may let a call go."""
        entry = place.entry
        if entry.phase in IN_FORCE_AFTER or entry.phase in {DRIFTED, RESTORED}:
            tool = self.tools.setdefault((entry.project, entry.tool), _Tool())
            _on_tool(tool, place, read_detail(payload))
        elif (entry.phase, entry.verdict) in LET_GO and payload is not None:
            detail = read_detail(payload)
            version = detail.get("tool_version", UNNAMED if "tool_digest" in detail else None)
            if type(version) is int:
                self._on_let_go(place, _UsedVersion(entry.project, entry.tool, version), detail.get("tool_digest"))

    def finish(self) -> Iterator[CallFault]:
        """Return the first decision by each version that was not in force; unseen ones are counted only."""
        for used, (place, count) in self.unknown.items():
            tool = self.tools.get((used.project, used.tool))
            if tool is None and not self.partial:
                continue  # one of the platform's own, which nobody registers
            if self.partial or tool is None or tool.untold:
                self.unseen += count
            else:
                yield _fault(used, "no entry before it registers that", place, count)
        for (used, why), (place, count) in self.wrong.items():
            yield _fault(used, why, place, count)

    def _on_let_go(self, place: EntryPlace, used: _UsedVersion, digest: object) -> None:
        tool, entry_id = self.tools.get((used.project, used.tool)), place.entry.entry_id
        in_force = None if tool is None else tool.state(tool.versions.get(used.version, []), entry_id)
        differs = tool is not None and digest is not None and tool.digests.get(used.version, digest) != digest
        if tool is None or (in_force is None and not differs):
            first, count = self.unknown.get(used, (place, 0))
            self.unknown[used] = first, count + 1
            return
        why = ""
        if differs:
            why = OTHER_DEFINITION
        elif not in_force:
            why = "that waited, or was refused or withdrawn"
        elif any(
            version > used.version and tool.state(changes, entry_id) for version, changes in tool.versions.items()
        ):
            why = "a later one was in force"
        elif tool.state(tool.held, entry_id):  # an approval isn't used up either: its call is denied
            why = "its calls were held, as its server offered another definition"
        if why:
            first, count = self.wrong.get((used, why), (place, 0))
            self.wrong[used, why] = first, count + 1


def _on_tool(tool: _Tool, place: EntryPlace, detail: dict[str, Any]) -> None:
    phase, entry_id = place.entry.phase, place.entry.entry_id
    version: Any = detail.get("version")
    versions = detail.get("versions", [version])
    if not isinstance(versions, list) or not all(type(one) is int for one in (version, *versions)):
        insort(tool.untold, entry_id)
        return
    if phase in {DRIFTED, RESTORED}:
        tool.holder = version if phase == DRIFTED else 0
        insort(tool.held, _Change(entry_id, phase == DRIFTED))
        return
    if phase in OFFERED and isinstance(detail.get("digest"), str):
        tool.digests.setdefault(version, detail["digest"])
    for one in versions:
        insort(tool.versions.setdefault(one, []), _Change(entry_id, IN_FORCE_AFTER[phase]))
    if phase == "tool.withdrawn" or (phase == "tool.accepted" and tool.holder == version):
        tool.holder = 0
        insort(tool.held, _Change(entry_id, holds=False))


def _fault(used: _UsedVersion, why: str, place: EntryPlace, count: int) -> CallFault:
    message = f"call {place.entry.execution_id} was let go by version {used.version} of {used.tool}, and {why}"
    message += f" ({count} entries)" if count > 1 else ""
    return CallFault("tool_not_in_force", message, place)

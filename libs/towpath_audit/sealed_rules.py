"""Did the rules decide that were in force? Each decision says under which policy version, and by which rules.

Whoever owns the database can rewrite the rules of a version for a moment, or let an older version count.
`policy.applied` has the digest of the rules that make the version, and whatever was decided meanwhile has the digest of
those that were read. Decisions and these entries exclude each other, so their ids tell which version was the newest
then, also within a seal. Decisions that don't name any rules (of earlier releases, or whose payloads are erased) are
not compared with the digest. What a bundle doesn't show of earlier versions excuses a decision, and accuses none.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from towpath_audit.entries import ErasablePayload
from towpath_audit.sealed_calls import CallFault
from towpath_audit.sealed_erasures import read_detail
from towpath_audit.sealed_persons import EntryPlace

POLICY_APPLIED = "policy.applied"
"""Entries that make a policy version, which is the one that they name."""

RULES_DIGEST = "rules_digest"

JUDGED = frozenset({("decision", "allow"), ("decision", "require_approval"), ("approval.consumed", "allow")})
"""Entries about a call that was just held against the rules, as phase and verdict, also where their payload is gone."""


class _DecidedBy(NamedTuple):
    """The rules of a policy version, as an entry names them."""

    project: str
    version: int
    digest: str


class _Outdated(NamedTuple):
    """A policy version that decided, and the newer one that was in force then."""

    project: str
    version: int
    newer: int


@dataclass
class SealedRules:
    """Receives entries in the order of the log; `finish` returns decisions that were made by other rules."""

    applied: dict[tuple[str, int], str] = field(default_factory=dict)
    decided: dict[_DecidedBy, tuple[EntryPlace, int]] = field(default_factory=dict)
    versions: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    outdated: dict[_Outdated, tuple[EntryPlace, int]] = field(default_factory=dict)

    def on_entry(self, place: EntryPlace, payload: ErasablePayload | None) -> None:
        """Add an entry that applies a policy, or is about a call."""
        entry = place.entry
        if entry.phase == POLICY_APPLIED:
            self._on_version(entry.project, entry.entry_id, entry.policy_version)
        named_rules = payload is not None and f'"{RULES_DIGEST}"' in payload.detail
        if entry.execution_id is not None and (named_rules or (entry.phase, entry.verdict) in JUDGED):
            self._compare_version(place)
        if payload is None or not named_rules:
            return
        digest = str(read_detail(payload).get(RULES_DIGEST))
        if entry.phase == POLICY_APPLIED:
            self.applied.setdefault((entry.project, entry.policy_version), digest)
        elif entry.execution_id is not None:
            named = _DecidedBy(entry.project, entry.policy_version, digest)
            first, count = self.decided.get(named, (place, 0))
            self.decided[named] = first, count + 1

    def _on_version(self, project: str, entry_id: int, version: int) -> None:
        """Add when a version was applied; from then on none below it is in force, whatever a later entry says."""
        versions = self.versions.setdefault(project, [])
        at = bisect_left(versions, (entry_id, 0))
        versions.insert(at, (entry_id, max(version, versions[at - 1][1] if at else 0)))

    def _compare_version(self, place: EntryPlace) -> None:
        entry = place.entry
        versions = self.versions.get(entry.project, [])
        before = bisect_left(versions, (entry.entry_id, 0))
        newest = versions[before - 1][1] if before else entry.policy_version
        if newest > entry.policy_version:
            used = _Outdated(entry.project, entry.policy_version, newest)
            first, count = self.outdated.get(used, (place, 0))
            self.outdated[used] = first, count + 1

    def finish(self) -> Iterator[CallFault]:
        """Return the first decision by each set of rules that is not the one of its policy version, or not in force."""
        for used, (first, count) in self.outdated.items():
            message = f"decided under policy version {used.version}, and version {used.newer} was in force"
            message += f" ({count} entries)" if count > 1 else ""
            yield CallFault("decision_by_other_rules", message, first)
        for named, (first, count) in self.decided.items():
            if self.applied.get((named.project, named.version), named.digest) == named.digest:
                continue
            message = f"decided by other rules than those that policy version {named.version} was applied with"
            message += f" ({count} entries)" if count > 1 else ""
            yield CallFault("decision_by_other_rules", message, first)

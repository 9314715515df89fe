"""Did the rules decide that the policy was applied with? Each decision says by which rules it was made.

Whoever owns the database can rewrite the rules of a version for a moment. `policy.applied` has the digest of the rules
that make the version, and whatever was decided meanwhile has the digest of those that were read. Decisions that don't
name any (of earlier releases, or whose payloads are erased) are not compared.
"""

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


class _DecidedBy(NamedTuple):
    """The rules of a policy version, as an entry names them."""

    project: str
    version: int
    digest: str


@dataclass
class SealedRules:
    """Receives entries in the order of the log; `finish` returns decisions that were made by other rules."""

    applied: dict[tuple[str, int], str] = field(default_factory=dict)
    decided: dict[_DecidedBy, tuple[EntryPlace, int]] = field(default_factory=dict)

    def on_entry(self, place: EntryPlace, payload: ErasablePayload | None) -> None:
        """Add an entry that applies a policy, or is about a call."""
        entry = place.entry
        if payload is None or f'"{RULES_DIGEST}"' not in payload.detail:
            return
        digest = str(read_detail(payload).get(RULES_DIGEST))
        if entry.phase == POLICY_APPLIED:
            self.applied.setdefault((entry.project, entry.policy_version), digest)
        elif entry.execution_id is not None:
            named = _DecidedBy(entry.project, entry.policy_version, digest)
            first, count = self.decided.get(named, (place, 0))
            self.decided[named] = first, count + 1

    def finish(self) -> Iterator[CallFault]:
        """Return the first decision by each set of rules that is not the one of its policy version."""
        for named, (first, count) in self.decided.items():
            if self.applied.get((named.project, named.version), named.digest) == named.digest:
                continue
            message = f"decided by other rules than those that policy version {named.version} was applied with"
            message += f" ({count} entries)" if count > 1 else ""
            yield CallFault("decision_by_other_rules", message, first)

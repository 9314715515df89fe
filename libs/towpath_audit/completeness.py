"""Is the record complete? Every effect has a decision before it, every decision a policy and a request of a run.

Only what the bundle discloses is checked; what it can't show is counted and reported, never guessed. A payload may be
missing only if an erasure in the log itself names its entry.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.report import AuditFault, AuditReport
from towpath_audit.stored_rows import differences

PERMISSIONS = frozenset({("decision", "allow"), ("approval.consumed", "allow")})
"""Entries that allow a call to run, as phase and verdict."""

RULED_VERDICTS = frozenset({"allow", "require_approval"})
"""Verdicts that depend on a rule, and so on a policy version; a denial may mean that there is no rule."""

EFFECTS = {
    "claim": frozenset({"granted"}),
    "outcome": frozenset({"succeeded", "failed", "unknown"}),
    "settled": frozenset({"happened", "retry"}),
    "dispatch": frozenset({"again"}),
}
"""Verdicts that only an allowed call can have, by phase."""

ERASED = "audit.erased"
DROPPED = "audit.dropped"
LOG_PHASE_PREFIX = "audit."
"""Entries of these phases are about the log itself; their payloads are never erased."""

AddFault = Callable[[AuditFault], None]


@dataclass
class BundleCompletenessCheck:
    """Receives the lines of a bundle in order; `finish` reports what is missing.

    *partial*: the log began before the bundle; *tells_earlier*: the bundle includes the earlier decisions of its calls.
    """

    add_fault: AddFault
    partial: bool = False
    tells_earlier: bool = False
    decided: dict[str, int] = field(default_factory=dict)
    policies: set[tuple[str, int]] = field(default_factory=set)
    steps: dict[str, tuple[int | None, bool]] = field(default_factory=dict)
    stored: dict[int, Any] = field(default_factory=dict)
    erased: set[int] = field(default_factory=set)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    missing: dict[int, AuditFault] = field(default_factory=dict)
    ids: set[int] = field(default_factory=set)
    undecided: dict[str, list[AuditFault]] = field(default_factory=dict)
    dropped_before: bool = False
    unkept: set[str] = field(default_factory=set)
    withheld: int = 0
    effects: int = 0
    decisions: int = 0

    def on_policy(self, line: dict[str, Any]) -> None:
        self.policies.add((str(line.get("project")), _number(line.get("version"))))

    def on_step(self, line: dict[str, Any]) -> None:
        seq = line.get("seq")
        self.steps[str(line.get("execution_id"))] = (seq if type(seq) is int else None, line.get("kept") is True)

    def on_stored(self, line: dict[str, Any]) -> None:
        leaf = line.get("leaf")
        if type(leaf) is int:
            self.stored[leaf] = line.get("found")

    def on_earlier(self, leaf: int, entry: AuditLogEntry) -> None:
        """Add an entry from before the first leaf, which was proved to be in the log."""
        self.dropped_before = self.dropped_before or entry.phase == DROPPED
        if entry.execution_id is not None and (entry.phase, entry.verdict) in PERMISSIONS:
            self.decided.setdefault(entry.execution_id, leaf)

    def on_leaf(
        self, leaf: int, line: int, entry: AuditLogEntry, payload: ErasablePayload | None, *, withheld: bool = False
    ) -> None:  # fmt: skip
        """Add an entry; its payload is None if it is erased or *withheld*."""
        if entry.entry_id in self.ids:
            self._fault("entry_twice", f"entry {entry.entry_id} stands in the log twice", leaf, line, entry)
        self.ids.add(entry.entry_id)
        if payload is None and withheld and not entry.phase.startswith(LOG_PHASE_PREFIX):
            self.withheld += 1
        elif payload is None:
            message = "its payload is gone, and no erasure in the log names it"
            self.missing[entry.entry_id] = _fault_at("payload_missing", message, leaf, line, entry)
        elif entry.phase.startswith(LOG_PHASE_PREFIX):
            self._on_own(entry, payload)
        if leaf in self.stored:
            self._compare_stored(leaf, line, entry, payload)
        if entry.execution_id is not None:
            self._on_call(leaf, line, entry, entry.execution_id)

    def _compare_stored(self, leaf: int, line: int, entry: AuditLogEntry, payload: ErasablePayload | None) -> None:
        what = differences(entry, payload, self.stored.pop(leaf))
        if what == ["row"]:
            self._fault("stored_missing", f"what {entry.phase} recorded is not stored any more", leaf, line, entry)
        elif what:
            message = f"{', '.join(what)}: stored otherwise than {entry.phase} recorded it"
            self._fault("stored_changed", message, leaf, line, entry)

    def on_effect(self, number: int, line: dict[str, Any]) -> None:
        """Check a call of the ledger that was allowed."""
        self.effects += 1
        execution_id = str(line.get("execution_id"))
        if execution_id not in self.decided:
            message = f"the ledger let call {execution_id} of {line.get('tool')} go, and the log holds no decision"
            self.add_fault(AuditFault(code="effect_without_decision", message=message, line=number))

    def finish(self, report: AuditReport) -> None:
        """Report what is missing, and what could not be checked."""
        for entry_id, fault in self.missing.items():
            if entry_id not in self.erased:
                self.add_fault(fault)
        erased = len(self.missing.keys() & self.erased)
        report.figures |= {"decisions": self.decisions, "effects": self.effects, "payloads_erased": erased}
        self._finish_undecided(report)
        if self.withheld:
            report.notes.append(f"{self.withheld} payloads are too large for a bundle and not shown")
        if self.unkept:
            report.notes.append(
                f"the runs of {len(self.unkept)} decisions are not kept any more, so their requests can't be shown"
            )

    def _finish_undecided(self, report: AuditReport) -> None:
        """Report effects without a decision, unless retention may have dropped the decision, as the log says."""
        if not self.undecided:
            return
        if self.tells_earlier and not self.dropped_before and not self.dropped:
            for faults in self.undecided.values():
                for fault in faults:
                    self.add_fault(fault)
            return
        why = "retention dropped what was before" if self.tells_earlier else "this bundle does not show what was before"
        said = f"{len(self.undecided)} calls went on here and no decision of theirs is shown"
        report.notes.append(f"{said}: {why}, so it can't be told whether there was one")

    def _on_own(self, entry: AuditLogEntry, payload: ErasablePayload) -> None:
        try:
            said = json.loads(payload.detail)
        except (ValueError, RecursionError):
            return  # the commitment holds it as it is; what it names counts as not named
        if not isinstance(said, dict):
            return
        if entry.phase == ERASED and isinstance(said.get("entries"), list):
            self.erased.update(one for one in said["entries"] if type(one) is int)
        elif entry.phase == DROPPED:
            self.dropped.append(said)

    def _on_call(self, leaf: int, line: int, entry: AuditLogEntry, execution_id: str) -> None:
        if entry.phase == "decision":
            self._on_decision(leaf, line, entry, execution_id)
        if (entry.phase, entry.verdict) in PERMISSIONS:
            self.decided.setdefault(execution_id, leaf)
        if entry.verdict in EFFECTS.get(entry.phase, ()) and execution_id not in self.decided:
            message = f"{entry.phase} {entry.verdict} of call {execution_id}, and no decision before it let it go"
            fault = _fault_at("effect_without_decision", message, leaf, line, entry)
            if self.partial:
                self.undecided.setdefault(execution_id, []).append(fault)
            else:
                self.add_fault(fault)

    def _on_decision(self, leaf: int, line: int, entry: AuditLogEntry, execution_id: str) -> None:
        self.decisions += 1
        if entry.verdict in RULED_VERDICTS and (entry.project, entry.policy_version) not in self.policies:
            message = f"decided under policy version {entry.policy_version}, which is not stored"
            self._fault("decision_without_policy", message, leaf, line, entry)
        seq, kept = self.steps.get(execution_id, (None, True))
        if seq is None and kept:
            message = f"no instruction in the log of run {entry.run_id} asks for call {execution_id}"
            self._fault("decision_without_run_event", message, leaf, line, entry)
        elif seq is None:
            self.unkept.add(execution_id)

    def _fault(self, code: str, message: str, leaf: int, line: int, entry: AuditLogEntry) -> None:
        self.add_fault(_fault_at(code, message, leaf, line, entry))


def _fault_at(code: str, message: str, leaf: int, line: int, entry: AuditLogEntry) -> AuditFault:
    return AuditFault(code=code, message=message, line=line, leaf=leaf, entry_id=entry.entry_id)


def _number(value: object) -> int:
    return value if type(value) is int else -1

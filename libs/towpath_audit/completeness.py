"""Is the record complete? Every effect has a decision before it, every decision a policy and a request of a run.

Entries are held against each other: an approval that let a call go rests on sealed votes, a policy version on the entry
that applied it. Only what the bundle discloses is checked; what it can't show is counted and reported, never guessed. A
payload may be missing, or a row of the ledger be empty, only if an erasure covers it that the log itself has as asked
for, confirmed and carried out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.report import AuditFault, AuditReport
from towpath_audit.retention import DROPPED, RetentionCheck
from towpath_audit.sealed_approvals import NOBODY_ASKED, SealedApprovals
from towpath_audit.sealed_calls import CallKey, SealedCalls, call_key
from towpath_audit.sealed_erasures import SealedErasures, read_detail
from towpath_audit.sealed_persons import TOOL_DECIDED, EntryPlace, SealedPersons
from towpath_audit.sealed_rules import POLICY_APPLIED, SealedRules
from towpath_audit.sealed_states import SealedStates
from towpath_audit.sealed_tools import SealedTools
from towpath_audit.stored_rows import differences

PERMISSIONS = frozenset({("decision", "allow"), ("approval.consumed", "allow")})
"""Entries that allow a call to run, as phase and verdict."""

RULED_VERDICTS = frozenset({"allow", "require_approval"})
"""Verdicts that depend on a rule, and so on a policy version; a denial may mean that there is no rule."""

EFFECTS = {
    "claim": frozenset({"granted"}),
    "outcome": frozenset({"succeeded", "failed", "unknown"}),
    "settled": frozenset({"happened", "retry"}),
    "dispatch": frozenset({"again", "repeated"}),
}
"""Verdicts that only an allowed call can have, by phase."""

ENDS = frozenset({"outcome", "settled"})
"""Entries about how a call ended."""

LOG_PHASE_PREFIX = "audit."
"""Entries of these phases are about the log itself; their payloads are never erased."""

COMPARED_PREFIXES = ("policy.", "tool.", "key.", "approval.")
"""Of entries of these phases earlier releases withheld nothing but what somebody had swapped."""

AddFault = Callable[[AuditFault], None]


@dataclass(frozen=True, slots=True)
class _Gone:
    """Something that only an erasure may take, the entry that it belongs to, and where that stands."""

    code: str
    what: str
    entry: AuditLogEntry
    leaf: int
    line: int


@dataclass(slots=True)
class _Unapplied:
    """The first decision under a policy version that nothing before it applied, and how many there are."""

    entry: AuditLogEntry
    leaf: int
    line: int
    decisions: int = 0


class _Step(NamedTuple):
    """Where the log of a run asked for a call (None where it does not), and what the run's row says, if it is there."""

    seq: int | None = None
    kept: bool = True
    erased: bool = False
    caller: str | None = None
    project: str | None = None


@dataclass
class BundleCompletenessCheck:
    """Receives the lines of a bundle in order; `finish` reports what is missing.

    *partial*: the log began before the bundle; *tells_earlier*: the bundle includes the earlier decisions of its calls,
    *tells_grounds*: also what these rest on, votes and policies.
    """

    add_fault: AddFault
    retention: RetentionCheck
    partial: bool = False
    tells_earlier: bool = False
    tells_grounds: bool = False
    decided: dict[CallKey, int] = field(default_factory=dict)
    policies: set[tuple[str, int]] = field(default_factory=set)
    steps: dict[CallKey, _Step] = field(default_factory=dict)
    stored: dict[int, Any] = field(default_factory=dict)
    erasures: SealedErasures = field(default_factory=SealedErasures)
    approvals: SealedApprovals = field(default_factory=SealedApprovals)
    persons: SealedPersons = field(default_factory=SealedPersons)
    calls: SealedCalls = field(default_factory=SealedCalls)
    states: SealedStates = field(default_factory=SealedStates)
    rules: SealedRules = field(default_factory=SealedRules)
    tools: SealedTools = field(default_factory=SealedTools)
    redecided: dict[tuple[str, str, int], AuditFault] = field(default_factory=dict)
    last_shown: dict[str, Any] = field(default_factory=dict)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    unasked: list[AuditFault] = field(default_factory=list)
    applied: dict[str, set[int]] = field(default_factory=dict)
    unapplied: dict[tuple[str, int], _Unapplied] = field(default_factory=dict)
    missing: dict[int, _Gone] = field(default_factory=dict)
    emptied: list[_Gone] = field(default_factory=list)
    ids: set[int] = field(default_factory=set)
    ids_before: set[int] = field(default_factory=set)
    undecided: dict[CallKey, list[AuditFault]] = field(default_factory=dict)
    outdated: dict[str, list[AuditFault]] = field(default_factory=dict)
    withheld: int = 0
    effects: int = 0
    decisions: int = 0

    def on_policy(self, line: dict[str, Any]) -> None:
        self.policies.add((str(line.get("project")), _number(line.get("version"))))

    def on_step(self, line: dict[str, Any]) -> None:
        seq, caller, project = line.get("seq"), line.get("caller"), line.get("project")
        said = (seq if type(seq) is int else None, line.get("kept") is True, line.get("erased") is True)
        named = (name if isinstance(name, str) else None for name in (caller, project))
        self.steps[str(line.get("run_id")), str(line.get("execution_id"))] = _Step(*said, *named)

    def on_stored(self, line: dict[str, Any]) -> None:
        leaf = line.get("leaf")
        if type(leaf) is int:
            self.stored[leaf] = line.get("found")

    def on_earlier(self, leaf: int, line: int, entry: AuditLogEntry, payload: ErasablePayload | None) -> None:
        """Add an entry from before the first leaf, which was proved to be in the log."""
        if entry.entry_id in self.ids_before:
            return  # several pieces of a bundle rest on it
        self.ids_before.add(entry.entry_id)
        self.persons.on_entry(EntryPlace(entry, leaf, line), payload)
        self._on_ground(leaf, line, entry, payload)
        if entry.phase == DROPPED:
            self.retention.on_earlier(leaf, entry, payload)
        elif payload is not None and entry.phase.startswith(LOG_PHASE_PREFIX):
            self.erasures.on_entry(entry, payload)
        key = call_key(entry)
        if key is not None and (entry.phase, entry.verdict) in PERMISSIONS:
            self.decided.setdefault(key, leaf)

    def on_leaf(
        self,
        leaf: int,
        line: int,
        entry: AuditLogEntry,
        payload: ErasablePayload | None,
        *,
        withheld: ErasablePayload | bool = False,
    ) -> None:
        """Add an entry; its payload is None if it is erased or *withheld*: then that is what is shown of it, if any."""
        if entry.entry_id in self.ids:
            self._fault("entry_twice", f"entry {entry.entry_id} stands in the log twice", leaf, line, entry)
        self.ids.add(entry.entry_id)
        if payload is None and withheld and not entry.phase.startswith(LOG_PHASE_PREFIX):
            payload = self._withheld(leaf, line, entry, withheld)
        elif payload is None:
            self.missing[entry.entry_id] = _Gone("payload_missing", "its payload is gone", entry, leaf, line)
        elif entry.phase.startswith(LOG_PHASE_PREFIX):
            self._on_own(leaf, line, entry, payload)
        self.persons.on_entry(EntryPlace(entry, leaf, line), payload, self.stored.get(leaf))
        if leaf in self.stored:
            self._compare_stored(leaf, line, entry, payload)
        self._on_ground(leaf, line, entry, payload)
        self._on_call(leaf, line, entry)

    def on_changed(self, leaf: int, line: int, entry: AuditLogEntry) -> None:
        """Add an entry whose payload is a fault already: nothing is compared with it."""
        self.ids.add(entry.entry_id)
        self.stored.pop(leaf, None)
        self.calls.on_entry(EntryPlace(entry, leaf, line), None)
        self._on_call(leaf, line, entry)

    def _withheld(
        self, leaf: int, line: int, entry: AuditLogEntry, shown: ErasablePayload | bool
    ) -> ErasablePayload | None:
        """Return what is shown of a payload that is too large; None where nothing is, so that nothing is compared."""
        self.withheld += 1
        if isinstance(shown, ErasablePayload):
            return shown
        if entry.phase.startswith(COMPARED_PREFIXES):
            message = f"the payload of {entry.phase} is not shown, so nothing can be compared with it: export it again"
            self._fault("payload_withheld", message, leaf, line, entry)
        return None

    def _compare_stored(self, leaf: int, line: int, entry: AuditLogEntry, payload: ErasablePayload | None) -> None:
        found = self.stored.pop(leaf)
        self.calls.on_stored(entry, leaf, line, found)
        if entry.phase == "outcome" and entry.execution_id in self.outdated and "was" in read_detail(payload):
            del self.outdated[entry.execution_id]  # the run's own report counts whatever ended its call before
        if isinstance(found, dict) and found.get("erased") is True:
            self.emptied.append(_Gone("stored_missing", f"what {entry.phase} recorded is erased", entry, leaf, line))
        what = differences(entry, payload, found)
        tool = (entry.project, entry.tool, _number(read_detail(payload).get("version")))
        if entry.phase in TOOL_DECIDED:
            self.redecided.pop(tool, None)
        if what == ["row"]:
            self._fault("stored_missing", f"what {entry.phase} recorded is not stored any more", leaf, line, entry)
        elif what:
            message = f"{', '.join(what)}: stored otherwise than {entry.phase} recorded it"
            fault = _fault_at("stored_changed", message, leaf, line, entry)
            if entry.phase in ENDS and entry.execution_id is not None:
                self.outdated.setdefault(entry.execution_id, []).append(fault)
            elif entry.phase in TOOL_DECIDED:  # who refused a version may accept it later
                if not self.persons.may_be_untold(found.get("decided_at")):
                    self.redecided[tool] = fault
            else:
                self.add_fault(fault)

    def on_effect(self, number: int, line: dict[str, Any]) -> None:
        """Check a call of the ledger that was allowed."""
        self.effects += 1
        self.last_shown[str(line.get("execution_id"))] = line.get("last_entry")
        key, wrong = (str(line.get("run_id")), str(line.get("execution_id"))), self.calls.on_effect(line)
        if key not in self.decided and key not in self.calls.doubts:
            message = f"the ledger let call {key[1]} of {line.get('tool')} go, and the log holds no decision"
            self.add_fault(AuditFault(code="effect_without_decision", message=message, line=number))
        elif wrong is not None:
            self.add_fault(AuditFault(code="effect_without_outcome", message=wrong[0], line=number, leaf=wrong[1]))

    def finish(self, report: AuditReport) -> None:
        """Report what is missing, and what could not be checked."""
        self.erasures.partial = self.retention.dropped
        self.erasures.told_from = self.retention.told_from
        lost = {one: self.erasures.why_entry_is_uncovered(gone.entry) for one, gone in self.missing.items()}
        for entry_id, gone in self.missing.items():
            self._report_gone(gone, lost[entry_id])
        for gone in self.emptied:
            self._report_gone(gone, self.erasures.why_ledger_is_uncovered(gone.entry))
        erased = sum(why is None for why in lost.values())
        report.figures |= {"decisions": self.decisions, "effects": self.effects, "payloads_erased": erased}
        report.figures["runs_erased"] = len(self.erasures.runs)
        if self.erasures.pruned:
            report.figures["runs_pruned"] = len(self.erasures.pruned)
        report.notes += self.erasures.notes()
        self._finish_outdated()
        self.tools.partial = self.states.partial = self.calls.partial = self.partial or self.retention.dropped
        for code, message, place in (*self.calls.finish(), *self.rules.finish(), *self.tools.finish()):
            self._fault(code, message, place.leaf, place.line, place.entry)
        for fault in (*self.states.finish(self.calls), *self.calls.differing_rows()):
            self.add_fault(fault)
        self._finish_persons(report)
        self._finish_undecided(report)
        self._finish_grounds(report)
        if self.withheld:
            report.notes.append(f"{self.withheld} payloads are too large for a bundle and not shown")

    def _finish_outdated(self) -> None:
        """Report what is stored otherwise, unless a later entry that the bundle has not may say so."""
        for execution_id, faults in self.outdated.items():
            shown = self.last_shown.get(execution_id, self.persons.until is None)
            for fault in faults if shown is not False else ():
                self.add_fault(fault)
        for fault in self.redecided.values():
            self.add_fault(fault)

    def _report_gone(self, gone: _Gone, why: str | None) -> None:
        if why is not None:
            self._fault(gone.code, f"{gone.what}, and {why}", gone.leaf, gone.line, gone.entry)

    def _finish_persons(self, report: AuditReport) -> None:
        """Report what no person said; keys may have been made before what the bundle includes."""
        self.persons.partial = self.partial or self.retention.dropped
        for code, message, place in self.persons.finish():
            self._fault(code, message, place.leaf, place.line, place.entry)
        report.notes += self.persons.notes()
        if self.tools.unseen:
            said = f"calls by versions of tools whose entries this bundle does not show: {self.tools.unseen}"
            report.notes.append(f"{said}; it can't be told whether these were in force")

    def _finish_undecided(self, report: AuditReport) -> None:
        """Report effects without a decision, unless retention may have dropped the decision, as the log says."""
        if not self.undecided:
            return
        if self.tells_earlier and not self.retention.dropped:
            for faults in self.undecided.values():
                for fault in faults:
                    self.add_fault(fault)
            return
        why = "retention dropped what was before" if self.tells_earlier else "this bundle does not show what was before"
        said = f"{len(self.undecided)} calls went on here and no decision of theirs is shown"
        report.notes.append(f"{said}: {why}, so it can't be told whether there was one")

    def _on_ground(self, leaf: int, line: int, entry: AuditLogEntry, payload: ErasablePayload | None) -> None:
        """Keep what others rest on, and check an approval that was used up and the arguments of a call."""
        place = EntryPlace(entry, leaf, line)
        self.rules.on_entry(place, payload)
        self.tools.on_entry(place, payload)
        changed = self.calls.on_entry(place, payload)
        if changed is not None:
            self._fault(changed.code, changed.message, leaf, line, entry)
        if entry.phase == POLICY_APPLIED:
            self.applied.setdefault(entry.project, set()).add(entry.policy_version)
        if entry.phase == "decision" and entry.execution_id in self.approvals.calls:
            self.places[entry.entry_id] = leaf, line
        why = self.approvals.on_entry(entry, payload)
        if why is None:
            return
        message = f"call {entry.execution_id} was let go by an approval, and {why}"
        fault = _fault_at("approval_without_votes", message, leaf, line, entry)
        if why == NOBODY_ASKED and self.partial:  # all that came after the question would be here too
            self.unasked.append(fault)
        else:
            self.add_fault(fault)

    def _finish_grounds(self, report: AuditReport) -> None:
        """Report approvals and policies that rest on nothing, unless what they rest on may be out of sight."""
        for entry in self.approvals.let_go_unasked():
            message = f"call {entry.execution_id} waited for people, and was let go before their approval was used up"
            self._fault("approval_without_votes", message, *self.places[entry.entry_id], entry)
        unseen = self.partial and (self.retention.dropped or not self.tells_grounds)
        if not unseen:
            for fault in self.unasked:
                self.add_fault(fault)
        elif self.unasked:
            said = f"{len(self.unasked)} approvals were used up here and asked for before what this bundle shows"
            report.notes.append(f"{said}: it can't be told who voted")
        hidden = [key for key in self.unapplied if unseen and not self._is_after_shown(*key)]
        if hidden:
            said = f"{len(hidden)} policy versions were applied before what this bundle shows"
            report.notes.append(f"{said}: it can't be told by whom")
        for key in self.unapplied.keys() - set(hidden):
            first = self.unapplied[key]
            message = f"decided under policy version {key[1]}, which no entry before it applied"
            message += f" ({first.decisions} decisions)" if first.decisions > 1 else ""
            self._fault("decision_without_policy", message, first.leaf, first.line, first.entry)

    def _is_after_shown(self, project: str, version: int) -> bool:
        """Return whether an earlier version's entry is shown: that of a later one would be too."""
        return any(one < version for one in self.applied.get(project, ()))

    def _on_own(self, leaf: int, line: int, entry: AuditLogEntry, payload: ErasablePayload) -> None:
        self.erasures.on_entry(entry, payload, after=self.retention.last_sealed)
        if entry.phase == DROPPED:
            self.retention.on_entry(leaf, line, entry, payload)

    def _on_call(self, leaf: int, line: int, entry: AuditLogEntry) -> None:
        key = call_key(entry)
        if key is None:
            return
        self.states.on_entry(leaf, line, entry)
        if entry.phase == "decision":
            self._on_decision(leaf, line, entry, key)
        kind = (entry.phase, entry.verdict)
        settles = self.calls.settles_doubt(key, kind)
        if kind in PERMISSIONS or (settles and entry.verdict == "retry"):
            self.decided.setdefault(key, leaf)
        if entry.verdict in EFFECTS.get(entry.phase, ()) and key not in self.decided and not settles:
            message = f"{entry.phase} {entry.verdict} of call {key[1]}, and no decision before it let it go"
            fault = _fault_at("effect_without_decision", message, leaf, line, entry)
            if self.partial:
                self.undecided.setdefault(key, []).append(fault)
            else:
                self.add_fault(fault)

    def _on_decision(self, leaf: int, line: int, entry: AuditLogEntry, key: CallKey) -> None:
        self.decisions += 1
        if entry.verdict in RULED_VERDICTS and (entry.project, entry.policy_version) not in self.policies:
            message = f"decided under policy version {entry.policy_version}, which is not stored"
            self._fault("decision_without_policy", message, leaf, line, entry)
        elif entry.verdict in RULED_VERDICTS and entry.policy_version not in self.applied.get(entry.project, ()):
            self._on_unapplied(leaf, line, entry)
        step = self.steps.get(key, _Step())
        if step.caller not in {None, entry.caller} or step.project not in {None, entry.project}:
            message = f"decided for {entry.caller!r}, and its run is stored as of {step.caller!r} in {step.project!r}"
            self._fault("requester_changed", message, leaf, line, entry)
        if step.erased or not step.kept:  # whatever is left of its log: who asks for the run finds none
            what = f"the log of run {entry.run_id} is {'erased' if step.erased else 'gone'}"
            self.emptied.append(_Gone("decision_without_run_event", what, entry, leaf, line))
        elif step.seq is None:
            message = f"no instruction in the log of run {entry.run_id} asks for call {key[1]}"
            self._fault("decision_without_run_event", message, leaf, line, entry)

    def _on_unapplied(self, leaf: int, line: int, entry: AuditLogEntry) -> None:
        key = entry.project, entry.policy_version
        self.unapplied.setdefault(key, _Unapplied(entry, leaf, line)).decisions += 1

    def _fault(self, code: str, message: str, leaf: int, line: int, entry: AuditLogEntry) -> None:
        self.add_fault(_fault_at(code, message, leaf, line, entry))


def _fault_at(code: str, message: str, leaf: int, line: int, entry: AuditLogEntry) -> AuditFault:
    return AuditFault(code=code, message=message, line=line, leaf=leaf, entry_id=entry.entry_id)


def _number(value: object) -> int:
    return value if type(value) is int else -1

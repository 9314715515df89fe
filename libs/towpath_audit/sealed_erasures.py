"""What of the log and of the ledger may be gone: what erasures of the log itself name.

An erased payload rests on three entries, in this order: somebody asked, another person confirmed (or the same one once
the delay was over, or where the platform is a single person's), and what was erased is named. What other tables held of
a run rests on the first two, or on the entry of a retention that pruned it: one person or a setting is enough for that,
so it covers nothing that was younger than a week. Where one is missing or says something else, nothing is covered,
whatever tables say: whoever owns the database can write tables.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.notes import write_time

REQUESTED = "audit.erase_requested"
CONFIRMED = "audit.erase_confirmed"
ERASED = "audit.erased"
PRUNED = "audit.pruned"

NOT_NAMED = "no erasure in the log names it"

NEVER_ERASED = ("audit.", "key.", "policy.")
"""Payloads of these phases stay, whatever an erasure names."""

EXPIRES = timedelta(days=7)
"""After the time from which whoever asked can confirm it, a request can be confirmed for so long."""

WRITTEN_WITHIN = timedelta(minutes=1)
"""How much later than the decision its entry may be written."""

LEAST_AGE_TO_PRUNE = timedelta(days=7)
"""What retention may take of runs, and what is written about them then, is at least so old."""

_NEVER = "~"
"""Later than any time."""

Detail = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Request:
    """What was asked for: by whom, when, from when on they may confirm alone, and what of which project.

    *runs* are those that were to be erased with a run; None where an earlier release did not say.
    """

    actor: str
    at: str
    entry_id: int
    alone_from: str
    project: str
    what: dict[str, str]
    runs: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class _Pruning:
    """Retention took what tables held of the calls of a run of *project*, which may be what is older than *before*."""

    project: str
    before: str


@dataclass
class SealedErasures:
    """Receives the log's own entries in order; answers whether something that is gone is covered.

    *confirmations* is false for bundles of form 1, in which erasures had neither requests nor confirmations. *partial*:
    retention dropped a part of the log, and with it perhaps requests to erase runs that went on after it. What else is
    erased is older than its request, so wherever its entry is the request is too. An erasure that was carried out from
    *told_from* on was asked for after what was dropped.
    """

    confirmations: bool = True
    partial: bool = False
    requested: dict[str, _Request] = field(default_factory=dict)
    confirmed: dict[str, frozenset[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    entries: dict[int, list[str]] = field(default_factory=dict)
    runs: dict[str, list[str]] = field(default_factory=dict)
    told_from: str = _NEVER
    of_runs: dict[str, str] = field(default_factory=dict)
    untold: set[str] = field(default_factory=set)
    pruned: dict[str, list[_Pruning]] = field(default_factory=dict)

    def on_entry(self, entry: AuditLogEntry, payload: ErasablePayload, *, after: str = "") -> None:
        """Add an entry of the log about itself; it was written after the time *after*, whatever it says."""
        said = read_detail(payload)
        erasure = str(said.get("erasure_id"))
        if entry.phase == REQUESTED:
            alone_from, runs = str(said.get("alone_from")), _runs(said) if "runs" in said else None
            request = _Request(entry.actor, entry.at, entry.entry_id, alone_from, entry.project, _what(said), runs)
            self.requested.setdefault(erasure, request)
        elif entry.phase == CONFIRMED and erasure not in self.confirmed:
            self._on_confirmed(entry, said, erasure)
        elif entry.phase == ERASED:
            self._on_erased(said, erasure, max(entry.at, after))
        elif entry.phase == PRUNED:
            self._on_pruned(entry, said)

    def why_entry_is_uncovered(self, entry: AuditLogEntry) -> str | None:
        """Return why the payload of *entry* may not be gone; None where it may."""
        return self._why(self.entries.get(entry.entry_id, []), entry)

    def why_ledger_is_uncovered(self, entry: AuditLogEntry) -> str | None:
        """Return why what tables hold of the call of *entry* may not be gone; None where it may."""
        erasures = [one for one in self.runs.get(str(entry.run_id), ()) if self.requested[one].project == entry.project]
        prunings = self.pruned.get(str(entry.run_id), ())
        if erasures or any(one.project == entry.project and entry.at < one.before for one in prunings):
            return None
        return (
            "retention pruned its run, and may not have: it was younger"
            if prunings
            else "no erasure of its run in the log was asked for and confirmed"
        )

    def notes(self) -> list[str]:
        """Return what can't be told of the erasures that covered something."""
        if not self.untold:
            return []
        said = f"{len(self.untold)} erasures were carried out whose requests may be in what retention dropped"
        return [f"{said}: it can't be told whether they were asked for and confirmed"]

    def _why(self, erasures: list[str], entry: AuditLogEntry) -> str | None:
        whys = [self._why_not_by(one, entry) for one in erasures]
        return None if None in whys else whys[0] if whys else NOT_NAMED

    def _why_not_by(self, erasure: str, entry: AuditLogEntry) -> str | None:
        if not self.confirmations:
            return None
        if self._may_be_untold(erasure) and entry.run_id is not None:
            self.untold.add(erasure)
            return None
        if erasure in self.refused:
            return self.refused[erasure]
        if entry.phase.startswith(NEVER_ERASED):
            return f"erasure {erasure} names it, and entries of {entry.phase} are never erased"
        request = self.requested[erasure]
        if request.project != entry.project or not _fits(request.what, self.confirmed[erasure], entry):
            return f"erasure {erasure}, which names it, was confirmed for something else"
        came_first = (entry.at, entry.entry_id) < (request.at, request.entry_id)  # a clock set back leaves equal times
        if request.what["kind"] != "run" and not came_first:
            return f"erasure {erasure}, which names it, was asked for before it was written"
        return None

    def _may_be_untold(self, erasure: str) -> bool:
        """Return whether retention may have dropped the request of *erasure*."""
        carried_out = self.of_runs.get(erasure, _NEVER)
        return self.partial and erasure not in self.requested and carried_out < self.told_from

    def _on_confirmed(self, entry: AuditLogEntry, said: Detail, erasure: str) -> None:
        request = self.requested.get(erasure)
        if request is None or (request.project, request.what) != (entry.project, _what(said)):
            return
        alone = entry.actor == request.actor
        waited = said.get("after_delay") is True and entry.at >= _utc(request.alone_from)
        if alone and not waited and said.get("single_person") is not True:
            return
        if not entry.at < _expiry(request.alone_from):
            return
        runs = _runs(said)
        if request.runs is not None and not runs <= request.runs:
            return
        self.confirmed[erasure] = runs
        if request.what["kind"] == "run":
            for one in self.confirmed[erasure]:
                self.runs.setdefault(one, []).append(erasure)

    def _on_pruned(self, entry: AuditLogEntry, said: Detail) -> None:
        before = _what(said).get("before", _NEVER)
        if before > _shifted(entry.at, -LEAST_AGE_TO_PRUNE):
            before = ""  # nothing is older
        for one in _runs(said):
            self.pruned.setdefault(one, []).append(_Pruning(entry.project, before))

    def _on_erased(self, said: Detail, erasure: str, at: str) -> None:
        if said.get("kind") == "run":
            self.of_runs[erasure] = at
        named = said.get("entries")
        for one in named if isinstance(named, list) else ():
            if type(one) is int:
                self.entries.setdefault(one, []).append(erasure)
        if erasure not in self.requested:
            self.refused.setdefault(erasure, f"erasure {erasure}, which names it, was asked for by nobody in the log")
        elif erasure not in self.confirmed:
            self.refused.setdefault(erasure, f"erasure {erasure}, which names it, was confirmed by nobody in the log")


def read_detail(payload: ErasablePayload | None) -> Detail:
    """Return the details of an entry; none where they are gone, or of another kind."""
    try:
        found = {} if payload is None else json.loads(payload.detail)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _runs(said: Detail) -> frozenset[str]:
    runs = said.get("runs")
    return frozenset(map(str, runs)) if isinstance(runs, list) else frozenset()


def _what(said: Detail) -> dict[str, str]:
    what = said.get("what")
    found = {str(name): str(value) for name, value in what.items()} if isinstance(what, dict) else {}
    if "before" in found:
        found["before"] = _utc(found["before"])
    return found | {"kind": str(said.get("kind", "payloads"))}


def _fits(what: dict[str, str], runs: frozenset[str], entry: AuditLogEntry) -> bool:
    """Return whether *entry* is among what was to be erased: it fits all that was named."""
    if what["kind"] == "run":
        return str(entry.run_id) in runs
    said = {"run_id": entry.run_id, "execution_id": entry.execution_id, "caller": entry.caller}
    named = [name for name in said if name in what]
    before = what.get("before")
    if not named and before is None:
        return False
    return all(said[name] == what[name] for name in named) and (before is None or entry.at < before < _NEVER)


def _expiry(alone_from: str) -> str:
    """Return until when a confirmation is written of a request that can be confirmed alone from *alone_from* on."""
    return _shifted(_utc(alone_from), EXPIRES + WRITTEN_WITHIN)


def _shifted(at: str, by: timedelta) -> str:
    """Return the time so much later; one before any where *at* is none."""
    try:
        return write_time(datetime.fromisoformat(at) + by)
    except (ValueError, OverflowError):
        return ""


def _utc(at: str) -> str:
    """Return a time as entries write it, so that texts compare; what is none is later than any."""
    try:
        found = datetime.fromisoformat(at)
        return write_time(found) if found.tzinfo is not None else _NEVER
    except (ValueError, OverflowError):
        return _NEVER

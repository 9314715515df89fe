"""The runs that the watchdog follows, and which of their events are missing.

Bounded. The run that was quiet longest is forgotten first, and one that has ended at once; whoever comes again is
read from the run log, from a little before where it goes on: what is judged is never older than that.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from towpath_contracts.runs.raw_events import RawEntry, RawTransitionEvents
from towpath_contracts.runs.views import RunSeq
from towpath_watchdog.core.findings import Finding, findings
from towpath_watchdog.core.trace import WatchedRun

RUNS_KEPT = 5_000
"""Traces in memory; at most some 100 MB where every one is full of long texts."""

ENDED_KEPT = 20_000
"""Ids of runs that have ended, about 4 MB: what the sweep still sees of them is not looked at again. A sweep looks back
over some ten seconds."""

WINDOW_EVENTS = 200
"""Of a log that is read in its middle: more than all acts that are kept make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingReport:
    """A finding that is to be reported of a run; `seq` is how far its log was seen."""

    run_id: UUID
    seq: int
    finding: Finding


class WatchedRuns:
    """What the watchdog knows of every run that goes on, and which runs have ended."""

    def __init__(self, runs_kept: int = RUNS_KEPT) -> None:
        self._traces: OrderedDict[UUID, WatchedRun] = OrderedDict()
        self._ended: OrderedDict[UUID, None] = OrderedDict()
        self._touched: dict[UUID, None] = {}
        self._late: dict[UUID, int] = {}
        self._runs_kept = runs_kept

    def __len__(self) -> int:
        return len(self._traces)

    @property
    def changed_runs(self) -> int:
        """How many runs had events since the last `reports`."""
        return len(self._touched)

    def trace(self, run_id: UUID) -> WatchedRun | None:
        """Return what is known of a run that goes on."""
        return self._traces.get(run_id)

    def ended(self, run_id: UUID) -> bool:
        """Return whether the run is known to have ended."""
        return run_id in self._ended

    def end(self, run_id: UUID) -> None:
        """Forget a run that has ended, or is not there any more."""
        self._forget(run_id)
        self._late.pop(run_id, None)
        self._ended[run_id] = None
        while len(self._ended) > ENDED_KEPT:
            self._ended.popitem(last=False)

    def take(self, batch: RawTransitionEvents) -> bool:
        """Take what arrived of a run; False where something before it is missing, so that its log must be read."""
        if batch.run_id in self._ended:
            return True
        trace = self._traces.get(batch.run_id)
        entries = sorted(batch.entries, key=_seq)
        if not entries:
            return True
        held = 0 if trace is None else trace.seq
        fresh = [entry for entry in entries if entry.seq > held]
        if fresh and fresh[0].seq > held + 1:
            return False
        self._observe(batch.run_id, batch.project, fresh)
        return True

    def start_of(self, run_id: UUID, seq: int) -> int:
        """Return after which event the log of a run that stands at *seq* is to be read."""
        trace = self._traces.get(run_id)
        return max(0 if trace is None else trace.seq, seq - WINDOW_EVENTS)

    def load(self, run_id: UUID, project: str, after: int, entries: Iterable[RawEntry]) -> None:
        """Take a piece of a run's log that follows event *after*; what is already held is left out."""
        trace = self._traces.get(run_id)
        if trace is not None and trace.seq < after:
            self._forget(run_id)  # what lies between is left out, so nothing of before may be joined to it
            trace = None
        held = after if trace is None else trace.seq
        self._observe(run_id, project, [entry for entry in entries if entry.seq > held])

    def _observe(self, run_id: UUID, project: str, entries: list[RawEntry]) -> None:
        if not entries:
            return
        trace = self._traces.get(run_id)
        if trace is None:
            trace = self._traces[run_id] = WatchedRun(run_id=run_id, project=project)
        self._traces.move_to_end(run_id)
        for entry in entries:
            trace.observe(entry)
        if trace.ended:
            self.end(run_id)
            return
        self._touched[run_id] = None
        while len(self._traces) > self._runs_kept:
            self._forget(next(iter(self._traces)))

    def _forget(self, run_id: UUID) -> None:
        self._traces.pop(run_id, None)
        self._touched.pop(run_id, None)

    def late(self, runs: Iterable[RunSeq]) -> list[RunSeq]:
        """Return those of *runs* whose events did not arrive: at the last sweep they were behind at the same place.

        Those that are behind for the first time are remembered: mostly their events are on their way.
        """
        before, self._late = self._late, {}
        stuck: list[RunSeq] = []
        for run in runs:
            trace = self._traces.get(run.run_id)
            held = 0 if trace is None else trace.seq
            if run.run_id in self._ended or held >= run.seq:
                continue
            self._late[run.run_id] = held
            if before.get(run.run_id) == held:
                stuck.append(run)
        return stuck

    def reports(self) -> list[FindingReport]:
        """Return the findings of runs that had events since the last call, one each.

        A reported finding begins a new window, also where the run machine ignores it: none is reported twice.
        """
        touched, self._touched = self._touched, {}
        found: list[FindingReport] = []
        for run_id in touched:
            trace = self._traces[run_id]
            first = next(iter(findings(trace)), None)
            if first is not None:
                found.append(FindingReport(run_id=run_id, seq=trace.seq, finding=first))
                trace.begin_window()
        return found


def _seq(entry: RawEntry) -> int:
    return entry.seq

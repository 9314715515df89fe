"""The watchdog's reports that a run has taken. Bounded; a report is identified by its key."""

from dataclasses import dataclass

from towpath_contracts.runs.idle_runs import FindingName

REPORTS_KEPT = 16
"""Reports by key; of an older one a repetition would be taken for news, which costs a nudge."""


@dataclass(frozen=True, kw_only=True)
class AcceptedWatchdogReport:
    """A report that was taken: what it is about, at which event of the run, and how often so far."""

    key: str
    seq: int
    times: int = 1


@dataclass(frozen=True, kw_only=True)
class PendingFinding:
    """A finding that the next step begins with: a note to the model, or a gate."""

    finding: FindingName
    key: str
    action: str
    text: str


@dataclass(frozen=True, kw_only=True)
class WatchdogReports:
    """The last reports, and the finding that the model was not told about yet."""

    taken: tuple[AcceptedWatchdogReport, ...] = ()
    untold: PendingFinding | None = None

    def of(self, key: str) -> AcceptedWatchdogReport | None:
        """Return the last report of *key*."""
        return next((taken for taken in self.taken if taken.key == key), None)

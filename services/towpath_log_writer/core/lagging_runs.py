"""Which runs history is late with, and when to ask for one again.

A run that can't be completed is asked for ever more rarely and holds up no other; it is remembered until history
has it all, so the time until which nothing is missing never passes it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from towpath_contracts.runs.views import RunSeq

LATE_KEPT = 20_000
"""Late runs in memory, about 10 MB; with so many, newer ones wait until some are complete."""

LONGEST_WAIT_S = 60.0
"""Between two readings of a log that brought nothing."""


@dataclass(slots=True, kw_only=True)
class _LaggingRun:
    run: RunSeq
    held: int
    due: float
    tries: int = 0


class LaggingRuns:
    """The runs of which history holds less than the orchestrator; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._lagging_runs: dict[UUID, _LaggingRun] = {}

    @property
    def ids(self) -> list[UUID]:
        """The runs that are late."""
        return list(self._lagging_runs)

    @property
    def full(self) -> bool:
        """Whether no more should be looked for now."""
        return len(self._lagging_runs) >= LATE_KEPT

    @property
    def oldest(self) -> datetime | None:
        """When the first of them moved; before that nothing is missing that was looked for."""
        return min((late.run.updated_at for late in self._lagging_runs.values()), default=None)

    def add_lagging(self, runs: Iterable[RunSeq], held: Mapping[UUID, int], due: float) -> None:
        """Remember those of *runs* that are late; one that was not known is first asked for when *due*."""
        for run in runs:
            if held[run.run_id] >= run.seq:
                continue
            known = self._lagging_runs.get(run.run_id)
            if known is None:
                self._lagging_runs[run.run_id] = _LaggingRun(run=run, held=held[run.run_id], due=due)
            else:
                known.run = run

    def forget(self, run_id: UUID) -> None:
        """Drop a run that has no log any more."""
        self._lagging_runs.pop(run_id, None)

    def drop_complete(self, held: Mapping[UUID, int]) -> None:
        """Drop those that history has now."""
        self._lagging_runs = {
            key: late for key, late in self._lagging_runs.items() if held.get(key, late.held) < late.run.seq
        }

    def take_due(self, held: Mapping[UUID, int], now: float, every_s: float) -> dict[UUID, str]:
        """Return those to read now, with project: they are due and have not moved, so nothing is on its way."""
        wanted: dict[UUID, str] = {}
        for key, late in self._lagging_runs.items():
            if now < late.due:
                continue
            seen = held.get(key, late.held)
            if seen != late.held:
                late.held, late.tries = seen, 0
            else:
                wanted[key] = late.run.project
                late.tries += 1
            late.due = now + min(every_s * 2.0 ** min(late.tries, 16), max(LONGEST_WAIT_S, every_s))
        return wanted

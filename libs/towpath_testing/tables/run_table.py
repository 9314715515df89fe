"""Runs in memory with the indexes that the table has: those that are alive, and those that are woken at a time."""

from datetime import datetime
from typing import Any
from uuid import UUID

Row = dict[str, Any]

ALIVE = frozenset({"queued", "running", "waiting", "cancelling"})


class RunTable(dict[UUID, Row]):
    """Runs by their ids; `alive` and `timed` are those of them that are.

    A harness may hold many runs that ended long ago. What is asked several times a second looks at none of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[UUID, Row] = {}
        self.timed: dict[UUID, Row] = {}
        self._places: dict[UUID, int] = {}

    def __setitem__(self, run_id: UUID, run: Row) -> None:
        self._places.setdefault(run_id, len(self._places))
        super().__setitem__(run_id, run)
        self._index(run_id, run)

    def change(self, run_id: UUID, values: Row) -> None:
        """Change a run; whoever changes its status or the time when it is woken does it here."""
        run = self[run_id]
        run.update(values)
        self._index(run_id, run)

    def due(self, now: datetime) -> list[Row]:
        """Return the runs that are to be woken by *now*: as their times come, and of one time as they were begun."""
        due = [run for run in self.timed.values() if run["wake_at"] <= now]
        return sorted(due, key=lambda run: (run["wake_at"], self._places[run["run_id"]]))

    def _index(self, run_id: UUID, run: Row) -> None:
        for index, belongs in ((self.alive, run["status"] in ALIVE), (self.timed, run["wake_at"] is not None)):
            if belongs:
                index[run_id] = run
            else:
                index.pop(run_id, None)

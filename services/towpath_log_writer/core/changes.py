"""What a batch of events changes, collected row by row.

Each row occurs once. A position in the log names its run, so that no event can change a row of another run.
"""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from towpath_log_writer.core.rows import CostRow, NewRunRow, RunRowChange, StepRow, ToolCallRow


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableEvent:
    """An event of a known type that does not read as one."""

    run_id: UUID
    seq: int
    type: str
    error: str


@dataclass(slots=True, kw_only=True)
class HistoryChanges:
    """What a batch of events changes, each row once."""

    new_runs: dict[UUID, NewRunRow] = field(default_factory=dict)
    runs: dict[UUID, RunRowChange] = field(default_factory=dict)
    steps: dict[tuple[UUID, int], StepRow] = field(default_factory=dict)
    tools: dict[tuple[UUID, UUID], ToolCallRow] = field(default_factory=dict)
    costs: dict[tuple[UUID, date, str, str], CostRow] = field(default_factory=dict)
    unreadable: list[UnreadableEvent] = field(default_factory=list)
    finished: set[UUID] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class EventRowBuilder:
    """Gives the rows of history that one event changes, made where this event is the first word on them."""

    changes: HistoryChanges
    run_id: UUID
    project: str
    at: datetime

    def step(self, number: int) -> StepRow:
        """Return the step's row, made if this is the first word about it."""
        key = (self.run_id, number)
        row = self.changes.steps.get(key)
        if row is None:
            row = StepRow(run_id=self.run_id, step=number, project=self.project, began_at=self.at, ended_at=self.at)
            self.changes.steps[key] = row
        row.ended_at = self.at
        return row

    def run(self, status: str) -> RunRowChange:
        """Return the run's change with its new status."""
        change = self._change()
        change.status = status
        return change

    def merge_state(self, summary: dict[str, Any]) -> None:
        """Add to the state of a run whose status stays what it is."""
        self._change().snapshot |= summary

    def note_wait(self, what: UUID, *, open_: bool) -> None:
        """Note whether people are asked at a gate, or in a child run: a run that waits for them is `waiting`."""
        self._change().waits[str(what)] = open_

    def _change(self) -> RunRowChange:
        return self.changes.runs.setdefault(self.run_id, RunRowChange(run_id=self.run_id))

    def cost(self, agent_id: str = "", model: str = "") -> CostRow:
        """Return what this day costs of the run, or of one of its agents with one model. A day is one of UTC."""
        day = self.at.astimezone(UTC).date()
        row = CostRow(run_id=self.run_id, day=day, agent_id=agent_id, model=model)
        return self.changes.costs.setdefault((self.run_id, day, agent_id, model), row)

    def tool(self, execution_id: UUID, step: int, index: int, agent: str, name: str, status: str) -> ToolCallRow:
        """Return the call's row with its new status."""
        key = (self.run_id, execution_id)
        row = self.changes.tools.get(key)
        if row is None:
            row = ToolCallRow(
                run_id=self.run_id,
                execution_id=execution_id,
                project=self.project,
                step=step,
                call_index=index,
                agent_id=agent,
                tool=name,
                status=status,
            )
            self.changes.tools[key] = row
        row.status = status
        return row

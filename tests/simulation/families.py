"""What must hold between runs and the runs they start, whatever happened.

A child is born once and ends, its parent gets its end once, and nothing of it begins once its parent is
`cancelled`.
"""

import json
from collections import Counter
from typing import Any
from uuid import UUID

from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.tools.calls import EffectClass


class RunTreeJudge:
    """Judges the children of one world; what is wrong is reported to the world."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._runs = world.runs

    def judge(self) -> None:
        """Compare what parents report with what there is."""
        started: dict[UUID, UUID] = {}
        for parent, rows in self._runs.events.items():
            reported = self._reported(parent, rows)
            for child in reported:
                if child in started:
                    self._world.complain(f"{child} was started twice: by {started[child]} and {parent}")
                started[child] = parent
        for run_id, run in self._runs.runs.items():
            if run["parent_run_id"] != started.get(run_id):
                self._world.complain(f"{run_id} stands below {run['parent_run_id']}, started by {started.get(run_id)}")
        for child, parent in started.items():
            self._child(child, parent)
        self._after_cancel()

    def _reported(self, parent: UUID, rows: dict[int, dict[str, Any]]) -> Counter[UUID]:
        """Return the children that *parent* started, after comparing them with those whose end it knows."""
        events = [json.loads(row["event"]) for _, row in sorted(rows.items())]
        begun = Counter(UUID(one["child_id"]) for one in events if one["type"] == "child_started")
        ended = Counter(UUID(one["child_id"]) for one in events if one["type"] == "child_ended")
        if begun != ended:
            self._world.complain(f"{parent} started {dict(begun)} and reported the end of {dict(ended)}")
        for one in events:
            if one["type"] == "child_ended":
                self._compare(UUID(one["child_id"]), one)
            elif one["type"] == "child_waits":
                self._world.seen.note("child_waits")
        return begun

    def _compare(self, child: UUID, reported: dict[str, Any]) -> None:
        run = self._runs.runs.get(child)
        if run is not None and (run["status"], run["reason"]) != (reported["status"], reported["reason"]):
            self._world.complain(
                f"{child} is {run['status']} {run['reason']}, told {reported['status']} {reported['reason']}"
            )

    def _child(self, child: UUID, parent: UUID) -> None:
        run, above = self._runs.runs.get(child), self._runs.runs[parent]
        if run is None:
            self._world.complain(f"lost: {parent} started {child}, which does not exist")
            return
        if run["status"] not in FINAL_STATUSES:
            self._world.complain(f"lost: {child} of {parent} is {run['status']} {run['reason']}")
        ordered = above["kind"] == "plan" and above["depth"] > 0  # agents of a plan that one asked for stand beside it
        if (run["depth"], run["caller"]) != (above["depth"] + (not ordered), above["caller"]):
            self._world.complain(f"{child} stands {run['depth']} deep for {run['caller']}")
        if above["status"] == "cancelled" and self._over(child) > self._over(parent):
            self._world.complain(f"{parent} was cancelled before its child {child} had ended")
        self._world.seen.note(f"child_{run['status']}")
        self._world.seen.note(f"parent_{above['status']}")
        if self._runs.events[child][2]["type"] == "cancel_accepted":
            self._world.seen.note("child_stopped_before_it_began")

    def _over(self, run_id: UUID) -> float:
        over = self._runs.over_at.get(run_id)
        return float("inf") if over is None else float(over.timestamp())

    def _after_cancel(self) -> None:
        """No effect of a child begins once a run above it is `cancelled`."""
        for act in self._world.outside.acts:
            above = self._runs.runs[act.run_id]["parent_run_id"]
            while above is not None:
                run = self._runs.runs[above]
                late = run["status"] == "cancelled" and act.began.timestamp() > self._over(above)
                if late and act.effect_class is not EffectClass.PURE:
                    self._world.complain(f"{act.execution_id} began after {above}, above its run, was cancelled")
                above = run["parent_run_id"]

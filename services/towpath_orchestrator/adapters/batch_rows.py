"""The values of `commit_batch`: what its transitions write, as arrays of columns, or as JSON arrays of rows.

Plain arrays hold what every batch has; JSON arrays hold gates and children, which few batches have.
"""

import json
from collections.abc import Mapping
from typing import Any

from towpath_contracts.events import log as ev
from towpath_contracts.runs.trace_context import trace_of
from towpath_engine.advance import wake_at
from towpath_engine.handlers.children import cost_of_children, usage_of_children
from towpath_engine.state.run import RunState
from towpath_orchestrator.adapters.storable_text import storable
from towpath_orchestrator.core.transitions import Transition

MAX_FILTERED_CHARS = 200
"""Of the name of a tool or rule, by which gates are listed."""


def outcome_of(state: RunState) -> str | None:
    """Return the JSON of a finished run's outcome, None while it lives."""
    if not state.is_final:
        return None
    body: dict[str, Any] = {
        "final": state.final,
        "last_output": state.last_output,
        "usage": state.usage.model_dump(mode="json"),
        "cost": state.cost.model_dump(mode="json"),
    }
    below = {"below": cost_of_children(state), "usage_below": usage_of_children(state)}
    body |= {name: value.model_dump(mode="json") for name, value in below.items() if value is not None}
    if state.created.parent is not None:  # what its parent may have to ask for
        body["cursors"] = {queue: place for queue, place in state.cursors.items() if queue == state.created.agent_key}
        body["worked"] = state.worked
    return json.dumps(body)


def run_columns(batch: list[Transition]) -> list[list[Any]]:
    states = [transition.state for transition in batch]
    return [
        [s.run_id for s in states],
        [transition.before_seq for transition in batch],
        [s.seq for s in states],
        [str(s.status) for s in states],
        [storable(s.reason) for s in states],
        [s.fence for s in states],
        [wake_at(s) for s in states],
        [s.agent_key for s in states],
        [s.step for s in states],
        [s.started_at for s in states],
        [s.ended_at for s in states],
        [outcome_of(s) for s in states],
        [s.call_counts.model_dump_json() for s in states],
    ]


def event_columns(batch: list[Transition]) -> list[list[Any]]:
    rows = [
        (transition.state.run_id, entry.seq, entry.event.type, text)
        for transition in batch
        for entry, text in zip(transition.entries, transition.texts, strict=True)
    ]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], []]


def fact_columns(batch: list[Transition]) -> list[list[Any]]:
    rows = [(transition.state.run_id, first, text) for transition in batch for first, text in transition.facts]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]


_GATE_STATUS = {"approved": "approved", "denied": "denied", "expired": "expired", "void": "void"}


def opened_gates(batch: list[Transition]) -> str:
    """Write the opened gates; one that the same batch closes again is stored as closed at once."""
    events = [entry.event for transition in batch for entry in transition.entries]
    closed = {event.gate_id: event.verdict for event in events if isinstance(event, ev.GateClosed)}
    rows = [
        {
            "gate_id": str(entry.event.gate_id),
            "run_id": str(transition.state.run_id),
            "project": transition.state.created.project,
            "network": transition.state.created.network,
            "gate_type": entry.event.gate_type,
            "status": _GATE_STATUS.get(closed.get(entry.event.gate_id, ""), "settled")
            if entry.event.gate_id in closed
            else "pending",
            "reason": storable(entry.event.reason),
            "detail": json.dumps(entry.event.detail),  # a string: Postgres can't take objects apart that hold NUL
            "tool": _named(entry.event.detail, "tool"),
            "rule": _named(entry.event.detail, "rule"),
            "execution_id": str(entry.event.execution_id) if entry.event.execution_id else None,
            "approval_id": str(entry.event.approval_id) if entry.event.approval_id else None,
            "expires_at": entry.event.expires_at.isoformat(),
        }
        for transition in batch
        for entry in transition.entries
        if isinstance(entry.event, ev.GateOpened)
    ]
    return json.dumps(rows) if rows else "[]"


def _named(detail: Mapping[str, Any], name: str) -> str:
    """Return what gates are filtered by: the beginning of a text in *detail*."""
    found = detail.get(name)
    return storable(found)[:MAX_FILTERED_CHARS] if isinstance(found, str) else ""


def closed_gates(batch: list[Transition]) -> str:
    rows = [
        {
            "gate_id": str(entry.event.gate_id),
            "run_id": str(transition.state.run_id),
            "status": _GATE_STATUS.get(entry.event.verdict, "settled"),
            "verdict": entry.event.verdict,
            "by": storable(entry.event.by),
            "reason": storable(entry.event.reason),
        }
        for transition in batch
        for entry in transition.entries
        if isinstance(entry.event, ev.GateClosed)
    ]
    return json.dumps(rows) if rows else "[]"


def child_columns(born: list[Transition]) -> tuple[str, str, str]:
    """Return runs, events and facts of *born*, each as a JSON array.

    Events and facts are strings in it: Postgres can't take an array apart in which an object holds NUL.
    """
    runs = [_child_row(child) for child in born]
    events = [
        {"run_id": str(child.state.run_id), "seq": entry.seq, "type": entry.event.type, "event": text}
        for child in born
        for entry, text in zip(child.entries, child.texts, strict=True)
    ]
    facts = [
        {"run_id": str(child.state.run_id), "first_seq": first, "fact": text}
        for child in born
        for first, text in child.facts
    ]
    return json.dumps(runs), json.dumps(events), json.dumps(facts)


def _child_row(child: Transition) -> dict[str, Any]:
    state, task = child.state, child.state.created
    parent, wake, trace = task.parent, wake_at(child.state), trace_of(task.traceparent)
    if parent is None:
        msg = f"{state.run_id} is nobody's child"
        raise ValueError(msg)
    return {
        "run_id": str(state.run_id),
        "project": task.project,
        "kind": task.kind,
        "network": task.network,
        "version": task.version,
        "snapshot_digest": task.snapshot_digest,
        "status": str(state.status),
        "seq": state.seq,
        "wake_at": None if wake is None else wake.isoformat(),
        "caller": task.caller,
        "priority": task.priority,
        "agent_key": state.agent_key,
        "step": state.step,
        "max_steps": task.max_steps,
        "user_message": storable(task.user_message),
        "labels": {storable(name): storable(value) for name, value in task.labels.items()},
        "debug": task.debug,
        "started_at": None if state.started_at is None else state.started_at.isoformat(),
        "parent_run_id": str(parent.run_id),
        "root_run_id": str(parent.root_id),
        "depth": parent.depth,
        "trace_id": None if trace is None else str(trace),
    }

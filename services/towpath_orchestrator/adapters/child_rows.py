"""The rows of children that a transition starts, as `commit_children` takes them."""

import json
from typing import TYPE_CHECKING, Any

from towpath_engine.advance import wake_at
from towpath_orchestrator.adapters.storable_text import storable

if TYPE_CHECKING:
    from towpath_orchestrator.adapters.run_store import Moved


def born_columns(born: "list[Moved]") -> tuple[str, str, str]:
    """Return runs, events and facts of *born*, each as a JSON array.

    Events and facts are strings in it: Postgres takes no array apart in which an object says NUL.
    """
    runs = [_row(child) for child in born]
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


def _row(child: "Moved") -> dict[str, Any]:
    state, task = child.state, child.state.created
    parent, wake = task.parent, wake_at(child.state)
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
    }

"""Asks a specialist after a denial: another agent does in a run of its own what this one may not do.

The child acts by its own rights, within every grant of its parent. Asking a specialist never allows what was denied.
"""

from towpath_contracts.canonical import canonical_json
from towpath_contracts.runs.children import ChildTask
from towpath_contracts.text import truncate
from towpath_engine.handlers.children import can_spawn, spawn_children
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import OpenCall, RunState

SPECIALIST = "specialist"
ARGUMENT_CHARS = 4_000


def can_ask_specialist(state: RunState, agent_key: str, call: OpenCall) -> bool:
    """Return whether *agent_key* can be asked about *call*: it exists, is another, and was not asked in this step."""
    asked = any(c.purpose == SPECIALIST and c.subject == call.call.tool for c in state.children)
    known = agent_key in state.snapshot.agents and agent_key != state.agent_key
    return known and not asked and can_spawn(state)


def ask_specialist(run: TransitionBuilder, agent_key: str, call: OpenCall, reason: str) -> None:
    """Start the specialist's run; what it answers is shown to this agent as an output of `agent:<key>`."""
    tool, arguments = call.call.tool, truncate(canonical_json(call.shown_args()), ARGUMENT_CHARS)
    wanted = (
        f"{run.state.agent_key} may not call {tool} ({reason}). Do what it needs and answer with the result. "
        f"The call it wanted: {tool} {arguments}. What it is for: {run.state.created.user_message}"
    )
    spawn_children(run, [ChildTask(agent_key=agent_key, user_message=wanted, purpose=SPECIALIST, subject=tool)])

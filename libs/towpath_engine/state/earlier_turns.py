"""When a model summarizes what was left out of a conversation, and what of its answer is kept.

A run asks once, before its first step, where its first event says that turns were left out. An answer that can't be
read, or that judged nothing, is no summary: then the older one stands, or none. Agents in user code are not asked, nor
are runs of other kinds, whose steps have assessments of their own.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.assessments import UNJUDGED
from towpath_contracts.decisions.earlier_turns import SUMMARY_CHARS
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.text import truncate
from towpath_engine.state.run import RunState

AGENT_MODEL = "agent:"


def wants_summary(state: RunState) -> bool:
    """Return whether a summary of earlier turns is asked for before the run begins, or has been and is awaited."""
    task = state.created
    if task.continues is None or not task.continues.to_summarize or state.earlier_summary is not None:
        return False
    model = task.model or state.snapshot.agents[state.agent_key].model
    decides = task.kind in ("network", "swarm") and state.composition is None and task.parent is None
    return decides and state.step == 0 and not model.startswith(AGENT_MODEL)


def summary_in(answer: JsonObject) -> str:
    """Return the summary that *answer* holds; empty where it holds none."""
    text = answer.get("summary")
    return truncate(text, SUMMARY_CHARS) if isinstance(text, str) and text != UNJUDGED else ""


def is_summary_awaited(state: RunState) -> bool:
    """Return whether the answer that is awaited is that summary."""
    return state.asked == DecisionKind.SUMMARIZE and wants_summary(state)


def summary_of(state: RunState) -> str:
    """Return what stands for the turns that are left out: the newest summary there is."""
    before = state.created.continues
    return state.earlier_summary or ("" if before is None else before.summary)


def turns_to_summarize(state: RunState) -> str:
    """Return the turns that a summary is asked of, as text; the run machine has bounded them."""
    before = state.created.continues
    turns = () if before is None else before.to_summarize
    return "\n".join(f"[{turn.role}] {turn.content}" for turn in turns)

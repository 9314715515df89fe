"""The data of workload W1, the same for Towpath and for its peers. Standard library only.

A step is a decision of ~300 bytes and a call of `echo`, which returns the ~140 bytes that came in; each is durable
before the next.
"""

from typing import Any


def decision(tool: str, step: int) -> dict[str, Any]:
    """Return what the model decides in *step*: to call *tool*, each time with other arguments."""
    return {
        "action": "USE_TOOL",
        "action_reasoning": "r" * 60,
        "action_details": {"tool_name": tool, "tool_params": {"text": "x" * 120, "n": step}},
    }


def echo(text: str, n: int) -> dict[str, Any]:
    """Return what came in."""
    return {"text": text, "n": n}


def call(decided: dict[str, Any]) -> dict[str, Any]:
    """Make the call of a decision; returns its result."""
    return echo(**decided["action_details"]["tool_params"])


def answer(run_id: str, steps: int) -> str:
    """Return what a peer's run has to end with."""
    return f"done {run_id} {steps}"

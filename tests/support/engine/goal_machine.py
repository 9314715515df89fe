"""Goal runs of the machine alone: what starts one, and what is asked of it."""

from typing import Any

from tests.support.engine.machine import Machine, agent, snapshot, tool

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import Denial

PASSING = {"passed": 4, "failed": 0}
FAILING = {"passed": 3, "failed": 1}
TOOLS = (
    tool("edit"),
    tool("test", reports="tests"),
    tool("build", reports="artifacts"),
    tool("deploy"),
    tool("scratch", workspace="scratch"),
)
EQUIPPED = ("edit", "test", "build", "deploy", "scratch")
AGENTS = (
    agent("coder", equipped_tools=EQUIPPED, allowed_routes=("senior",), allow_respond=True),
    agent("senior", equipped_tools=("deploy",), allowed_routes=("coder",)),
)
VALID = {"valid": True}


def goal_run(*criteria: str, texts: tuple[str, ...] = (), **settings: Any) -> Machine:
    """Start a goal run; assessments beside the ones under test are off unless *settings* say otherwise."""
    max_steps = settings.pop("max_steps", 20)
    goal = goal_of(*criteria, texts=texts, **settings)
    return Machine(snapshot(*AGENTS, tools=TOOLS), kind="goal", goal=goal, max_steps=max_steps)


def goal_of(*criteria: str, texts: tuple[str, ...] = (), **settings: Any) -> dict[str, Any]:
    """Write a goal as a task gives it."""
    wanted = [{"when": one} for one in criteria] + [{"text": one} for one in texts]
    settings = {"validate_steps": False, "step_attempts": 3, **settings}
    return {"goal": "Make the tests pass.", "acceptance_criteria": wanted, "settings": settings}


def asked(machine: Machine) -> str:
    return machine.state.asked


def deny(machine: Machine, **denial: Any) -> list[ev.AnyEvent]:
    body = {"violation_type": "permission_denied", "reason": "no rule", **denial}
    fact = facts.ToolDeniedFact(run_id=machine.state.run_id, execution_id=machine.call_id(), denial=Denial(**body))
    return machine.feed(fact)

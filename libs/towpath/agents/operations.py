"""What an agent may have the platform do: each function makes a decision, and the platform carries it out.

These only build. Whether the tool may run, whether the route is allowed and who is asked at the gate is decided
behind the decision, by validation, the matrix and a person.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from towpath.declared_places import checks_call
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import (
    Abandon,
    AbandonDetails,
    RequestGate,
    RequestGateDetails,
    Respond,
    RespondDetails,
    RespondWithCertainty,
    RouteToAgent,
    RouteToAgentDetails,
    RouteToAgentWithCertainty,
    ToolCallProposal,
    UseTool,
    UseToolDetails,
    UseToolWithCertainty,
)

Move = UseToolWithCertainty | RouteToAgentWithCertainty | RespondWithCertainty | Abandon | RequestGate
"""What the functions here return."""

AnyMove = Move | UseTool | RouteToAgent | Respond
"""A decision in any of its typed forms."""


def move_json(written: Any) -> Any:
    """Return a move as a model writes it: what it leaves at its default is left out. All else is returned as it is."""
    if not isinstance(written, BaseModel):
        return written
    said = written.model_dump(mode="json", exclude_defaults=True)
    return {"action": written.action, **said} if hasattr(written, "action") else said


@checks_call
def execute_tool(tool: str, /, *, reasoning: str = "", **params: object) -> UseToolWithCertainty:
    """Have the tool-access service run one tool: `execute_tool("crm.lookup", customer="ada")`."""
    details = UseToolDetails(tool_name=tool, tool_params=params)
    return UseToolWithCertainty(action_reasoning=reasoning, action_details=details)


@checks_call
def execute_tools(calls: Sequence[tuple[str, JsonObject]], /, *, reasoning: str = "") -> UseToolWithCertainty:
    """Have several tools run together; their results come back in this order."""
    proposals = tuple(ToolCallProposal(tool_name=tool, tool_params=params) for tool, params in calls)
    return UseToolWithCertainty(action_reasoning=reasoning, action_details=UseToolDetails(calls=proposals))


@checks_call
def route(agent_key: str, /, *, context: Any = None, reasoning: str = "") -> RouteToAgentWithCertainty:
    """Hand control to another agent of the network; *context* is shown to it once."""
    details = RouteToAgentDetails(target_agent_name=agent_key, context=context)
    return RouteToAgentWithCertainty(action_reasoning=reasoning, action_details=details)


@checks_call
def respond(payload: JsonObject | str, /, *, reasoning: str = "") -> RespondWithCertainty:
    """Answer. In a goal run this claims that the work is done, and the platform checks it."""
    details = RespondDetails.model_validate({"payload": payload})
    return RespondWithCertainty(action_reasoning=reasoning, action_details=details)


def evaluate_confidence(move: Move, /, confidence: float | None = None) -> Move:
    """Have the confidence of this run checked before *move* is followed by another; goal and background runs only.

    *confidence* is what the agent itself believes, 0 to 1, where it knows.
    """
    return move.model_copy(update={"request_confidence": True, "confidence": confidence})


def create_gate(reason: str, /, *, reasoning: str = "", **detail: object) -> RequestGate:
    """Ask a person and wait: a gate of type `manual`; goal and background runs only."""
    return RequestGate(action_reasoning=reasoning, action_details=RequestGateDetails(reason=reason, detail=detail))


def abandon(rationale: str, /, *, reasoning: str = "") -> Abandon:
    """Give the goal or objective up, and say why; goal and background runs only."""
    return Abandon(action_reasoning=reasoning, action_details=AbandonDetails(rationale=rationale))

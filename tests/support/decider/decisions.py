"""Decision requests and decisions for tests of the decider."""

import json
import uuid
from typing import Any
from uuid import UUID

from towpath_contracts.decisions.request import DecisionRequest, OfferedRoute, OfferedTool, PromptContext
from towpath_contracts.ids import request_id
from towpath_decider.core.answer_checks import decision_check
from towpath_decider.core.answers import RefusedAnswer

RUN = UUID("0192f0c1-2f00-7000-8000-000000000001")
LOOKUP = OfferedTool(
    name="crm.lookup",
    description="Look a customer up.",
    parameters={"type": "object", "properties": {"customer": {"type": "string"}}, "required": ["customer"]},
)
USE_TOOL: dict[str, Any] = {
    "action": "USE_TOOL",
    "action_reasoning": "I must know who this is.",
    "action_details": {"tool_name": "crm.lookup", "tool_params": {"customer": "ada"}},
}
RESPOND: dict[str, Any] = {
    "action": "RESPOND",
    "action_reasoning": "Done.",
    "action_details": {"payload": {"message": "hello"}},
}


def context(**changes: Any) -> PromptContext:
    """Return a context with one tool, one route and the right to respond."""
    values: dict[str, Any] = {
        "agent_key": "triage",
        "display_name": "Triage",
        "base_prompt": "You are {{ agent_key }}.",
        "user_message": "Refund my order.",
        "tools": (LOOKUP,),
        "routes": (OfferedRoute(agent_key="billing", description="Refunds."),),
        "allow_respond": True,
        "steps_left": 5,
        **changes,
    }
    return PromptContext(**values)


def request(**changes: Any) -> DecisionRequest:
    """Return a request of the run RUN to the scripted provider; what is to run out of time says after how much."""
    values: dict[str, Any] = {
        "request_id": request_id(RUN, 1, "decide", 0),
        "run_id": RUN,
        "project": "default",
        "attempt": 1,
        "fence": 0,
        "step": 1,
        "epoch": 0,
        "model": "scripted:task",
        "context": context(),
        "timeout_ms": 180_000,
        "lease_ms": 360_000,
        **changes,
    }
    return DecisionRequest(**values)


def as_text(decision: dict[str, Any]) -> str:
    """Return *decision* as a model would write it."""
    return json.dumps(decision)


def check_decision(value: dict[str, Any]) -> str:
    """Say what keeps *value* from being a decision of `context()`."""
    check = decision_check(context())
    assert not isinstance(check, RefusedAnswer)
    return check(value)


def numbered(number: int, **changes: Any) -> DecisionRequest:
    run = uuid.UUID(int=(1 << 100) + number)
    return request(run_id=run, request_id=request_id(run, 1, "decide", 0), **changes)

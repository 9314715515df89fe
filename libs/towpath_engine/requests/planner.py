"""Asks a model for a plan: without tools, bound to a schema, checked, and corrected at most once.

What a model wrote is a plan only once `check_plan` finds nothing wrong with it. The planner is offered no tools, so it
can't call itself.
"""

from collections.abc import Iterator

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.assessments import MAX_ANSWER_TEXT
from towpath_contracts.decisions.earlier_turns import words_of
from towpath_contracts.decisions.request import PromptContext
from towpath_contracts.networks.plan import MAX_PROMPT, PLAN_TIMEOUT_MS, RESULT_KEY, STEP_ID, Plan
from towpath_contracts.networks.plan_checks import BLOCK_AGENTS, PLAN_INVALID
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.text import truncate
from towpath_engine.reducers.references import INLINE_BYTES, size_of
from towpath_engine.rules.members import members_of, nested_swarms
from towpath_engine.state.earlier_turns import summary_of
from towpath_engine.state.run import RunState

FAULT_CHARS = 400
"""Of one fault in the message to the planner."""

MAX_ATTEMPTS = 2
"""Plans that a model may write: the first, and one that mends it."""


def planner_context(state: RunState) -> PromptContext:
    """Return what the planner is asked: the task, the agents, the bindings, and what was wrong before."""
    task, held = state.created.plan, state.composition
    assert task is not None
    wrong = held.error if held is not None and held.error is not None else {}
    about: JsonObject = {
        "kind": state.asked,
        "agents": _agents(state),
        "bindings": task.bindings,
        "last_plan": wrong.get("plan"),
        "faults": wrong.get("faults", []),
    }
    return PromptContext(
        agent_key=state.agent_key,
        display_name="planner",
        user_message=task.prompt or "",
        quoted_inputs=state.created.quoted_inputs,
        messages=words_of(state.created.messages),
        messages_left_out=0 if state.created.continues is None else state.created.continues.turns_left_out,
        messages_summary=summary_of(state),
        steps_left=max(1, MAX_ATTEMPTS + 1 - (held.attempts if held is not None else 1)),
        assessment=about,
    )


def _agents(state: RunState) -> JsonObject:
    swarms = {name: f"a swarm: {swarm.description}" for name, swarm in nested_swarms(state).items()}
    return {**swarms, **{key: agent.description for key, agent in state.snapshot.agents.items()}}


def plan_schema(state: RunState) -> JsonObject:
    """Return the JSON Schema of a plan over the members of the run's network."""
    texts: JsonObject = {"type": "string", "maxLength": MAX_PROMPT}
    limit: JsonObject = {"type": "integer", "minimum": 1, "maximum": PLAN_TIMEOUT_MS}
    agent: JsonObject = {
        "type": "object",
        "properties": {
            "agent_key": {"type": "string", "enum": sorted(members_of(state))},
            "prompt": texts,
            "with": {"type": "object"},
            "result_key": {"type": "string", "pattern": RESULT_KEY},
            "timeout_ms": limit,
        },
        "required": ["agent_key", "prompt"],
        "additionalProperties": False,
    }
    block: JsonObject = {
        "type": "object",
        "properties": {
            "steps": {"type": "array", "minItems": 1, "maxItems": BLOCK_AGENTS, "items": agent},
            "max_concurrency": {"type": "integer", "minimum": 1},
            "merge_strategy": {"type": "string", "enum": ["collect", "fail_fast", "first_success"]},
        },
        "required": ["steps"],
        "additionalProperties": False,
    }
    step: JsonObject = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": STEP_ID},
            "type": {"type": "string", "enum": ["agent", "parallel"]},
            "agent": agent,
            "parallel": block,
            "timeout_ms": limit,
        },
        "required": ["id", "type"],
        "additionalProperties": False,
    }
    steps: JsonObject = {"type": "array", "minItems": 1, "maxItems": state.caps.plan_steps, "items": step}
    return {"type": "object", "properties": {"name": {"type": "string"}, "steps": steps}, "required": ["steps"]}


def unshown_fields(plan: Plan) -> Iterator[ProblemDetail]:
    """Name what a planner wrote that it was not shown: criteria are the caller's, and long to be compiled."""
    for number, step in enumerate(plan.steps):
        for place, call in enumerate(step.calls):
            if call.acceptance_criteria:
                within = "agent" if step.type == "agent" else f"parallel.steps[{place}]"
                detail = f"steps[{number}].{within}.acceptance_criteria: there is no such field"
                yield ProblemDetail(pointer=f"/steps/{number}", code=PLAN_INVALID, detail=detail)


def correction_request(faults: list[str], written: JsonObject | None) -> JsonObject:
    """Return the error of a plan that may be written once more: its faults, and the plan where it is small."""
    small = written is not None and size_of(written) <= INLINE_BYTES
    return {**faults_error(PLAN_INVALID, faults), **({"plan": written} if small else {})}


def faults_error(code: str, faults: list[str]) -> JsonObject:
    """Return the error of a plan that can't be carried out, with every fault."""
    messages = [truncate(fault, FAULT_CHARS) for fault in faults]
    return {"code": code, "message": truncate("; ".join(messages), MAX_ANSWER_TEXT), "faults": messages}

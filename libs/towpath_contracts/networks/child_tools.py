"""Tools whose calls are child runs: `agent_orchestrate` and `delegate_to_<name>`.

They are registered, permitted, limited and audited like any other tool; what runs is a child of the caller, within
its rights, depth, time and budget. What they return was written by models, so it is never trusted.
"""

from typing import Any

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.networks.goal import Criterion
from towpath_contracts.networks.plan import MAX_CRITERIA, MAX_NAMES, MAX_PROMPT, PLAN_TIMEOUT_MS, RESULT_KEY, STEP_ID
from towpath_contracts.networks.plan_checks import BLOCK_AGENTS
from towpath_contracts.run_limits import MAX_PARALLEL, MAX_STEPS_CAP, PLAN_STEPS
from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_contracts.tools.internal_tools import INTERNAL_TOOLS, PLATFORM_TOOLSET

ORCHESTRATE = "agent_orchestrate"
DELEGATE = "delegate_to_"
"""What the name of the tool begins with by which a team's lead asks one of its members."""

MAX_TASK = 32_000
"""Characters of what a delegate is asked."""

CALL_TIMEOUT_MS = 3_600_000

_TIMEOUT: JsonObject = {"type": "integer", "minimum": 1, "maximum": PLAN_TIMEOUT_MS}

_CRITERION: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 128},
        "when": {"type": "string", "minLength": 1, "maxLength": 1_024, "description": "a CEL expression"},
        "text": {"type": "string", "minLength": 1, "maxLength": 1_024, "description": "words that a model judges"},
    },
    "additionalProperties": False,
}

_CRITERIA: JsonObject = {
    "type": "array",
    "maxItems": MAX_CRITERIA,
    "items": _CRITERION,
    "description": (
        "the task is then a goal: it is worked on until what happened meets all of these, each either when or text. "
        "Expressions see results, tests, artifacts, workspace.files, last_output and claimed"
    ),
}

_AGENT: JsonObject = {
    "type": "object",
    "properties": {
        "agent_key": {"type": "string", "minLength": 1, "maxLength": 128, "description": "an agent of this network"},
        "prompt": {"type": "string", "maxLength": MAX_PROMPT, "description": "what it is to do"},
        "with": {
            "type": "object",
            "description": "what it is given; texts may hold {{ result.<key>.<field> }} of earlier steps",
        },
        "result_key": {
            "type": "string",
            "maxLength": MAX_NAMES,
            "pattern": RESULT_KEY,
            "description": "where its answer is kept for later steps, as result.<key>",
        },
        "timeout_ms": _TIMEOUT,
    },
    "required": ["agent_key"],
    "additionalProperties": False,
}

_STEP: JsonObject = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "maxLength": MAX_NAMES, "pattern": STEP_ID},
        "type": {"type": "string", "enum": ["agent", "parallel"]},
        "name": {"type": "string", "maxLength": 160},
        "agent": _AGENT,
        "parallel": {
            "type": "object",
            "properties": {
                "steps": {"type": "array", "minItems": 1, "maxItems": BLOCK_AGENTS, "items": _AGENT},
                "max_concurrency": {"type": "integer", "minimum": 1},
                "merge_strategy": {"type": "string", "enum": ["collect", "collect_all", "fail_fast", "first_success"]},
            },
            "required": ["steps"],
            "additionalProperties": False,
        },
        "timeout_ms": _TIMEOUT,
    },
    "required": ["type"],
    "additionalProperties": False,
}

PLAN_PARAMETER: JsonObject = {
    "type": "object",
    "description": "steps in order; a parallel step holds agents that run at the same time",
    "properties": {"steps": {"type": "array", "minItems": 1, "maxItems": PLAN_STEPS, "items": _STEP}},
    "required": ["steps"],
}

ORCHESTRATE_SPEC = ToolSpec(
    name=ORCHESTRATE,
    toolset=PLATFORM_TOOLSET,
    operation="orchestrate",
    description=(
        "Run other agents of this network, in sequence and in parallel. Give either a plan, or a prompt that is made "
        "into one. Returns success, steps (id, type, status success|failed|partial|skipped, exec_id, outputs, error), "
        "bindings and errors."
    ),
    parameters={
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "minLength": 1, "maxLength": MAX_PROMPT, "description": "what is to be done"},
            "plan": PLAN_PARAMETER,
            "bindings": {"type": "object", "description": "values that the plan refers to as {{ bindings.<name> }}"},
            "timeout_ms": _TIMEOUT,
            "max_parallel": {"type": "integer", "minimum": 1, "maximum": MAX_PARALLEL},
        },
        "oneOf": [{"required": ["plan"]}, {"required": ["prompt"]}],
        "additionalProperties": False,
    },
    effect_class=EffectClass.IDEMPOTENT,
    timeout_ms=CALL_TIMEOUT_MS,
    sinks=(),
    internal=True,
)

BUILT_IN_TOOLS: dict[str, ToolSpec] = {**INTERNAL_TOOLS, ORCHESTRATE: ORCHESTRATE_SPEC}
"""Every project has them, without anybody registering them; delegates come with the networks whose teams have them."""


class DelegatedTask(ClientMessagePart):
    """What a team's lead asks a member for; with `acceptance_criteria` the `task` is its goal, and they must be met.

    `max_steps` and `timeout_ms` can only lower what holds anyway.
    """

    task: str = Field(default="", max_length=MAX_TASK)
    acceptance_criteria: tuple[Criterion, ...] = Field(default=(), max_length=MAX_CRITERIA)
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS_CAP)
    timeout_ms: int | None = Field(default=None, ge=1, le=PLAN_TIMEOUT_MS)


def delegate_spec(name: str, description: str = "") -> ToolSpec:
    """Return the tool by which a team's lead asks the member *name*; *description* says what that one is good for."""
    task: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": MAX_TASK, "description": "what it is to do"}
    return ToolSpec(
        name=DELEGATE + name,
        toolset=PLATFORM_TOOLSET,
        operation="delegate",
        description=f"Let {name} do a task and return its answer." + (f" {name}: {description}" if description else ""),
        parameters={
            "type": "object",
            "properties": {
                "task": task,
                "acceptance_criteria": _CRITERIA,
                "max_steps": {"type": "integer", "minimum": 1, "maximum": MAX_STEPS_CAP},
                "timeout_ms": _TIMEOUT,
            },
            "required": ["task"],
            "additionalProperties": False,
        },
        effect_class=EffectClass.IDEMPOTENT,
        timeout_ms=CALL_TIMEOUT_MS,
        sinks=(),
        internal=True,
    )


def platform_tool(tool: str) -> ToolSpec | None:
    """Return the platform's own tool of that name; None where there is none."""
    if tool.startswith(DELEGATE) and len(tool) > len(DELEGATE):
        return delegate_spec(tool.removeprefix(DELEGATE))
    return BUILT_IN_TOOLS.get(tool)


def starts_child(tool: str) -> bool:
    """Return whether a call of *tool*, one of the platform's own, is a child run."""
    return tool == ORCHESTRATE or tool.startswith(DELEGATE)

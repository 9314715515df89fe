"""Plans: agents that run in sequence and in parallel blocks, as child runs.

A caller can only lower the limits. What a plan may do is what whoever started it may do.
"""

from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from towpath_contracts.base import ClientMessagePart, JsonObject, MessagePart, is_unset
from towpath_contracts.networks.goal import Criterion
from towpath_contracts.run_limits import MAX_PARALLEL

PLAN_TIMEOUT_MS = 24 * 3_600_000
MAX_PROMPT = 16_384
MAX_NAMES = 64
"""Characters of a step's id and of a result key."""

MAX_CRITERIA = 16
"""Acceptance criteria of one agent."""

STEP_ID = r"^[a-zA-Z0-9_.:-]+$"
RESULT_KEY = r"^[a-zA-Z0-9_.-]+$"

Merge = Literal["collect", "fail_fast", "first_success"]
"""What a parallel step makes of its children: wait for all; stop the others at the first failure, or success."""

StepStatus = Literal["success", "failed", "partial", "skipped"]


class PlanAgentCall(ClientMessagePart):
    """One agent of a plan: what it is asked, with `with` rendered over earlier results, and where its answer goes.

    With `acceptance_criteria` what it is asked is its goal, which what happens has to meet. The answer is bound to
    `result.<result_key>`, and so is reachable for later steps as `{{ result.key.field }}`.
    """

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    agent_key: str = Field(min_length=1, max_length=128)
    prompt: str = Field(default="", max_length=MAX_PROMPT)
    with_: JsonObject = Field(default_factory=dict, alias="with")
    result_key: str = Field(default="", max_length=MAX_NAMES)
    timeout_ms: int | None = Field(default=None, ge=1, le=PLAN_TIMEOUT_MS, exclude_if=is_unset)
    acceptance_criteria: tuple[Criterion, ...] = Field(
        default=(), max_length=MAX_CRITERIA, exclude_if=lambda given: not given
    )


class ParallelAgentCalls(ClientMessagePart):
    """Agents that run at the same time, at most `max_concurrency` of them."""

    steps: tuple[PlanAgentCall, ...]
    max_concurrency: int | None = Field(default=None, ge=1, exclude_if=is_unset)
    merge_strategy: Merge = "collect"


class PlanStep(ClientMessagePart):
    """A step: exactly one of `agent` and `parallel`, as `type` says."""

    id: str
    type: Literal["agent", "parallel"]
    name: str = Field(default="", max_length=160)
    agent: PlanAgentCall | None = Field(default=None, exclude_if=is_unset)
    parallel: ParallelAgentCalls | None = Field(default=None, exclude_if=is_unset)
    timeout_ms: int | None = Field(default=None, ge=1, le=PLAN_TIMEOUT_MS, exclude_if=is_unset)

    @property
    def calls(self) -> tuple[PlanAgentCall, ...]:
        """The agents of the step, in order."""
        if self.parallel is not None:
            return self.parallel.steps
        return () if self.agent is None else (self.agent,)


class Plan(MessagePart):
    """Steps in order. `chain` is set for a workflow: the output of a step is the input of the next."""

    id: str = "plan"
    name: str = ""
    description: str = ""
    bindings: JsonObject = Field(default_factory=dict)
    steps: tuple[PlanStep, ...]
    chain: bool = Field(default=False, exclude_if=lambda chained: not chained)


class PlanTask(ClientMessagePart):
    """What a caller, or a model by `agent_orchestrate`, asks for: a `plan`, or a `prompt` that a model plans.

    `bindings` go before those of the plan. `timeout_ms` and `max_parallel` can only lower what holds anyway. `plan` is
    checked as a whole by `plan_faults`, so that every mistake is reported at once with its path.
    """

    plan: JsonObject | None = None
    prompt: str | None = Field(default=None, min_length=1, max_length=MAX_PROMPT)
    bindings: JsonObject = Field(default_factory=dict)
    timeout_ms: int | None = Field(default=None, ge=1, le=PLAN_TIMEOUT_MS)
    max_parallel: int | None = Field(default=None, ge=1, le=MAX_PARALLEL)

    @model_validator(mode="after")
    def _one_form(self) -> "PlanTask":
        if (self.plan is None) == (self.prompt is None):
            msg = "give either plan or prompt"
            raise ValueError(msg)
        return self


class PlanStepResult(MessagePart):
    """What became of a step, or of one agent of a parallel step (`id` is then `<step>[<place>]`)."""

    id: str
    type: Literal["agent", "parallel"]
    status: StepStatus
    agent_key: str = Field(default="", exclude_if=lambda key: not key)
    exec_id: str = Field(default="", exclude_if=lambda run: not run)
    outputs: Any = None
    error: JsonObject | None = None
    children: tuple["PlanStepResult", ...] = Field(default=(), exclude_if=lambda children: not children)


class PlanRunResult(MessagePart):
    """The output of a plan run: `success` only where every step succeeded; steps in the order of the plan."""

    success: bool
    steps: tuple[PlanStepResult, ...]
    bindings: JsonObject = Field(default_factory=dict)
    errors: tuple[JsonObject, ...] = ()


def with_own_names(plan: JsonObject) -> JsonObject:
    """Return *plan* with `agent_id` as `agent_key`, and with `action_id` as the first line of the prompt.

    These are names of another design (docs/reference/sources.md). They are taken from callers alone: what models write
    is held against the schema that they are shown. What else is wrong stays, for `check_plan` to find.
    """
    steps = plan.get("steps")
    return plan if not isinstance(steps, list) else {**plan, "steps": [_step_with_own_names(step) for step in steps]}


def _step_with_own_names(step: Any) -> Any:
    if not isinstance(step, dict):
        return step
    named = dict(step)
    if "agent" in named:
        named["agent"] = _call_with_own_names(named["agent"])
    block = named.get("parallel")
    if isinstance(block, dict) and isinstance(block.get("steps"), list):
        named["parallel"] = {**block, "steps": [_call_with_own_names(call) for call in block["steps"]]}
    return named


def _call_with_own_names(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    named = dict(call)
    if "agent_id" in named and "agent_key" not in named:
        named["agent_key"] = named.pop("agent_id")
    action, prompt = named.get("action_id"), named.get("prompt", "")
    if isinstance(action, str) and action and isinstance(prompt, str):
        del named["action_id"]
        named["prompt"] = f"Action: {action}\n{prompt}".rstrip()
    return named

"""Events of runs that are composed of child runs: plans and workflows.

Every transition of the composition's state machine is an event.
"""

from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, MessagePart
from towpath_contracts.networks.plan import Plan, PlanStepResult

PlanState = Literal[
    "plan_init",
    "planner_active",
    "plan_validated",
    "dispatching_step",
    "awaiting_results",
    "merging_results",
    "completed",
    "failed",
]
PlanTrigger = Literal[
    "start_plan",
    "planner_finished",
    "validation_failed",
    "dispatch_step",
    "step_dispatched",
    "step_succeeded",
    "step_failed",
    "parallel_complete",
    "next_step",
    "all_done",
    "timeout",
    "cancelled",
    "panic",
]


class PlanStateChanged(MessagePart):
    """The state machine of a plan or workflow took a transition; `step_id` is the step it is about.

    The composition went from one state to another; `step_id` is the step it is about, `error` why it failed.
    """

    type: Literal["plan_moved"] = "plan_moved"
    source: PlanState
    trigger: PlanTrigger
    target: PlanState
    step_id: str = ""
    error: JsonObject | None = None


class PlanAccepted(MessagePart):
    """The plan that is carried out: given by the caller, written by a model, or the flow of a workflow."""

    type: Literal["plan_accepted"] = "plan_accepted"
    plan: Plan
    origin: Literal["given", "planned", "flow"]


class PlanStepStarted(MessagePart):
    """A step of the plan begins; its children are started by events of their own. `index` counts from 0."""

    type: Literal["plan_step_started"] = "plan_step_started"
    index: int
    step_id: str
    inputs: tuple[str, ...] = ()


class PlanStepEnded(MessagePart):
    """A step has ended, or is skipped; `bindings` are what it adds to the results."""

    type: Literal["plan_step_ended"] = "plan_step_ended"
    index: int
    report: PlanStepResult
    bindings: JsonObject = Field(default_factory=dict)


class ChildStopRequested(MessagePart):
    """The parent no longer wants a child run, which is asked to stop until it has ended."""

    type: Literal["child_stopped"] = "child_stopped"
    child_id: UUID
    reason: str


class SwarmHandoffRequested(MessagePart):
    """An agent of a handoff swarm answered with the name of another: the `count`-th time in this run.

    `said` is its whole answer; the transfer itself follows as an event of its own.
    """

    type: Literal["handed_off"] = "handed_off"
    step: int
    source: str
    target: str
    count: int
    said: str = ""

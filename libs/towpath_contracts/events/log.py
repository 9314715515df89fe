"""Events: the immutable entries of a run's log, `(run_id, seq)`.

An event says what became true for the run; folding the events of a run gives its state. The envelope's `at` is
Postgres's clock at the transition. Events are added to, never renamed.
"""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter

from towpath_contracts.base import DEFERRED, JsonObject, Message, MessagePart, is_unset
from towpath_contracts.budgets import Amounts, Budget, ChildRunBudget
from towpath_contracts.decisions.attachments import StoredAttachment
from towpath_contracts.decisions.earlier_turns import ContinuedRun, EarlierTurn
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events.background_events import (
    BackgroundRunEnded,
    DeliverableRefused,
    FinalSummaryRecorded,
    InternalOutcomeRecorded,
    IterationCompleted,
    IterationStarted,
    Reflected,
    RunEndDecided,
    WorkspaceChanged,
    WorkspacePlanChanged,
)
from towpath_contracts.events.budget_events import BudgetAccountsApplied, BudgetRefused, BudgetWarned, UsageCorrected
from towpath_contracts.events.call_events import ToolCallDenied, ToolCallEdited, ToolCallFinished, ToolCallPostponed
from towpath_contracts.events.child_events import ChildEnded, ChildGateWaitChanged, ChildStarted
from towpath_contracts.events.decision_events import (
    DecisionPostponed,
    DecisionReceived,
    DecisionRefused,
    DecisionRequested,
    DecisionRequestFailed,
    InstructionIssued,
)
from towpath_contracts.events.finding_events import LoopDetected, WatchdogReported
from towpath_contracts.events.goal_events import (
    BackedOff,
    DenialEscalated,
    GoalConfidenceMeasured,
    ProgressMeasured,
    ProgressSource,
    Rung,
    StepResultValidated,
)
from towpath_contracts.events.operator_events import ConfidenceRequested, NoteGiven
from towpath_contracts.events.plan_events import (
    ChildStopRequested,
    PlanAccepted,
    PlanStateChanged,
    PlanStepEnded,
    PlanStepStarted,
    SwarmHandoffRequested,
)
from towpath_contracts.networks.background import BackgroundRunSettings, BackgroundRunTask
from towpath_contracts.networks.goal import GoalSettings, GoalTask
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.networks.plan import PlanTask
from towpath_contracts.networks.swarm import SelectedSwarm
from towpath_contracts.runs.children import ParentRun, RunTreeCaps
from towpath_contracts.runs.records import ForkedFrom
from towpath_contracts.tools.workspace import FileEntry

__all__ = [
    "BackedOff",
    "BackgroundRunEnded",
    "BudgetAccountsApplied",
    "BudgetRefused",
    "BudgetWarned",
    "ChildEnded",
    "ChildGateWaitChanged",
    "ChildStarted",
    "ChildStopRequested",
    "ConfidenceRequested",
    "DecisionPostponed",
    "DecisionReceived",
    "DecisionRefused",
    "DecisionRequestFailed",
    "DecisionRequested",
    "DeliverableRefused",
    "DenialEscalated",
    "FinalSummaryRecorded",
    "GoalConfidenceMeasured",
    "InstructionIssued",
    "InternalOutcomeRecorded",
    "IterationCompleted",
    "IterationStarted",
    "LoopDetected",
    "NoteGiven",
    "PlanAccepted",
    "PlanStateChanged",
    "PlanStepEnded",
    "PlanStepStarted",
    "ProgressMeasured",
    "ProgressSource",
    "Reflected",
    "RunEndDecided",
    "Rung",
    "StepResultValidated",
    "SwarmHandoffRequested",
    "ToolCallDenied",
    "ToolCallEdited",
    "ToolCallFinished",
    "ToolCallPostponed",
    "UsageCorrected",
    "WatchdogReported",
    "WorkspaceChanged",
    "WorkspacePlanChanged",
]  # kept apart, but part of the same union


class RunCreated(MessagePart):
    """The task was accepted; `task` is what the caller asked for, with defaults filled in.

    `grant` is the task's own; `grants` are of the tasks above it, outermost first: rights only narrow.
    `planner_model` writes plans, in place of the agent's model. `messages` are earlier turns of the conversation.
    `budget_root` is the run with which a fork shares accounts and counts of calls; `caps` are recorded where they are
    lower than the server's.
    `detectors` is what a child takes over of its parent's loop counters, `spent` what runs above it had cost when it
    was born. `traceparent` names the span of whoever submitted the run at the top of the tree. With `epoch_turns`
    agents are asked by conversations that are only added to.
    """

    type: Literal["run_created"] = "run_created"
    kind: str = "network"
    project: str
    caller: str
    network: str
    version: int
    snapshot_digest: str
    agent_key: str
    user_message: str
    system_params: JsonObject = Field(default_factory=dict)
    model: str | None = None
    script_digest: str | None = None
    max_steps: int
    max_tool_errors: int
    timeout_ms: int
    step_timeout_ms: int
    context_limit: int
    grant: tuple[JsonObject, ...] | None = None
    grants: tuple[tuple[JsonObject, ...], ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    debug: bool = False
    single_instruction: bool = False
    priority: int = 5
    forked_from: ForkedFrom | None = None
    response_schema: JsonObject | None = Field(default=None, exclude_if=is_unset)
    goal: GoalTask | None = Field(default=None, exclude_if=is_unset)
    background: BackgroundRunTask | None = Field(default=None, exclude_if=is_unset)
    plan: PlanTask | None = Field(default=None, exclude_if=is_unset)
    swarm: SelectedSwarm | None = Field(default=None, exclude_if=is_unset)
    planner_model: str | None = Field(default=None, exclude_if=is_unset)
    detectors: JsonObject | None = Field(default=None, exclude_if=is_unset)
    workspace: tuple[FileEntry, ...] = Field(default=(), exclude_if=lambda files: not files)
    quoted_inputs: dict[str, str] = Field(default_factory=dict, exclude_if=lambda texts: not texts)
    budget: Budget | None = Field(default=None, exclude_if=is_unset)
    carve_outs: tuple[ChildRunBudget, ...] = Field(default=(), exclude_if=lambda held: not held)
    parent: ParentRun | None = Field(default=None, exclude_if=is_unset)
    spent: Cost | None = Field(default=None, exclude_if=is_unset)
    cursors: dict[str, int] = Field(default_factory=dict, exclude_if=lambda cursors: not cursors)
    model_settings: ModelSettings | None = Field(default=None, exclude_if=is_unset)
    traceparent: str | None = Field(default=None, exclude_if=is_unset)
    budget_root: UUID | None = Field(default=None, exclude_if=is_unset)
    caps: RunTreeCaps | None = Field(default=None, exclude_if=is_unset)
    messages: tuple[EarlierTurn, ...] = Field(default=(), exclude_if=lambda turns: not turns)
    continues: ContinuedRun | None = Field(default=None, exclude_if=is_unset)
    epoch_turns: bool = Field(default=False, exclude_if=lambda kept: not kept)
    attachments: tuple[StoredAttachment, ...] = Field(default=(), exclude_if=lambda attached: not attached)

    @property
    def goal_settings(self) -> GoalSettings:
        """How the goal is pursued; the defaults for a run without one."""
        return (self.goal.settings if self.goal is not None else None) or GoalSettings()

    @property
    def background_settings(self) -> BackgroundRunSettings:
        """How the objective is pursued; the defaults for a run without one."""
        return (self.background.settings if self.background is not None else None) or BackgroundRunSettings()


class RunForked(MessagePart):
    """The run takes over what `parent` knew before the step: `inherited` is that part of the engine's state.

    `parent_seq` is the last event of the parent that is shared. Nothing that the parent asked of the outside is.
    """

    type: Literal["run_forked"] = "run_forked"
    parent: ForkedFrom
    parent_seq: int
    by: str
    inherited: JsonObject


class RunStarted(MessagePart):
    """The run was admitted; its active time begins."""

    type: Literal["run_started"] = "run_started"


class AgentTransferred(MessagePart):
    """Another agent acts from now on."""

    type: Literal["agent_transferred"] = "agent_transferred"
    step: int
    source: str
    target: str
    epoch: int
    context: Any = None
    forced: bool = False


class GateOpened(MessagePart):
    """The run waits for a person; `detail` is what that person must know."""

    type: Literal["gate_opened"] = "gate_opened"
    gate_id: UUID
    gate_type: str
    execution_id: UUID | None = None
    approval_id: UUID | None = None
    reason: str
    detail: JsonObject = Field(default_factory=dict)
    expires_at: datetime


class GateClosed(MessagePart):
    """A gate closed, with this verdict: the run no longer waits for a person there."""

    type: Literal["gate_closed"] = "gate_closed"
    gate_id: UUID
    verdict: str
    reason: str = ""
    by: str = ""


class NoteAdded(MessagePart):
    """The platform tells the model something (forced respond, a nudge)."""

    type: Literal["note_added"] = "note_added"
    step: int
    text: str


class EffectResent(MessagePart):
    """A pending effect was sent again (left out when logs are compared); `dead` says why its last message could not be.

    Without `dead` it was the reconciler's turn.
    """

    type: Literal["effect_resent"] = "effect_resent"
    effect_id: UUID
    attempt: int
    resend_at: datetime
    dead: str = ""
    reserved: Amounts | None = Field(default=None, exclude_if=is_unset)


class CancelAccepted(MessagePart):
    """The run is `cancelling`; the fence is up. With `in_answer` the reason will stand in the run's answer."""

    type: Literal["cancel_accepted"] = "cancel_accepted"
    by: str
    reason: str = ""
    in_answer: bool = Field(default=False, exclude_if=lambda told: not told)
    fence: int


class FenceStored(MessagePart):
    """TAS holds the fence: nothing older starts any more."""

    type: Literal["fence_stored"] = "fence_stored"
    fence: int
    voided: tuple[UUID, ...] = ()
    live: tuple[UUID, ...] = ()


class RunQuarantined(MessagePart):
    """The run is parked: its log and the outside disagree."""

    type: Literal["run_quarantined"] = "run_quarantined"
    code: str
    message: str


class RunFinished(MessagePart):
    """The run has its final status. `final` is the answer or the error; `last_output` is always kept.

    `effects` says of the last step's calls what was known at this moment, in the words of the run's list of effects;
    `denied` is its `did_not_happen`. The list tells of every step, and of what a fence has voided after the end.
    """

    type: Literal["run_finished"] = "run_finished"
    status: Literal["completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"]
    reason: str
    final: JsonObject
    last_output: Any = None
    steps: int
    fence: int
    usage: Usage = Usage()
    cost: Cost = Cost()
    effects: tuple[JsonObject, ...] = ()


AnyEvent = (
    RunCreated
    | RunForked
    | RunStarted
    | DecisionRequested
    | DecisionReceived
    | DecisionRequestFailed
    | DecisionPostponed
    | DecisionRefused
    | InstructionIssued
    | ToolCallEdited
    | ToolCallFinished
    | ToolCallDenied
    | ToolCallPostponed
    | AgentTransferred
    | GateOpened
    | GateClosed
    | LoopDetected
    | WatchdogReported
    | NoteAdded
    | NoteGiven
    | ConfidenceRequested
    | BackedOff
    | StepResultValidated
    | DenialEscalated
    | ProgressMeasured
    | GoalConfidenceMeasured
    | Reflected
    | FinalSummaryRecorded
    | BudgetAccountsApplied
    | BudgetRefused
    | BudgetWarned
    | UsageCorrected
    | ChildStarted
    | ChildGateWaitChanged
    | ChildEnded
    | ChildStopRequested
    | SwarmHandoffRequested
    | PlanAccepted
    | PlanStateChanged
    | PlanStepStarted
    | PlanStepEnded
    | WorkspacePlanChanged
    | WorkspaceChanged
    | InternalOutcomeRecorded
    | IterationStarted
    | IterationCompleted
    | RunEndDecided
    | DeliverableRefused
    | BackgroundRunEnded
    | EffectResent
    | CancelAccepted
    | FenceStored
    | RunQuarantined
    | RunFinished
)

Event = Annotated[AnyEvent, Field(discriminator="type")]

event_adapter: TypeAdapter[AnyEvent] = TypeAdapter(Event, config=DEFERRED)


class LogEntry(MessagePart):
    """One event at its place in the log."""

    seq: int
    at: datetime
    event: Event


class TransitionEvents(Message):
    """Orchestrator to readers on `run.event.<run_id>`, and to a caller: the events of one transition, in order."""

    run_id: UUID
    project: str
    entries: tuple[LogEntry, ...]


COMPARISON_IGNORES = frozenset({"effect_resent", "outcome_recorded", "child_waits"})
"""Left out when the logs of disturbed and undisturbed runs are compared: they come between by chance."""

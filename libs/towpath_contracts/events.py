"""Events: the immutable entries of a run's log, `(run_id, seq)`.

Law: an event says what became true for the run; folding the events of a run gives its state. The envelope's `at` is
Postgres's clock at the transition. Events are added to, never renamed (design §2, §5).
"""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter

from towpath_contracts.background import BackgroundSettings, BackgroundTask
from towpath_contracts.background_events import (
    DeliverableRefused,
    IterationCompleted,
    IterationStarted,
    OutcomeRecorded,
    PlanChanged,
    RunConcluding,
    Terminated,
    WorkspaceChanged,
)
from towpath_contracts.base import JsonObject, Message, Value, unset
from towpath_contracts.budget_events import BudgetApplied, BudgetRefused, BudgetWarned, UsageCorrected
from towpath_contracts.budgets import Amounts, AttemptAnswered, Budget
from towpath_contracts.children import ChildTask, ParentOf
from towpath_contracts.deciding import Cost, ScriptUse, Usage
from towpath_contracts.decisions import Instruction
from towpath_contracts.goals import GoalSettings, GoalTask
from towpath_contracts.tools import Denial, ProbeWord, ToolFailure
from towpath_contracts.watching import FindingName
from towpath_contracts.workspace import FileEntry

__all__ = [
    "BudgetApplied",
    "BudgetRefused",
    "BudgetWarned",
    "DeliverableRefused",
    "IterationCompleted",
    "IterationStarted",
    "OutcomeRecorded",
    "PlanChanged",
    "RunConcluding",
    "Terminated",
    "UsageCorrected",
    "WorkspaceChanged",
]  # told apart, part of the same union


DECIDE = "decide"
"""The kind of request that opens a step; it is left out of what is written, so that older logs stay as they are."""


class ForkedFrom(Value):
    """The run that another one is forked from, and the first step that the fork decides anew."""

    run_id: UUID
    step: int


class RunCreated(Value):
    """The task was accepted; `task` is what the caller asked for, with defaults filled in.

    `grant` is the task's own; `grants` are of the tasks above it, outermost first: rights only narrow (design §7).
    `detectors` is what a child takes over of its parent's loop counters.
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
    response_schema: JsonObject | None = Field(default=None, exclude_if=unset)
    goal: GoalTask | None = Field(default=None, exclude_if=unset)
    background: BackgroundTask | None = Field(default=None, exclude_if=unset)
    detectors: JsonObject | None = Field(default=None, exclude_if=unset)
    workspace: tuple[FileEntry, ...] = Field(default=(), exclude_if=lambda files: not files)
    budget: Budget | None = Field(default=None, exclude_if=unset)
    parent: ParentOf | None = Field(default=None, exclude_if=unset)
    cursors: dict[str, int] = Field(default_factory=dict, exclude_if=lambda cursors: not cursors)

    @property
    def goal_settings(self) -> GoalSettings:
        """How the goal is pursued; the defaults for a run without one."""
        return (self.goal.settings if self.goal is not None else None) or GoalSettings()

    @property
    def background_settings(self) -> BackgroundSettings:
        """How the objective is pursued; the defaults for a run without one."""
        return (self.background.settings if self.background is not None else None) or BackgroundSettings()


class RunForked(Value):
    """The run takes over what `parent` knew before the step: `inherited` is that part of the engine's state.

    `parent_seq` is the last event of the parent that is shared. Nothing that the parent asked of the outside is.
    """

    type: Literal["run_forked"] = "run_forked"
    parent: ForkedFrom
    parent_seq: int
    by: str
    inherited: JsonObject


class RunStarted(Value):
    """The run was admitted; its active time begins."""

    type: Literal["run_started"] = "run_started"


class DecisionRequested(Value):
    """A step begins: the decider is asked. `input_preview` is what the execution log shows."""

    type: Literal["decision_requested"] = "decision_requested"
    request_id: UUID
    step: int
    epoch: int
    agent_key: str
    model: str
    kind: str = "decide"
    input_preview: str = ""
    reserved: Amounts | None = Field(default=None, exclude_if=unset)


class BackedOff(Value):
    """The next request waits until `until`: attempt number `attempt` of the step must not come at once (feature C4)."""

    type: Literal["backed_off"] = "backed_off"
    step: int
    attempt: int
    until: datetime
    reason: str = ""


class DecisionReceived(Value):
    """A model answered a request of `kind`. Usage and cost are of all its attempts."""

    type: Literal["decision_received"] = "decision_received"
    request_id: UUID
    step: int
    epoch: int
    agent_key: str
    kind: str = Field(default=DECIDE, exclude_if=lambda kind: kind == DECIDE)
    decision: JsonObject
    model: str = ""
    usage: Usage = Usage()
    cost: Cost = Cost()
    duration_ms: int = 0
    prompt_digest: str = ""
    raw_digest: str = ""
    script: ScriptUse | None = None
    answered: AttemptAnswered | None = Field(default=None, exclude_if=unset)


class DecisionMissed(Value):
    """No answer to a request of `kind` could be had from the model."""

    type: Literal["decision_missed"] = "decision_missed"
    request_id: UUID
    step: int
    epoch: int
    agent_key: str
    kind: str = Field(default=DECIDE, exclude_if=lambda kind: kind == DECIDE)
    code: str
    message: str
    model: str = ""
    usage: Usage = Usage()
    cost: Cost = Cost()
    duration_ms: int = 0
    prompt_digest: str = ""
    raw_digest: str = ""
    script: ScriptUse | None = None
    answered: AttemptAnswered | None = Field(default=None, exclude_if=unset)


class DecisionRefused(Value):
    """Validation refused a decision; `feedback` goes back to the model (status `retry` of feature A7)."""

    type: Literal["decision_refused"] = "decision_refused"
    step: int
    epoch: int
    agent_key: str
    code: str
    feedback: str


class InstructionIssued(Value):
    """A decision passed validation: this is what the platform does."""

    type: Literal["instruction_issued"] = "instruction_issued"
    step: int
    epoch: int
    agent_key: str
    instruction: Instruction


class ToolCallFinished(Value):
    """A call has an outcome. `probe` is what the tool's probe found out, `settled_by` the person whose word it is."""

    type: Literal["tool_call_finished"] = "tool_call_finished"
    execution_id: UUID
    step: int
    epoch: int
    agent_key: str
    call_index: int
    tool: str
    status: Literal["succeeded", "failed", "unknown", "void"]
    result: Any = None
    result_digest: str | None = None
    result_bytes: int = 0
    blob: bool = False
    failure: ToolFailure | None = None
    duration_ms: int = 0
    worker: str = ""
    policy_version: int = 0
    probe: ProbeWord = ""
    settled_by: str = ""


class ToolCallEdited(Value):
    """A person changed the arguments of a call before it ran: *args* were executed, and not those asked for."""

    type: Literal["tool_call_edited"] = "tool_call_edited"
    execution_id: UUID
    step: int
    agent_key: str
    call_index: int
    tool: str
    args: JsonObject
    by: str


class ToolCallDenied(Value):
    """The tool-access service refused a call; the refusal is fed back."""

    type: Literal["tool_call_denied"] = "tool_call_denied"
    execution_id: UUID
    step: int
    epoch: int
    agent_key: str
    call_index: int
    tool: str
    denial: Denial
    policy_version: int = 0


class AgentTransferred(Value):
    """Another agent acts from now on."""

    type: Literal["agent_transferred"] = "agent_transferred"
    step: int
    source: str
    target: str
    epoch: int
    context: Any = None
    forced: bool = False


class GateOpened(Value):
    """The run waits for a person; `detail` is what that person must know."""

    type: Literal["gate_opened"] = "gate_opened"
    gate_id: UUID
    gate_type: str
    execution_id: UUID | None = None
    approval_id: UUID | None = None
    reason: str
    detail: JsonObject = Field(default_factory=dict)
    expires_at: datetime


class GateClosed(Value):
    """The wait is over."""

    type: Literal["gate_closed"] = "gate_closed"
    gate_id: UUID
    verdict: str
    reason: str = ""
    by: str = ""


class LoopDetected(Value):
    """A detector fired: `detector` is calls, errors, cycle, results or handoffs.

    `count` is what it counted (of a cycle its length), `action` the rung of the ladder that was taken: nudge, replan,
    gate or stop.
    """

    type: Literal["loop_detected"] = "loop_detected"
    detector: str
    signature: str
    count: int
    action: str


class WatchdogReported(Value):
    """The watchdog's report was taken (feature C6): what it found, over how many steps, how clearly (0 to 1).

    `action` is what it leads to: `nudge` or `gate` at the next step, `resend` of what is overdue, or `note` alone.
    """

    type: Literal["watchdog_reported"] = "watchdog_reported"
    finding: FindingName
    key: str
    step: int
    steps: int = 0
    score: float = 0.0
    detail: str = ""
    tools: tuple[str, ...] = ()
    action: str


class NoteAdded(Value):
    """The platform tells the model something (forced respond, a nudge)."""

    type: Literal["note_added"] = "note_added"
    step: int
    text: str


class StepValidated(Value):
    """What came of a step of a goal run, after all its attempts (feature C1, C2).

    `source` says who judged: `outcome` (the call failed), `model`, or `none`. `criteria` are the numbers of those that
    are met now; `error_signature` is empty for a step that succeeded.
    """

    type: Literal["step_validated"] = "step_validated"
    step: int
    attempt: int
    source: str
    success: bool
    reason: str = ""
    criteria: tuple[int, ...] = ()
    error_signature: str = ""
    uncertain: bool = False


Rung = Literal["alternative", "specialist", "person"]
ProgressSource = Literal["tests", "artifacts", "model", "none"]


class HelpSought(Value):
    """A denied action of a goal run leads up a rung of the ladder: alternative, specialist, person (feature C9).

    `target` is the agent that is asked, or the tools that are named instead.
    """

    type: Literal["help_sought"] = "help_sought"
    step: int
    tool: str
    rung: Rung
    target: str = ""
    reason: str = ""


class ProgressMeasured(Value):
    """How far the goal is, 0 to 1, by `source` tests, artifacts or model, with that source's metrics (feature C7).

    `artifacts` are those that are known by now.
    """

    type: Literal["progress_measured"] = "progress_measured"
    step: int
    source: ProgressSource
    score: float
    metrics: JsonObject = Field(default_factory=dict)
    reason: str = ""
    artifacts: tuple[JsonObject, ...] = ()


class ConfidenceMeasured(Value):
    """How sure the model is, 0 to 1; what can't be read is 0 (feature C8).

    `trigger` is interval, uncertain, requested or failures.
    """

    type: Literal["confidence_measured"] = "confidence_measured"
    step: int
    score: float
    trigger: str
    reason: str = ""


class Reflected(Value):
    """What a reflection said, and whether the platform followed it (feature D7)."""

    type: Literal["reflected"] = "reflected"
    step: int
    verdict: str
    note: str = ""
    rationale: str = ""
    followed: bool = True
    refusal: str = ""


class Summarized(Value):
    """The last words of a run: its summary, and its deliverable where one was asked for (features D2, D3)."""

    type: Literal["summarized"] = "summarized"
    summary: str
    rationale: str = ""
    deliverable: JsonObject | None = None
    source: Literal["model", "platform"] = "model"


class ChildStarted(Value):
    """A child run was born in this very transition; `index` is its place among the children of the step."""

    type: Literal["child_started"] = "child_started"
    child_id: UUID
    step: int
    index: int
    task: ChildTask


class ChildWaits(Value):
    """A child waits for people, or no longer: while all that a run waits for do, its time stands still (design §5)."""

    type: Literal["child_waits"] = "child_waits"
    child_id: UUID
    waits: bool
    child_seq: int = 0


class ChildEnded(Value):
    """A child has its final status."""

    type: Literal["child_ended"] = "child_ended"
    child_id: UUID
    step: int
    index: int
    status: str
    reason: str = ""
    final: JsonObject | None = None
    last_output: Any = None
    usage: Usage = Usage()
    cost: Cost = Cost()
    child_seq: int = 0
    cursors: dict[str, int] = Field(default_factory=dict)


class EffectResent(Value):
    """A pending effect was sent again (left out when logs are compared); `dead` says why its last message could not be.

    Without `dead` it was the reconciler's turn.
    """

    type: Literal["effect_resent"] = "effect_resent"
    effect_id: UUID
    attempt: int
    resend_at: datetime
    dead: str = ""
    reserved: Amounts | None = Field(default=None, exclude_if=unset)


class CancelAccepted(Value):
    """The run is `cancelling`; the fence is up."""

    type: Literal["cancel_accepted"] = "cancel_accepted"
    by: str
    reason: str = ""
    fence: int


class FenceStored(Value):
    """TAS holds the fence: nothing older starts any more."""

    type: Literal["fence_stored"] = "fence_stored"
    fence: int
    voided: tuple[UUID, ...] = ()
    live: tuple[UUID, ...] = ()


class RunQuarantined(Value):
    """The run is parked: its log and the outside disagree."""

    type: Literal["run_quarantined"] = "run_quarantined"
    code: str
    message: str


class RunFinished(Value):
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


Event = Annotated[
    RunCreated
    | RunForked
    | RunStarted
    | DecisionRequested
    | DecisionReceived
    | DecisionMissed
    | DecisionRefused
    | InstructionIssued
    | ToolCallEdited
    | ToolCallFinished
    | ToolCallDenied
    | AgentTransferred
    | GateOpened
    | GateClosed
    | LoopDetected
    | WatchdogReported
    | NoteAdded
    | BackedOff
    | StepValidated
    | HelpSought
    | ProgressMeasured
    | ConfidenceMeasured
    | Reflected
    | Summarized
    | BudgetApplied
    | BudgetRefused
    | BudgetWarned
    | UsageCorrected
    | ChildStarted
    | ChildWaits
    | ChildEnded
    | PlanChanged
    | WorkspaceChanged
    | OutcomeRecorded
    | IterationStarted
    | IterationCompleted
    | RunConcluding
    | DeliverableRefused
    | Terminated
    | EffectResent
    | CancelAccepted
    | FenceStored
    | RunQuarantined
    | RunFinished,
    Field(discriminator="type"),
]

AnyEvent = (
    RunCreated
    | RunForked
    | RunStarted
    | DecisionRequested
    | DecisionReceived
    | DecisionMissed
    | DecisionRefused
    | InstructionIssued
    | ToolCallEdited
    | ToolCallFinished
    | ToolCallDenied
    | AgentTransferred
    | GateOpened
    | GateClosed
    | LoopDetected
    | WatchdogReported
    | NoteAdded
    | BackedOff
    | StepValidated
    | HelpSought
    | ProgressMeasured
    | ConfidenceMeasured
    | Reflected
    | Summarized
    | BudgetApplied
    | BudgetRefused
    | BudgetWarned
    | UsageCorrected
    | ChildStarted
    | ChildWaits
    | ChildEnded
    | PlanChanged
    | WorkspaceChanged
    | OutcomeRecorded
    | IterationStarted
    | IterationCompleted
    | RunConcluding
    | DeliverableRefused
    | Terminated
    | EffectResent
    | CancelAccepted
    | FenceStored
    | RunQuarantined
    | RunFinished
)

event_adapter: TypeAdapter[AnyEvent] = TypeAdapter(Event)


class LogEntry(Value):
    """One event at its place in the log."""

    seq: int
    at: datetime
    event: Event


class RunEvents(Message):
    """Orchestrator to readers on `run.event.<run_id>`: the events of one transition, in order."""

    run_id: UUID
    project: str
    entries: tuple[LogEntry, ...]


COMPARISON_IGNORES = frozenset({"effect_resent"})
"""Event types left out when the log of a disturbed run is compared with that of an undisturbed one (design §10)."""

FINAL_STATUSES = frozenset({"completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"})
LIVE_STATUSES = frozenset({"queued", "running", "waiting", "cancelling", "quarantined"})

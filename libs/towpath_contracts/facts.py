"""Facts: messages that tell a run that something happened outside.

A fact says what happened, never what to do. Each source may send only its own types (`SOURCE_FACTS`); a fact for
something that is no longer pending is ignored by the run machine.
"""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter

from towpath_contracts.base import DEFERRED, JsonObject, MessagePart, is_unset
from towpath_contracts.budgets import BudgetRefusal, ModelPrice, OnSoft, RunBudgetAccount, Scope, Unit
from towpath_contracts.decisions.request import LONGEST_MS, Cost, PlayedScriptEntry, Usage
from towpath_contracts.runs.fact_base import FactBase
from towpath_contracts.runs.held_calls import CallPausedFact, CallPostponedFact, QuotaChangedFact
from towpath_contracts.runs.idle_runs import DETAIL_CHARS, KEY_CHARS, TOOLS_TOLD, FindingName
from towpath_contracts.runs.refused_transition import TransitionRefusedFact
from towpath_contracts.runs.run_control import RunSteeredFact
from towpath_contracts.tools.calls import Denial, ProbeWord, ToolFailure, UnknownCallEvidence
from towpath_contracts.tools.previews import OutputPreview
from towpath_contracts.tools.workspace import FileChange, LostChangesReason

# Kept apart, but part of the same union.
__all__ = ["CallPausedFact", "CallPostponedFact", "QuotaChangedFact", "RunSteeredFact", "TransitionRefusedFact"]

LONGEST_WAIT_S = LONGEST_MS / 1000
"""The longest wait that a provider may ask a run for."""


def _empty(pool: str) -> bool:
    """Return whether a pool is left out of what is written: the deciders' facts stay as they always were."""
    return not pool


class RunAdmittedFact(FactBase):
    """The orchestrator has room: the queued run may start."""

    type: Literal["run.admitted"] = "run.admitted"


class InheritedGate(MessagePart):
    """A gate of the run itself that is open where a fork begins: the fork asks the same of a person."""

    gate_type: str
    key: str
    reason: str
    detail: JsonObject


class RunForkedFact(FactBase):
    """A run begins as a fork: what it inherits, who forked it, and a note for the model. Never sent over the inbox."""

    type: Literal["run.forked"] = "run.forked"
    parent_seq: int
    by: str
    note: str = ""
    inherited: JsonObject
    gates: tuple[InheritedGate, ...] = Field(default=(), exclude_if=lambda gates: not gates)


class DecisionMadeFact(FactBase):
    """A model answered with something that is a Decision in form.

    `pool` names the agents that answered, as their credential proves it; the orchestrator alone writes it, and it is
    empty for deciders.
    """

    type: Literal["decision.made"] = "decision.made"
    request_id: UUID
    attempt: int
    decision: JsonObject
    model: str = ""
    usage: Usage = Usage()
    cost: Cost = Cost()
    duration_ms: int = 0
    prompt_digest: str = ""
    raw_digest: str = ""
    script: PlayedScriptEntry | None = None
    called_in: int = Field(default=0, ge=0, exclude_if=lambda value: value == 0)
    uncounted: int = Field(default=0, ge=0, exclude_if=lambda value: value == 0)
    pool: str = Field(default="", exclude_if=_empty)


class DecisionFailedFact(FactBase):
    """No decision could be had. `invalid_output` is fed back; everything else ends the run after its attempts.

    `retry_after_s` says that the provider may be asked again so many seconds later: the run waits for that, if it has
    the time. `script` names the entry that was played, so that an unreadable entry is not played again for ever. `pool`
    is as in DecisionMadeFact.
    """

    type: Literal["decision.failed"] = "decision.failed"
    request_id: UUID
    attempt: int
    code: str
    message: str
    model: str = ""
    usage: Usage = Usage()
    cost: Cost = Cost()
    duration_ms: int = 0
    prompt_digest: str = ""
    raw_digest: str = ""
    script: PlayedScriptEntry | None = None
    called_in: int = Field(default=0, ge=0, exclude_if=lambda value: value == 0)
    uncounted: int = Field(default=0, ge=0, exclude_if=lambda value: value == 0)
    retry_after_s: float | None = Field(default=None, ge=0, le=LONGEST_WAIT_S, allow_inf_nan=False, exclude_if=is_unset)
    pool: str = Field(default="", exclude_if=_empty)


class ToolFinishedFact(FactBase):
    """A tool call has an outcome in the ledger.

    `attempt` is the ledger's: a doubt about one attempt is asked about once, however often it is reported. `settled_by`
    names the person who decided it; `doubt` says what is known where the status is `unknown`. `executed_args` are
    the arguments of the call as `edited_by` has changed them; None where it is the call that the run asked for.
    `changes` have the sizes of what is stored, which the orchestrator looks up; `changes_lost` says why none are there.
    """

    type: Literal["tool.finished"] = "tool.finished"
    execution_id: UUID
    status: Literal["succeeded", "failed", "unknown", "void"]
    result: Any = None
    result_digest: str | None = None
    result_bytes: int = 0
    blob: bool = False
    preview: OutputPreview | None = Field(default=None, exclude_if=is_unset)
    failure: ToolFailure | None = None
    duration_ms: int = 0
    worker: str = ""
    policy_version: int = 0
    attempt: int = 0
    settled_by: str = ""
    probe: ProbeWord = ""
    doubt: UnknownCallEvidence | None = None
    executed_args: JsonObject | None = None
    edited_by: str = ""
    changes: tuple[FileChange, ...] = Field(default=(), exclude_if=lambda found: not found)
    changes_lost: LostChangesReason | None = Field(default=None, exclude_if=is_unset)


class InternalToolPermittedFact(FactBase):
    """An internal tool may be applied: by the run machine, as a transition.

    `contents` are the texts of the files that the call reads, by digest; the orchestrator alone fills them in, from the
    blobs that the run's log names. `executed_args` are those that `edited_by` has put in the place of the call's.
    `output` is the part of an output that the call asks for, which the orchestrator alone fills in too.
    """

    type: Literal["tool.permitted"] = "tool.permitted"
    execution_id: UUID
    policy_version: int = 0
    executed_args: JsonObject | None = None
    edited_by: str = ""
    contents: dict[str, str] = Field(default_factory=dict)
    output: JsonObject | None = Field(default=None, exclude_if=is_unset)


class InternalOutcomeRecordedFact(FactBase):
    """The ledger holds what came of a call that the run applied itself. `refused` says why it never will."""

    type: Literal["outcome.recorded"] = "outcome.recorded"
    execution_id: UUID
    refused: str = ""


class ToolDeniedFact(FactBase):
    """The tool-access service refused a call."""

    type: Literal["tool.denied"] = "tool.denied"
    execution_id: UUID
    denial: Denial
    policy_version: int = 0


class ChangedApprovalField(MessagePart):
    """One field of an approval that changed since the call was shown: `arguments.amount`, `tool_version`, …

    None is what was not there before, or is not there now.
    """

    field: str
    before: Any = None
    after: Any = None


class ApprovalRequiredFact(FactBase):
    """A call waits for a person; the run opens its gate.

    `quorum` people with `role` must say yes by `expires_at`. `revision` counts changes since it was first shown; `diff`
    and `changes` (its words) say what changed last, `edited_by` who changed the arguments. `origins` says where values
    come from: path, `from` (fixed, task, record, unknown, untrusted), whether it is a sink, the tool and step that
    returned it. `summary` is the tool's template: who shows the call fills it, so it holds nothing to be erased.
    """

    type: Literal["approval.required"] = "approval.required"
    execution_id: UUID
    approval_id: UUID
    rule: str
    reason: str = ""
    tool: str
    args: JsonObject
    args_digest: str
    digest: str
    expires_at: datetime
    policy_version: int = 0
    changes: tuple[str, ...] = ()
    diff: tuple[ChangedApprovalField, ...] = ()
    gate_type: Literal["approval", "manual"] = "approval"
    role: str = "approver"
    quorum: int = 1
    on_expiry: str = "deny"
    revision: int = 0
    edited_by: str = ""
    origins: tuple[JsonObject, ...] = ()
    summary: str = Field(default="", exclude_if=lambda template: not template)


class GateResolvedFact(FactBase):
    """A person (or an expiry) settled a gate."""

    type: Literal["gate.resolved"] = "gate.resolved"
    gate_id: UUID | None = None
    approval_id: UUID | None = None
    verdict: Literal["approved", "denied", "expired", "happened", "did_not_happen", "retry", "resumed", "stop"]
    reason: str = ""
    by: str = ""


class ExecutionConflictFact(FactBase):
    """A repeated execution id came with other contents: the run must not go on."""

    type: Literal["execution.conflict"] = "execution.conflict"
    execution_id: UUID
    message: str


class TimerFiredFact(FactBase):
    """The run's `wake_at` has come."""

    type: Literal["timer.fired"] = "timer.fired"


class CancelRequestedFact(FactBase):
    """Somebody wants the run to stop. With `in_answer` the reason stands in the run's answer too.

    Whoever asks sets it; facts that were stored before there was such a choice do not have it.
    """

    type: Literal["cancel.requested"] = "cancel.requested"
    by: str
    reason: str = ""
    in_answer: bool = False


class ChildReportedFact(FactBase):
    """A child says how far it is: it waits for people, goes on, or has ended. Its own `child_seq` orders it.

    `news`: the child reports by itself; without it the fact is an answer to a question. `worked` are the tools of
    which a call succeeded in it, `below` is what its own children have cost, `usage_below` what they used.
    """

    type: Literal["child.told"] = "child.told"
    child_id: UUID
    child_seq: int
    status: str
    ended: bool = False
    news: bool = False
    reason: str = ""
    final: JsonObject | None = None
    usage: Usage = Usage()
    cost: Cost = Cost()
    below: Cost | None = Field(default=None, exclude_if=is_unset)
    usage_below: Usage | None = Field(default=None, exclude_if=is_unset)
    cursors: dict[str, int] = Field(default_factory=dict)
    worked: tuple[str, ...] = ()


class FenceRaisedFact(FactBase):
    """TAS has stored the fence: what it voided, and which claims still live."""

    type: Literal["fence.raised"] = "fence.raised"
    fence: int
    voided: tuple[UUID, ...] = ()
    live: tuple[UUID, ...] = ()


class WatchdogReportedFact(FactBase):
    """The watchdog found something: what (`key` tells two of one kind apart), over how many steps, how clearly (0-1).

    `since` is the first event that it rests on: a report of what was reported before is no news. `tools` are those that
    the steps asked for.
    """

    type: Literal["watchdog.reported"] = "watchdog.reported"
    finding: FindingName
    key: str = Field(max_length=KEY_CHARS)
    since: int = Field(ge=0)
    steps: int = Field(default=0, ge=0)
    score: float = Field(default=0.0, ge=0, le=1)
    detail: str = Field(default="", max_length=DETAIL_CHARS)
    tools: tuple[str, ...] = Field(default=(), max_length=TOOLS_TOLD)


class BudgetAccountsAppliedFact(FactBase):
    """The run spends from these accounts now. Made by the orchestrator alone, never sent over the inbox."""

    type: Literal["budget.applied"] = "budget.applied"
    scopes: tuple[RunBudgetAccount, ...]
    prices: dict[str, ModelPrice] = Field(default_factory=dict)


class BudgetRefusedFact(FactBase):
    """What the run was about to ask does not fit: it is folded before the fact that made it ask. Never sent either."""

    type: Literal["budget.refused"] = "budget.refused"
    refusal: BudgetRefusal


class BudgetWarnedFact(FactBase):
    """So much of a limit is spent that the run is warned, or a person asked. Never sent either."""

    type: Literal["budget.warned"] = "budget.warned"
    scope: Scope
    key: str
    unit: Unit
    limit: int
    spent: int
    on_soft: OnSoft = "warn"


class MessageDeadFact(FactBase):
    """A message of this run was set aside as a dead letter; `attempt` is the effect's it was sent for, 0 for any."""

    type: Literal["message.dead"] = "message.dead"
    stream: str
    reason: str
    effect_id: UUID | None = None
    attempt: int = 0


AnyFact = (
    RunAdmittedFact
    | RunForkedFact
    | DecisionMadeFact
    | DecisionFailedFact
    | ToolFinishedFact
    | InternalToolPermittedFact
    | InternalOutcomeRecordedFact
    | ToolDeniedFact
    | ApprovalRequiredFact
    | CallPausedFact
    | CallPostponedFact
    | QuotaChangedFact
    | GateResolvedFact
    | ExecutionConflictFact
    | TimerFiredFact
    | CancelRequestedFact
    | RunSteeredFact
    | FenceRaisedFact
    | ChildReportedFact
    | WatchdogReportedFact
    | MessageDeadFact
    | TransitionRefusedFact
    | BudgetAccountsAppliedFact
    | BudgetRefusedFact
    | BudgetWarnedFact
)

Fact = Annotated[AnyFact, Field(discriminator="type")]
"""How a fact is read: its type says which class it is."""

fact_adapter: TypeAdapter[AnyFact] = TypeAdapter(Fact, config=DEFERRED)

SOURCE_FACTS: dict[str, frozenset[str]] = {
    "decider": frozenset({"decision.made", "decision.failed"}),
    "agent": frozenset({"decision.made", "decision.failed"}),
    "tas": frozenset(
        {
            *("tool.finished", "tool.permitted", "tool.denied", "approval.required", "call.paused", "call.postponed"),
            "gate.resolved",
            *("execution.conflict", "message.dead"),
        }
    ),
    "gateway": frozenset({"cancel.requested"}),
    "watchdog": frozenset({"message.dead", "watchdog.reported"}),
    "orchestrator": frozenset(
        {
            *("run.admitted", "timer.fired", "fence.raised", "cancel.requested", "gate.resolved", "message.dead"),
            *("child.told", "run.steered"),
        }
    ),
}
"""Which fact types each source may publish under `run.inbox.<source>.<run_id>`; agents also name their pool there."""

"""The state of a run: what folding its events gives.

Frozen (without slots: see `replace`), and bounded: nothing here grows with the length of the run's history. What is
only needed to be read later is in the log. Field names are part of stored snapshots, so they are never renamed.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import ToolCall
from towpath_contracts.decisions.request import Cost, FullToolOutput, OlderOutput, Usage
from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.child_tools import starts_child
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.runs.children import SERVER_CAPS, RunTreeCaps
from towpath_contracts.runs.views import CallCounts
from towpath_engine.state.background import BackgroundRunState
from towpath_engine.state.budget import BudgetState
from towpath_engine.state.epoch_turns import KeptEpochTurns
from towpath_engine.state.goal import GoalState
from towpath_engine.state.loop_counters import NOTHING_COUNTED, LoopCounters
from towpath_engine.state.operator_notes import NO_NOTES, OperatorNotes
from towpath_engine.state.plan import HandoffState, PlanRunState
from towpath_engine.state.watchdog import WatchdogReports
from towpath_engine.state.workspace import RunWorkspace

LOG_TAIL = 10
"""Entries of the execution log that a prompt summarises."""

OLDER_KEPT = 20
"""Older outputs that are shown by id and preview; the rest is only counted."""


_NO_CALLS = CallCounts()
NO_USAGE = Usage()
NO_COST = Cost(usd=0.0, price_known=True)


class Status(StrEnum):
    """The status of a run, live and final."""

    NEW = "new"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    QUARANTINED = "quarantined"
    COMPLETED = "completed"
    FAILED = "failed"
    ESCALATED = "escalated"
    ABANDONED = "abandoned"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


FINAL = frozenset(
    {Status.COMPLETED, Status.FAILED, Status.ESCALATED, Status.ABANDONED, Status.CANCELLED, Status.TIMED_OUT}
)


ACTION_KINDS = frozenset({"decide", "replan"})
"""Kinds of requests that are answered by an action; every other kind assesses the last one."""

STOPPING = frozenset({Status.CANCELLING, Status.QUARANTINED})
"""Statuses in which a run stops its children: their answers are of no use any more."""


class EffectKind(StrEnum):
    """The kinds of effects: what the outside can be asked for."""

    DECIDE = "decide"
    TOOL = "tool"
    FENCE = "fence"
    CHILD = "child"
    OUTCOME = "outcome"
    STORE = "store"


@dataclass(frozen=True, kw_only=True)
class PendingEffect:
    """Something asked of the outside and not answered yet.

    `fence` is that of the moment it was asked for: a resend never carries a newer one, or it would pass a fence that
    was raised to stop it. `dead` counts its messages that could not be handled. `outcome` is what is reported to the
    ledger of a call that the run applied itself. `postponed` means that its last attempt is over, without an answer:
    nothing is asked before `resend_at`; `settled` is the last attempt of which that was said. `model` is who is asked,
    `again_at` when a model that was asked before may be asked again. `withheld`: a person let the call go, but the run
    is held.
    """

    effect_id: UUID
    kind: EffectKind
    attempt: int
    resend_at: datetime
    deadline: datetime | None = None
    call_index: int = -1
    fence: int = 0
    dead: int = 0
    outcome: JsonObject | None = None
    postponed: bool = False
    settled: int = 0
    model: str = ""
    again_at: datetime | None = None
    withheld: bool = False


@dataclass(frozen=True, kw_only=True)
class StepCall:
    """One call of the current step. `status` is empty until it is finished.

    `output` and `entry` wait there for the other calls of the step. `closed_gates` are few: each took a person's
    decision, or an expiry. `outcome` is what the end of a run reports of the call. `executed_args` are those that
    `edited_by` has put in the place of the call's own, or None. `workspace` is the digest of the list of files that the
    tool works with.
    """

    call: ToolCall
    status: str = ""
    outcome: str = ""
    error_signature: str = ""
    external: bool = False
    result: Any = None
    result_digest: str = ""
    output: FullToolOutput | None = None
    entry: JsonObject | None = None
    closed_gates: tuple[UUID, ...] = ()
    executed_args: JsonObject | None = None
    edited_by: str = ""
    workspace: str = ""

    def shown_args(self) -> JsonObject:
        """Return the arguments that were executed, without what a model may not see."""
        if self.executed_args is None:
            return self.call.shown_args()
        return {name: value for name, value in self.executed_args.items() if name not in self.call.system_params}


@dataclass(frozen=True, kw_only=True)
class StepChild:
    """One child of the current step; `seq` is how far its own log is known, `waits` that it waits for people.

    `execution_id` is the call that it answers, `stopped` why its parent wants it no longer.
    """

    child_id: UUID
    step: int
    index: int
    agent_key: str
    purpose: str = ""
    subject: str = ""
    ended: bool = False
    waits: bool = False
    seq: int = 0
    status: str = ""
    reason: str = ""
    final: JsonObject | None = None
    worked: tuple[str, ...] = ()
    execution_id: UUID | None = None
    policy_version: int = 0
    stopped: str = ""

    @property
    def did_subject(self) -> bool:
        """Whether the child completed, and by its own log a call of the tool it was asked about succeeded in it."""
        return self.status == "completed" and self.subject in self.worked


@dataclass(frozen=True, kw_only=True)
class OpenGate:
    """A gate that the run waits for; one without `execution_id` is about the run itself, `key` names its cause.

    A fork opens an `inherited` one before its first step. One that `holds` was put from outside: nothing begins behind
    it.
    """

    gate_id: UUID
    gate_type: str
    expires_at: datetime
    execution_id: UUID | None = None
    approval_id: UUID | None = None
    key: str = ""
    inherited: bool = False
    holds: bool = False


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Everything that decides what a run does next. `task` and `snapshot` never change after creation.

    `asked` is the kind of the last request to the decider, `assessed` are the kinds that were asked about this action;
    `unanswered` means that its answer is no longer waited for, and that it is asked once more. `below` is what
    children that have ended, with their own, have cost, and `usage_below` what they used. `earlier_summary` is a
    model's summary of earlier turns, empty where it gave none.
    """

    run_id: UUID
    snapshot: NetworkSnapshot
    task: RunCreated | None = None
    seq: int = 0
    status: Status = Status.NEW
    reason: str = ""
    agent_key: str = ""
    epoch: int = 0
    step: int = 0
    fence: int = 0
    fence_stored: int = 0
    fence_stored_at: datetime | None = None
    fence_live: tuple[UUID, ...] = ()
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    active_ms: int = 0
    active_since: datetime | None = None
    requests: int = 0
    pending: tuple[PendingEffect, ...] = ()
    calls: tuple[StepCall, ...] = ()
    gates: tuple[OpenGate, ...] = ()
    outputs: tuple[FullToolOutput, ...] = ()
    output_bytes: int = 0
    older: tuple[OlderOutput, ...] = ()
    older_count: int = 0
    log_tail: tuple[JsonObject, ...] = ()
    input_preview: str = ""
    feedback: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    handoff: str | None = None
    handoff_from: str | None = None
    tool_errors: int = 0
    call_counts: CallCounts = _NO_CALLS
    cursors: dict[str, int] = field(default_factory=dict)
    detectors: LoopCounters = NOTHING_COUNTED
    usage: Usage = NO_USAGE
    cost: Cost = NO_COST
    below: Cost = NO_COST
    usage_below: Usage = NO_USAGE
    last_output: Any = None
    final: JsonObject | None = None
    cancelled_by: str = ""
    cancel_reason: str = ""
    asked: str = "decide"
    assessed: tuple[str, ...] = ()
    unanswered: bool = False
    backoff_until: datetime | None = None
    run_gates: int = 0
    revisions: int = 0
    children: tuple[StepChild, ...] = ()
    worked: tuple[str, ...] = ()
    goal: GoalState | None = None
    background: BackgroundRunState | None = None
    desk: RunWorkspace | None = None
    budget: BudgetState | None = None
    watch: WatchdogReports = field(default_factory=WatchdogReports)
    composition: PlanRunState | None = None
    swarm: HandoffState | None = None
    operator_notes: OperatorNotes = NO_NOTES
    earlier_summary: str | None = None
    epoch_turns: KeptEpochTurns | None = None

    @property
    def created(self) -> RunCreated:
        """The task; raises ValueError before the first event."""
        if self.task is None:
            msg = "the run has no first event"
            raise ValueError(msg)
        return self.task

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.status in FINAL

    def pending_effect(self, effect_id: UUID) -> PendingEffect | None:
        """Return the pending effect of that id."""
        return next((effect for effect in self.pending if effect.effect_id == effect_id), None)

    def open_call(self, execution_id: UUID) -> StepCall | None:
        """Return the unfinished call of that id."""
        return next((c for c in self.calls if c.call.execution_id == execution_id and not c.status), None)

    @property
    def queued(self) -> frozenset[UUID]:
        """The calls of internal tools that are not asked for yet: one before them in their decision has no outcome.

        Of calls that are child runs, as many go on at once as children may; while the run is held none begins. Whoever
        cancels a run asks about every call that is open.
        """
        held = self.held
        if (len(self.calls) < 2 and not held) or self.status is Status.CANCELLING:
            return frozenset()
        tools = self.snapshot.all_tools
        waiting = [c.call for c in self.calls if not c.status and tools[c.call.tool].internal]
        children = [call for call in waiting if starts_child(call.tool)]
        first = min((call.call_index for call in waiting if not starts_child(call.tool)), default=0)
        later = [call for call in waiting if call.call_index > first and not starts_child(call.tool)]
        crowd = children[self.max_parallel :] if children else []
        if held and children:
            crowd = [call for call in children if call.execution_id not in self.under_way]
        return frozenset(call.execution_id for call in (*later, *crowd))

    @property
    def max_parallel(self) -> int:
        """How many children it may have at once: the least that plan, swarm, parent and server say."""
        own = self.created
        plan = own.plan.max_parallel if own.plan is not None else None
        swarm = own.swarm.swarm.max_parallel if own.swarm is not None else None
        above = own.parent.max_parallel if own.parent is not None else None
        return min(limit for limit in (plan, swarm, above, self.caps.max_parallel) if limit is not None)

    @property
    def caps(self) -> RunTreeCaps:
        """What the platform allowed of trees of runs when this one's top was submitted."""
        return self.created.caps or SERVER_CAPS

    @property
    def unasked(self) -> frozenset[UUID]:
        """The calls that are not requested: their turn has not come, their child runs will report, the run is held."""
        under_way, withheld = self.under_way, self.withheld
        if self.gates and self.held:
            withheld |= {gate.execution_id for gate in self.gates if gate.execution_id is not None}
        return self.queued | under_way | withheld if under_way or withheld else self.queued

    @property
    def withheld(self) -> frozenset[UUID]:
        """The calls that people let go while the run was held; while it is, also those whose time had not come.

        These are polls, and calls that the quota of their project has postponed.
        """
        held = self.held
        return frozenset(
            pending.effect_id
            for pending in self.pending
            if pending.withheld
            or (held and pending.kind is EffectKind.TOOL and (pending.postponed or not pending.attempt))
        )

    @property
    def held(self) -> bool:
        """Whether somebody holds the run from outside: it asks no model, and nothing of it begins."""
        return bool(self.gates) and any(gate.holds for gate in self.gates)

    @property
    def under_way(self) -> frozenset[UUID]:
        """The calls whose child runs are under way: only these can report the outcome."""
        if not self.children:
            return frozenset()
        return frozenset(c.execution_id for c in self.children if c.execution_id is not None and not c.ended)

    @property
    def only_waits(self) -> bool:
        """Whether nothing is under way, so that active time stands still: all waits for people, or for a quota."""
        waiting = {name for child in self.children if child.waits for name in (child.child_id, child.execution_id)}
        waiting |= {p.effect_id for p in self.pending if p.postponed and p.kind is EffectKind.TOOL}
        if (not self.gates and not waiting) or (not self.pending and not self.waits_at_run_gate):
            return False
        gated = {gate.execution_id for gate in self.gates} | waiting | self.queued | self.withheld
        return all(p.effect_id in gated or p.kind is EffectKind.OUTCOME for p in self.pending)

    @property
    def waits_at_run_gate(self) -> bool:
        """Whether a gate is open that is about the run itself."""
        return any(gate.execution_id is None for gate in self.gates)

    def active_deadline(self) -> datetime | None:
        """When the run's active time is used up; None while it stands still."""
        if self.active_since is None or self.task is None:
            return None
        return self.active_since + timedelta(milliseconds=self.task.timeout_ms - self.active_ms)


def initial(run_id: UUID, snapshot: NetworkSnapshot) -> RunState:
    """Return the state before the first event."""
    return RunState(run_id=run_id, snapshot=snapshot)


_STATIC = {"snapshot", "task"}


@cache
def _adapter() -> TypeAdapter[RunState]:
    return TypeAdapter(RunState)  # built at the first use: not every process that imports the engine stores a state


def dump_state(state: RunState) -> str:
    """Write the changing part of a state as JSON; task and snapshot are stored once, elsewhere."""
    return _adapter().dump_json(state, exclude=_STATIC).decode()


def load_state(text: str, task: RunCreated, snapshot: NetworkSnapshot) -> RunState:
    """Read a dumped state back and join it with its unchanging part. Raises pydantic's ValidationError."""
    body = text.rstrip().removesuffix("}")
    whole = f'{body},"task":{task.model_dump_json()},"snapshot":{snapshot.model_dump_json()}}}'
    return _adapter().validate_json(whole)

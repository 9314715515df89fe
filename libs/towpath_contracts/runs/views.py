"""What services tell each other about runs, gates and history when asked (`svc.<service>.<method>`).

Every request carries the project it acts in, set by the gateway from the credential and never by the client; an
answer holds nothing of another project.
"""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.decisions.request import Cost, PromptContext, Usage
from towpath_contracts.run_limits import MAX_DEPTH, MAX_STEPS_CAP
from towpath_contracts.runs.records import ForkedFrom

EffectOutcome = Literal["happened", "did_not_happen", "failed", "unknown", "open"]
"""`open` is a call of a run that has not ended: asked for, and without an outcome yet."""


class ToolCallOutcome(MessagePart):
    """What became of one tool call of a run, in the order in which calls were decided.

    `source` names who reported the outcome: worker, probe or a person.
    """

    execution_id: UUID
    tool: str
    step: int
    call_index: int
    outcome: EffectOutcome
    source: str = ""


class CallCounts(MessagePart):
    """What became of the tool calls of a run, without those of its child runs.

    `asked` are the calls of its decisions that were valid. `allowed` have ended otherwise than by a denial, with
    success or without, and `denied` by one; the rest are open, or were voided by the end of the run. `held` waited for
    a person or a switch at some time, whatever became of them.
    """

    asked: int = 0
    allowed: int = 0
    denied: int = 0
    held: int = 0


class GetRun(Message):
    """One run of a project; `wait_ms` > 0 waits for its end (at most 30 s a call).

    With `effects` the answer lists what became of the calls of a stopped run, which reads its whole history; who only
    wants to know how a run stands leaves it out. On `task.get` it is on unless it is switched off.
    """

    project: str
    run_id: UUID
    wait_ms: int = Field(default=0, ge=0, le=30_000)
    effects: bool = False


class ListRuns(Message):
    """A page of runs, newest first. `before` is the run id that ended the previous page.

    `parent_run_id` picks the children of a run, `root_run_id` all runs of the tree that it is the top of, itself
    left out, and `depth` those that stand so deep: 0 are the runs that callers submitted. `thread_id`
    picks a run and those that continue it.
    """

    project: str
    status: str | None = None
    network: str | None = None
    label: str | None = None
    parent_run_id: UUID | None = None
    root_run_id: UUID | None = None
    depth: int | None = Field(default=None, ge=0, le=MAX_DEPTH)
    thread_id: UUID | None = None
    kind: str | None = None
    before: UUID | None = None
    limit: int = Field(default=50, ge=1, le=200)


class RunView(Message):
    """A run as its reader sees it.

    `effects` is filled where it is asked for, once a run is being cancelled or has ended otherwise than completed: what
    became of its calls, in order. Of very many only the newest are there, and `effects_left_out` counts the others; the
    log has them all. `waits` says what an unfinished run waits for: its open gates in words, oldest first, then the
    model whose provider has asked for time, and until when; then those of the runs below it. Over HTTP a run that is
    asked for alone also says which toolsets its own calls wait for that no worker takes. `usage` and `cost` are known
    once the run has ended, and null before: its log has what each request used so far. They are the run's own;
    `tree_usage` and `tree_cost` add those of every run below it, as these end. `message` says in words
    why a run ended that did not complete: of one that was cancelled by whom, and the reason that was given. Of a run
    that was erased lists show what is left, with `erased_at`. A run that a caller submitted belongs to the thread
    `thread_id`, which bears the id of its first run; `previous_run_id` is the run that it continues, and `next_run_id`,
    which lists leave out, the one that continues it.
    """

    run_id: UUID
    project: str
    kind: str
    network: str
    version: int
    snapshot_digest: str
    status: str
    reason: str = ""
    message: str = ""
    caller: str
    agent_key: str = ""
    user_message: str = ""
    step: int = 0
    max_steps: int = 0
    seq: int
    labels: dict[str, str] = Field(default_factory=dict)
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    final: JsonObject | None = None
    last_output: Any = None
    usage: Usage | None = None
    cost: Cost | None = None
    tree_usage: Usage | None = None
    tree_cost: Cost | None = None
    trace_id: str = ""
    debug: bool = False
    forked_from: ForkedFrom | None = None
    parent_run_id: UUID | None = None
    root_run_id: UUID | None = None
    depth: int = 0
    thread_id: UUID | None = None
    previous_run_id: UUID | None = None
    next_run_id: UUID | None = None
    effects: tuple[ToolCallOutcome, ...] = ()
    effects_left_out: int = 0
    waits: tuple[str, ...] = ()
    calls: CallCounts = CallCounts()
    erased_at: datetime | None = None

    @property
    def text(self) -> str:
        """The answer's message, which is all of an answer that is plain text; empty where there is none."""
        said = (self.final or {}).get("message")
        return said if self.status == "completed" and isinstance(said, str) else ""


class RunPage(Message):
    """Runs, newest first; `next_before` continues.

    A page that is asked for by network, kind or label looks through the newest 10,000 runs, or those of its status:
    it may be short, or empty, and `next_before` goes on behind them.
    """

    runs: tuple[RunView, ...]
    next_before: UUID | None = None


class GetEvents(Message):
    """Events of a run with seq > `after`; `wait_ms` waits for the first of them (at most 30 s)."""

    project: str
    run_id: UUID
    after: int = Field(default=0, ge=0)
    limit: int = Field(default=200, ge=1, le=1_000)
    wait_ms: int = Field(default=0, ge=0, le=30_000)


class ListChangedRuns(Message):
    """Lists the runs that changed since a time, for readers that look for what they missed."""

    since: datetime
    limit: int = Field(default=500, ge=1, le=5_000)


class RunSeq(MessagePart):
    """How far the log of one run goes: the seq of its last event."""

    run_id: UUID
    project: str
    seq: int
    updated_at: datetime


class ChangedRunList(Message):
    """Runs touched since, oldest first; `until` is the next `since`."""

    runs: tuple[RunSeq, ...]
    until: datetime


class GetEventsSince(Message):
    """Like GetEvents for a service that reads every project (log-writer, watchdog)."""

    run_id: UUID
    after: int = 0
    limit: int = Field(default=500, ge=1, le=1_000)


GateStatus = Literal["pending", "approved", "denied", "expired", "settled", "void"]


class GateVote(MessagePart):
    """What one person decided at an approval gate; `key_prefix` names the key that it came with, if any."""

    actor: str
    verdict: Literal["approved", "denied", "edited"]
    reason: str = ""
    at: datetime
    key_prefix: str = ""


class GateView(Message):
    """A gate: what waits, why, until when.

    `summary` is in one sentence what it asks for; a call stands there with its arguments, which a model wrote. An
    approval takes `quorum` different people's yes; `votes` are the words so far, in order. `assigned_to` is whom
    somebody has handed it to: a name, or `role:NAME`.
    """

    gate_id: UUID
    run_id: UUID
    project: str
    network: str = ""
    gate_type: str
    status: GateStatus
    reason: str
    summary: str = ""
    detail: JsonObject = Field(default_factory=dict)
    execution_id: UUID | None = None
    approval_id: UUID | None = None
    opened_at: datetime
    expires_at: datetime
    closed_at: datetime | None = None
    closed_by: str = ""
    closed_reason: str = ""
    verdict: str = ""
    quorum: int = 1
    votes: tuple[GateVote, ...] = ()
    assigned_to: str = ""
    assigned_by: str = ""
    assigned_reason: str = ""
    assigned_at: datetime | None = None

    @property
    def is_decided_by_votes(self) -> bool:
        """Whether its votes have decided it: a run hears of them a moment later."""
        yes = {vote.actor for vote in self.votes if vote.verdict != "denied"}
        return len(yes) >= self.quorum or any(vote.verdict == "denied" for vote in self.votes)


class ListGates(Message):
    """Gates of a project; without `paused` only those that a person can settle, with `after` those behind that gate.

    With `root_run_id` those of that run and of every run below it. With `newest` closed ones alone, the last first:
    all with both `tool` and `rule`, of others as many as `orchestrator` looks at. With `assigned_to` those that were
    handed to one of these names, of gates in the order in which they were opened.
    """

    project: str
    status: str | None = "pending"
    run_id: UUID | None = None
    gate_id: UUID | None = None
    root_run_id: UUID | None = None
    paused: bool = True
    after: UUID | None = None
    limit: int = Field(default=100, ge=1, le=500)
    tool: str | None = None
    rule: str | None = None
    network: str | None = None
    newest: bool = False
    assigned_to: tuple[str, ...] | None = None


class GatePage(Message):
    """Gates, in the order asked for; `next_after` continues. A page ends early where one message holds no more."""

    gates: tuple[GateView, ...]
    next_after: UUID | None = None


class ResolveGate(Message):
    """A person's word on a gate. Approval gates go to `svc.tas.resolve_approval`, all others to the orchestrator.

    `edit` changes the arguments of a call that waits for approval to `args`, which are all of them; `stop` ends the run
    whose gate it is. `caller` is the name in which the same person submits, where it is another than `actor`.
    `key_commitment` tells the secret of the key that was checked, without disclosing it.
    """

    project: str
    gate_id: UUID
    approval_id: UUID | None = None
    verdict: Literal["approved", "denied", "edit", "happened", "did_not_happen", "retry", "stop"]
    args: JsonObject | None = None
    reason: str = Field(default="", max_length=2_000)
    actor: str
    caller: str = ""
    key_prefix: str = ""
    key_commitment: str = ""
    roles: tuple[str, ...] = ()
    digest: str | None = None


class CancelRun(Message):
    """Ask a run to stop."""

    project: str
    run_id: UUID
    actor: str
    reason: str = Field(default="", max_length=2_000)
    key_prefix: str = ""
    key_commitment: str = ""


class ActionDone(Message):
    """Reply to an action that has nothing to give back; `detail` says what was done."""

    detail: str = ""


class PreviewPrompt(Message):
    """The prompt that an agent of a network would get for a message."""

    project: str
    network: str
    version: int | None = None
    agent_key: str | None = None
    user_message: str = ""


class PromptContextPreview(Message):
    """Reply to PreviewPrompt: the context that the prompt is rendered from; the decider renders it."""

    context: PromptContext
    model: str


class GetLlmCalls(Message):
    """The model calls of a run, with bodies where the run had `debug`. `after` skips calls of earlier pages.

    With `step` those of that step alone.
    """

    project: str
    run_id: UUID
    after: int = Field(default=0, ge=0)
    step: int | None = Field(default=None, ge=0)


class LlmCalls(Message):
    """Recorded model calls, oldest first; `next_after` continues where one answer can't hold them all."""

    calls: tuple[JsonObject, ...]
    next_after: int | None = None


class GetHistory(Message):
    """The execution history of a run. `after_step` continues an earlier page, `limit` bounds how many steps it has."""

    project: str
    run_id: UUID
    after_step: int = Field(default=-1, ge=-1)
    limit: int | None = Field(default=None, ge=1, le=MAX_STEPS_CAP)


class ExecutionHistory(Message):
    """The history row, its steps and their tool executions as recorded; `seq` is how far history has read the log.

    `next_after_step` continues where one answer doesn't hold every step.
    """

    seq: int
    history: JsonObject | None
    steps: tuple[JsonObject, ...]
    tool_executions: tuple[JsonObject, ...] = ()
    next_after_step: int | None = None

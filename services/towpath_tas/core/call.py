"""What the ledger knows of one call, and what a message changes of it.

Values only. A `LedgerCall` is one row of the ledger. A `LedgerChange` says what to store, and what to send once it is
stored. `revision` counts the changes of a row: a change is stored only where nobody else changed the row meanwhile.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from towpath_contracts.canonical import digest_text
from towpath_contracts.files.policy_document import OnExpiry
from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_tas.core.policy.matrix import RateLimit

FINAL = frozenset({CallStatus.DENIED, CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.UNKNOWN, CallStatus.VOID})
"""States that answer a repeated request from the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartClaim:
    """A worker's claim to start, and the answer. `until` is the end of the granted lease, `at` its beginning."""

    claim_id: UUID
    attempt: int
    worker: str
    granted: bool
    reason: str = ""
    until: datetime | None = None
    at: datetime | None = None
    probe: Literal["", "required", "preferred"] = ""

    @property
    def is_possible(self) -> bool:
        """Whether it stands for a start that a lost piece of the database may have had (`restore_doubts`)."""
        return not self.worker and self.at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCall:
    """One ledger row.

    `context` is JSON: labels and grants that a later authorization needs again, and what workers are told of the run.

    `fact` is the last that the run got about this call, as JSON; it is sent again on a repeat. `accepted` names whose
    outcome was accepted; `settled_by` the person who settled an unknown call, also by letting it run again. If
    `edited_by` has changed the arguments, `args` and `args_digest` are the changed ones, and `asked_digest` is that of
    the requested arguments; else it is empty.
    """

    run_id: UUID
    execution_id: UUID
    project: str
    network: str
    snapshot_digest: str
    agent_key: str
    agent_type: str
    caller: str
    step: int
    call_index: int
    tool: str
    operation: str
    toolset: str
    tool_version: int
    effect_class: EffectClass
    timeout_ms: int
    args: str
    args_digest: str
    context: str
    status: CallStatus
    fence: int
    attempt: int
    deadline: datetime
    policy_version: int
    rule: str | None = None
    approval_id: UUID | None = None
    approvals: int = 0
    claims: tuple[StartClaim, ...] = ()
    fact: str | None = None
    accepted: str = ""
    settled_by: str = ""
    asked_digest: str = ""
    edited_by: str = ""
    revision: int = 1

    @property
    def workspace(self) -> str:
        """Digest of the list of files that the tool works with; empty for most calls."""
        if '"workspace"' not in self.context:
            return ""
        return str(json.loads(self.context).get("workspace", ""))

    @property
    def trace_id(self) -> str:
        """The caller's trace, for most calls empty."""
        if '"trace_id"' not in self.context:
            return ""
        return str(json.loads(self.context).get("trace_id", ""))

    @property
    def system_params(self) -> set[str]:
        """Names of the arguments that the platform filled in from the task, as far as the row tells."""
        return set(json.loads(self.context).get("system_params", ()))

    @property
    def root_run_id(self) -> UUID | None:
        """The run on top of the tree, as far as the row tells."""
        if '"root_run_id"' not in self.context:
            return None
        return UUID(json.loads(self.context)["root_run_id"])

    def calling_run(self, root: UUID | None = None) -> dict[str, Any]:
        """Return whose call it is, as members of a CallingRun: the ticket has their digest, so a worker may believe it.

        A row of an older service says nothing of the run above it: *root* is what a request says of it, None where none
        is at hand. Which arguments the platform filled in, such a row can't tell any more.
        """
        context = json.loads(self.context)
        run = {"network": self.network, "agent_key": self.agent_key, "caller": self.caller}
        if root is not None:
            run["root_run_id"] = str(root)
        told = ("labels", "root_run_id", "system_params")
        return run | {name: context[name] for name in told if context.get(name)}

    def next_revision(self, **values: Any) -> "LedgerCall":
        """Return the next revision of this row with *values*."""
        return replace(self, revision=self.revision + 1, **values)

    @property
    def current_claim(self) -> StartClaim | None:
        """The last granted claim of the current attempt, or None."""
        for claim in reversed(self.claims):
            if claim.granted and claim.attempt == self.attempt:
                return claim
        return None

    @property
    def last_granted(self) -> StartClaim | None:
        """The last granted claim of any attempt: the newest start that may have had an effect."""
        return next((claim for claim in reversed(self.claims) if claim.granted), None)

    @property
    def ever_claimed(self) -> bool:
        """Whether any attempt may have started: then "not started" is never true."""
        return any(claim.granted for claim in self.claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalVote:
    """A person's vote on an approval. Whoever `edited` the arguments has also approved the edited call.

    `key_prefix` names the key that the vote came with; empty where it came with none.
    """

    actor: str
    verdict: Literal["approved", "denied", "edited"]
    reason: str
    at: datetime
    key_prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The approval of exactly one call. `bound` is the JSON of everything that `digest` covers.

    `quorum` different people with `role` must approve. `args` are the arguments that were shown, as JSON; empty in rows
    of older releases. `revisions` counts how often the call, or what decides it, had changed before. `edited_by` is the
    person who edited the arguments, if any.
    """

    approval_id: UUID
    run_id: UUID
    execution_id: UUID
    project: str
    status: str
    digest: str
    bound: str
    rule: str
    reason: str
    requested_by: str
    expires_at: datetime
    decided_by: str = ""
    decided_at: datetime | None = None
    decided_reason: str = ""
    args: str = ""
    gate_type: Literal["approval", "manual"] = "approval"
    role: str = "approver"
    quorum: int = 1
    on_expiry: OnExpiry = "deny"
    revisions: int = 0
    edited_by: str = ""
    votes: tuple[ApprovalVote, ...] = ()

    @property
    def approvers(self) -> tuple[str, ...]:
        """Who has approved, each once."""
        return tuple(dict.fromkeys(vote.actor for vote in self.votes if vote.verdict != "denied"))

    @property
    def has_its_votes(self) -> bool:
        """Whether as many people as were asked for have approved, and nobody denied, whatever the status says."""
        return len(self.approvers) >= self.quorum and not self.is_denied_by_vote

    @property
    def is_denied_by_vote(self) -> bool:
        """Whether somebody has denied it, whatever the status says."""
        return any(vote.verdict == "denied" for vote in self.votes)


_OF_ONE_VERSION = frozenset({"decision", "approval.consumed", "approval.escalated", "outcome"})
"""Phases of entries that say by which version of its tool a call was judged, or under which it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAuditEntry:
    """An audit entry about a call. With `always` it is stored even if the row does not change.

    `tool_version` is the version of the tool that the call was judged by, where the row does not have it: only a
    permission moves a row to a later version.
    """

    phase: str
    verdict: str
    call: LedgerCall
    actor: str = ""
    detail: Mapping[str, Any] | None = None
    always: bool = False
    tool_version: int | None = None

    def detail_text(self) -> str:
        """Return the details as JSON, with the version of the tool where the entry decides or ends the call.

        Where it ends the call, also with the digest of all that the run is told: the preview of a large result, say, is
        what its model reads.
        """
        detail = self.detail or {}
        version = self.call.tool_version if self.tool_version is None else self.tool_version
        if self.phase in _OF_ONE_VERSION and version:
            detail = {**detail, "tool_version": version}
        if self.call.fact and (self.phase == "outcome" or self.verdict in {"happened", "deny"}):
            detail = {**detail, "told_digest": digest_text(self.call.fact)}
        return json.dumps(detail, separators=(",", ":"), default=str) if detail else "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchCall:
    """Send this call to its toolset, or to the run itself if the tool is internal."""

    call: LedgerCall


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFact:
    """Send a fact, as JSON, to a run."""

    run_id: UUID
    fact: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCall:
    """Ask the worker of this call to stop."""

    project: str
    toolset: str
    execution_id: UUID
    reason: str


CallEffect = DispatchCall | SendFact | StopCall


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChange:
    """What one message changes: the new row (None: unchanged), what to record, what to send.

    A `policy_bound` change depends on the matrix: it is stored only under the policy version that it was made with.
    `vote` is the vote that the last of `approvals` takes in; `edits` says that its arguments become the call's.
    `counted` names the limited rules that this call uses once, `rated` those with a rate. With a `dead_letter_reason`
    the message becomes a dead letter.
    """

    call: LedgerCall | None = None
    notes: tuple[CallAuditEntry, ...] = ()
    effects: tuple[CallEffect, ...] = ()
    approvals: tuple[Approval, ...] = ()
    vote: ApprovalVote | None = None
    edits: bool = False
    counted: tuple[str, ...] = ()
    rated: tuple[RateLimit, ...] = ()
    policy_bound: bool = False
    dead_letter_reason: str = ""


def key_detail(prefix: str, commitment: str) -> dict[str, str]:
    """Return what an entry says of the key that a person's word came with."""
    return {"by_key": prefix, "by_commitment": commitment} if commitment else {"by_key": prefix}


def stored_damage(call: LedgerCall, approval: Approval | None) -> str:
    """Return why *call*, as it was read with its current *approval*, is not what was stored; empty if it may be.

    Nothing is sent of a row whose arguments are not those that were decided about, as far as the tables tell.
    """
    if digest_text(call.args) != call.args_digest:
        return "its arguments have another digest than it says"
    if bool(call.asked_digest) != bool(call.edited_by):
        return "its arguments stand in place of others, and nobody edited them"
    if approval is None:
        return "it was edited, and has no approval" if call.edited_by else ""
    if approval.requested_by != call.caller:
        return "its approval was asked for by somebody else"
    if approval.edited_by != call.edited_by or _bound_args(approval) != call.args_digest:
        return "its approval is for other arguments"
    return ""


def _bound_args(approval: Approval) -> str | None:
    try:
        bound = json.loads(approval.bound)
    except (ValueError, RecursionError):
        return None
    return bound.get("args_digest") if isinstance(bound, dict) else None


def send_fact(call: LedgerCall) -> tuple[SendFact, ...]:
    """Return the effect that sends the call's current fact to its run, if it has one."""
    return (SendFact(run_id=call.run_id, fact=call.fact),) if call.fact else ()

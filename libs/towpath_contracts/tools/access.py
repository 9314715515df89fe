"""Asking the tool-access service: dry runs, permissions, policy versions, audit.

Who may do what is asked of the matrix, never of the caller; a dry run executes nothing and changes nothing.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.problems.registry import Problem, ProblemDetail, problem
from towpath_contracts.tools.calls import Denial, ToolSpec


class CheckAccess(Message):
    """Dry run: what would the matrix decide about this call?

    `grant` is the task's own, as in SubmitTask; `used` says how often the run has used limited rules, by their names,
    and `spent_usd` what it has cost so far (None: not known). With `run_id` the platform looks up where the values
    come from, as if that run asked now; `origin` states it instead, in the words that conditions see. Without `rates`
    what the project has used of its limits per time is left out, so that the same question has the same answer.
    """

    project: str
    network: str
    agent_key: str
    agent_type: str = ""
    tool: str
    operation: str | None = None
    args: JsonObject = Field(default_factory=dict)
    caller: str = "anonymous"
    step: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    grant: tuple[JsonObject, ...] | None = None
    used: dict[str, int] = Field(default_factory=dict)
    spent_usd: float | None = None
    run_id: UUID | None = None
    origin: JsonObject | None = None
    rates: bool = True


class RuleEvaluation(MessagePart):
    """How one rule was weighed; `at` is where it stands, `policies.yaml:14`, where that is known."""

    rule: str
    effect: str
    matched: bool
    detail: str = ""
    at: str = ""


class AccessVerdict(Message):
    """The verdict, why, and what would be allowed instead; `denial` is what the model would get.

    `hints` name the networks and agents that the question, or a rule that speaks of the tool, names and nobody has.
    `rule_at` is where the rule stands, `policies.yaml:14`, where that is known.
    """

    verdict: Literal["allow", "deny", "require_approval"]
    rule: str | None = None
    rule_at: str = ""
    reason: str = ""
    violation_type: str = ""
    policy_version: int
    allowed_tools: tuple[str, ...] = ()
    suggestion: str = ""
    trace: tuple[RuleEvaluation, ...] = ()
    origins: tuple[JsonObject, ...] = ()
    denial: Denial | None = None
    hints: tuple[str, ...] = ()


class GetPermissions(Message):
    """Asks what an agent may do under the matrix in force."""

    project: str
    network: str
    agent_key: str
    agent_type: str = ""


class ToolPermission(MessagePart):
    """One tool and the verdicts that rules give for it; `conditional` when arguments decide.

    `doubt` is why somebody should look at a tool that was accepted on trust.
    """

    tool: str
    operation: str
    verdict: str
    conditional: bool = False
    rules: tuple[str, ...] = ()
    doubt: str = ""


class AgentPermissions(Message):
    """Every registered tool that some rule speaks of."""

    policy_version: int
    permissions: tuple[ToolPermission, ...]


class ApplyPolicy(Message):
    """Store a matrix as a new version, unless it is equal to the current one or has problems.

    With `if_version` only where that version is in force; 0 means that there is none yet. With `strict` not where
    something is probably wrong, such as a rule for a tool that nobody offers.
    """

    project: str
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    text: str = Field(max_length=2_000_000)
    source: str = ""
    note: str = ""
    dry_run: bool = False
    if_version: int | None = None
    strict: bool = False


class PolicyApplied(Message):
    """The version now in force, what is probably wrong with it, and hints."""

    version: int
    digest: str
    rules: int
    changed: bool
    warnings: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


class GetPolicy(Message):
    """The matrix in force, or an older `version`."""

    project: str
    version: int | None = None


class PolicyView(Message):
    """One version of the matrix, as YAML text and as rows."""

    version: int
    digest: str
    text: str
    applied_at: datetime | None = None
    applied_by: str = ""
    note: str = ""
    rules: tuple[JsonObject, ...] = ()


class CheckGrant(Message):
    """Asks whether this can be the grant of a task, before the task is accepted."""

    project: str
    grant: tuple[JsonObject, ...]


class GrantChecked(Message):
    """Everything that is wrong with a grant; nothing where it can be used."""

    problems: tuple[ProblemDetail, ...] = ()


class DescribeTools(Message):
    """The current specs of these tools, or of all of a project when `names` is None; with `proposals` those too.

    What `grants`, a chain as a run carries it, leaves no way to is left out.
    """

    project: str
    names: tuple[str, ...] | None = None
    grants: tuple[tuple[JsonObject, ...], ...] = ()
    proposals: bool = False


def no_such_proposal(name: str, version: int) -> Problem:
    """Return the problem of whoever names a version of a tool that waits for nobody."""
    detail, remedy = f"no version {version} of {name} waits", "List the versions that wait: towpath tools proposals."
    return problem("not_found", detail, remedy=remedy)


class ToolVersionProposal(MessagePart):
    """A version of a tool that nobody has accepted. `held` says that the calls of the accepted one wait for it too."""

    spec: ToolSpec
    version: int
    digest: str
    status: Literal["pending", "refused"] = "pending"
    reason: str = ""
    owner: str = ""
    worker: str = ""
    held: bool = False
    proposed_at: datetime | None = None


class ToolsDescribed(Message):
    """Found specs; names without one are missing. `held` names the version that holds a tool's calls.

    `owners` are who runs the workers that offer them.
    `doubts`, where proposals were asked for, is why somebody should look at tools that were accepted on trust.
    """

    tools: tuple[ToolSpec, ...]
    versions: dict[str, int] = Field(default_factory=dict)
    held: dict[str, int] = Field(default_factory=dict)
    proposals: tuple[ToolVersionProposal, ...] = ()
    doubts: dict[str, str] = Field(default_factory=dict)
    owners: dict[str, str] = Field(default_factory=dict)


class RaiseFence(Message):
    """Orchestrator to TAS: nothing of this run with an older fence may start any more."""

    run_id: UUID
    project: str
    fence: int
    reason: str = ""


class FencedCalls(Message):
    """What was voided and which claims still live."""

    run_id: UUID
    fence: int
    voided: tuple[UUID, ...] = ()
    live: tuple[UUID, ...] = ()
    unknown: tuple[UUID, ...] = ()


class SettleCall(Message):
    """A person's word on an unknown call."""

    project: str
    run_id: UUID
    execution_id: UUID
    verdict: Literal["happened", "did_not_happen", "retry"]
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    reason: str = ""


class AuditQuery(Message):
    """Search the audit. Times are inclusive; `before` pages backwards by entry id."""

    project: str
    run_id: UUID | None = None
    execution_id: UUID | None = None
    agent_key: str | None = None
    tool: str | None = None
    verdict: str | None = None
    phase: str | None = None
    actor: str | None = None
    args_digest: str | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    before: int | None = None
    limit: int = Field(default=100, ge=1, le=1_000)


class AuditEntry(MessagePart):
    """One audit entry; `erased` where its detail and the digest of its arguments are gone for good.

    `tool_version` is the version of the tool, as the registry counts, by which a call was decided or with which it
    ended; 0 in other entries, in those of earlier releases and in erased ones.
    """

    entry_id: int
    at: datetime
    project: str
    run_id: UUID | None = None
    execution_id: UUID | None = None
    phase: str
    verdict: str = ""
    tool: str = ""
    operation: str = ""
    network: str = ""
    agent_key: str = ""
    caller: str = ""
    actor: str = ""
    rule: str | None = None
    policy_version: int = 0
    args_digest: str = ""
    detail: JsonObject = Field(default_factory=dict)
    erased: bool = False
    tool_version: int = 0


class AuditPage(Message):
    """Audit entries, newest first, and `total` of those near the newest.

    A page is made from a bounded part of the audit, so it may have few entries or none and still `next_before`.
    """

    entries: tuple[AuditEntry, ...]
    next_before: int | None = None
    total: int = 0


class RecordAction(Message):
    """A service to TAS: somebody did something that is no call and belongs in the audit, before it takes effect.

    `action` is the entry's phase, such as `run.forked`. It is about what the orchestrator does: nobody but the
    tool-access service and the database say anything of calls, tools, policies, switches, keys and the log itself.
    What was asked for may be sent again: with `once`, an entry that the run got of the same action by the same actor
    within the last minute is the entry of this one too.
    """

    project: str
    action: str = Field(max_length=64, pattern=r"^(run|gate|budget|quota|dead_letter|network)\.[a-z_]+$")
    actor: str
    reason: str = Field(default="", max_length=2_000)
    run_id: UUID | None = None
    detail: JsonObject = Field(default_factory=dict)
    once: bool = False


class SettleToolProposal(Message):
    """A policy admin accepts or refuses a pending tool proposal, or withdraws a tool whose current version that is."""

    project: str
    name: str
    version: int
    accept: bool
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    reason: str = ""
    withdraw: bool = False

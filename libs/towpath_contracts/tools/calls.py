"""Messages about tools: what a tool is, asking for a call, running it, reporting it.

One tool call has one `execution_id` from the decision to the audit; arguments are compared by digest; whatever is
undeclared is the strictest (irreversible, untrusted).
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart, Name, Token, is_unset
from towpath_contracts.canonical import digest
from towpath_contracts.text import truncate
from towpath_contracts.tools.previews import PREVIEW_BYTES, OutputPreview
from towpath_contracts.tools.readers import OutputReaders, Path
from towpath_contracts.tools.reports import Reports
from towpath_contracts.tools.violations import DenialExplanation
from towpath_contracts.tools.workspace import MAX_FILES, FileChange, LostChangesReason

INLINE_RESULT_BYTES = PREVIEW_BYTES
"""A result up to this size travels in the message, a larger one as a blob: a quarter of what a prompt may hold."""

MAX_RESULT_BYTES = 16 * 1024 * 1024
"""The largest result a tool may return."""


class EffectClass(StrEnum):
    """What may be done about a call whose fate is unclear."""

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    RECONCILABLE = "reconcilable"
    IRREVERSIBLE = "irreversible"


ProbeWord = Literal["", "happened", "did_not_happen", "unclear", "failed"]
"""What a tool's probe found out about an earlier start: `failed` is a probe without an answer, empty is no probe."""


class ToolHazard(StrEnum):
    """What a call of a tool does that can't be taken back by another call; rules may hold it always."""

    DESTROY = "destroy"
    SPEND = "spend"
    CREDENTIALS = "credentials"


class ToolSpec(MessagePart):
    """A tool as its worker offers it.

    `parameters` is the JSON Schema of all arguments; `system_params` names those that a model never sees and may not
    set. `operation` is the word the matrix knows this call by. `has_probe` says that its worker can find
    out whether a call happened; a `reconcilable` tool without one is treated as irreversible. `discovered` says that
    nobody here wrote the tool: its worker found it (MCP), so only a rule that names it opens it.
    `definition` is then the digest of the whole definition that its server gave: another one holds the calls.

    `trusted_output` makes the whole result a system of record, `trusted_fields` only what stands at these paths of it.
    `sinks` are the paths of the arguments that say where something goes; None is undeclared: then every argument of a
    tool that is not `pure` counts as one. A path is names joined by dots, `*` is any name, lists are not counted, and
    it covers all beneath it. `readers` are who may know the result; empty is undeclared. `cost_usd` is what one call
    costs; budgets count it. `reports` is the declared shape of the result, by which a goal's progress is measured.
    `internal` tools are the platform's own: the run machine applies them, no worker does. `workspace` asks for the
    run's files in a folder: to `read`, or as a `scratch` copy whose changes come back with the outcome.
    """

    name: Name
    toolset: Token
    description: str = Field(default="", max_length=4_096)
    parameters: JsonObject = Field(default_factory=lambda: {"type": "object", "properties": {}})
    system_params: tuple[str, ...] = ()
    operation: str = Field(default="call", max_length=64)
    effect_class: EffectClass = EffectClass.IRREVERSIBLE
    timeout_ms: int = Field(default=30_000, ge=1, le=3_600_000)
    trusted_output: bool = False
    sensitive: bool = False
    polling: bool = False
    summary: str = Field(default="", max_length=256)
    has_probe: bool = False
    discovered: bool = False
    sinks: tuple[Path, ...] | None = Field(default=None, max_length=64)
    hazards: tuple[ToolHazard, ...] = ()
    trusted_fields: tuple[Path, ...] = Field(default=(), max_length=64)
    definition: str = Field(default="", max_length=128)
    cost_usd: float = Field(default=0.0, ge=0, le=1_000_000, exclude_if=lambda cost: cost == 0)
    reports: Reports = Field(default="", exclude_if=lambda shape: shape == "")
    internal: bool = Field(default=False, exclude_if=lambda internal: not internal)
    workspace: Literal["", "read", "scratch"] = Field(default="", exclude_if=lambda access: not access)
    readers: tuple[OutputReaders, ...] = Field(default=(), max_length=32, exclude_if=lambda parts: not parts)


class CallStatus(StrEnum):
    """States of a call in the ledger."""

    REQUESTED = "requested"
    DENIED = "denied"
    AWAITING_APPROVAL = "awaiting_approval"
    PERMITTED = "permitted"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    VOID = "void"


class ToolFailure(MessagePart):
    """Why a call has no result. `code` is stable; `hint` is shown to the model.

    `uncertain` says that the call was cut off in the middle and may have happened all the same. `began` is set by
    the platform alone, never by a tool: False where this start has certainly done nothing (its function was not
    called, or its probe found nothing of it); None where it is not known, as before the field existed. `place` is the
    line of a tool's file that raised, `orders.py:14`, for people: a model can't read that file, and would get another
    prompt whenever a line moves.
    """

    code: str
    message: str
    retryable: bool = False
    hint: str = ""
    external: bool = False
    uncertain: bool = False
    began: bool | None = None
    place: str = ""

    def for_people(self, most: int = 0) -> str:
        """Return the message, of which at most *most* characters are kept (0: all), and the place behind it."""
        message = truncate(self.message, most) if most else self.message
        return f"{message} ({self.place})" if self.place else message


class UnknownCallEvidence(MessagePart):
    """What the ledger knows of an `unknown` call, for the person who has to settle it.

    Times are Postgres's; `worker`, `claimed_at` and `lease_until` are of the newest start that was granted. If the
    database was restored from a backup, `lost_since` is when what it does not know began.
    """

    worker: str = ""
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    starts: int = 0
    probe: ProbeWord = ""
    lost_since: datetime | None = None


class AlternativeTool(MessagePart):
    """Something else that the refused agent may really do under its grants; `conditional` where arguments decide."""

    tool: str
    operation: str = "call"
    verdict: Literal["allow", "require_approval"] = "allow"
    conditional: bool = False
    why: str = ""


class Specialist(MessagePart):
    """An agent of the network that has the right which was refused; `reachable` where a route leads there at once."""

    agent_key: str
    verdict: Literal["allow", "require_approval"] = "allow"
    conditional: bool = False
    reachable: bool = False
    why: str = ""


class DenialEscalation(MessagePart):
    """Which person could open what was refused: an `approver` for one call, a `policy_admin` by another rule.

    The role is empty where no person can: the task's own grant, or the arguments, stand against it.
    """

    role: Literal["", "approver", "policy_admin"] = ""
    rule: str | None = None
    why: str = ""


class Denial(MessagePart):
    """Why the tool-access service refused, and what would be allowed.

    The rungs of the ladder in their order: `alternatives`, best first, then `specialists`, then a person
    (`escalation`). `allowed_tools` are the names of the alternatives. `tool` is what was refused, as a run is told it;
    denials of earlier releases do not name it. `explanation` is for people alone.
    """

    violation_type: str
    reason: str
    rule: str | None = None
    allowed_tools: tuple[str, ...] = ()
    suggestion: str = ""
    alternatives: tuple[AlternativeTool, ...] = ()
    specialists: tuple[Specialist, ...] = ()
    escalation: DenialEscalation | None = None
    tool: str = Field(default="", exclude_if=lambda tool: not tool)
    explanation: DenialExplanation | None = Field(default=None, exclude_if=is_unset)

    def model_view(self) -> JsonObject:
        """Return what a model is told: no explanation, which has rules of others, and would teach it the policy."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude={"explanation"})

    def told(self) -> str:
        """Return what people are told, in a sentence or two."""
        if self.explanation is None:
            return self.reason
        return " ".join(filter(None, (self.explanation.detail, self.explanation.remedy)))


class ToolRequest(Message):
    """Orchestrator to TAS: may this call happen, and if so, let it happen.

    `grants` is the chain of grants that the run stands under, outermost first, the task's own last: every one must let
    the call through. `grant` is the task's own alone, as messages of before have it; a reader obeys both.
    `root_run_id` is that of the run which a caller submitted, in a run that is below it: limits of a run count for it
    and all below it together; for a fork that shares them they count for `counts_run_id`. `spent_usd` is what the run
    and its ended children have cost, with what runs above it had when it was born. `trace_id` is the caller's trace,
    where the run belongs to one. `system_params` names the arguments that the platform filled in, from the task.
    """

    execution_id: UUID
    run_id: UUID
    project: Token
    network: str
    snapshot_digest: str
    agent_key: str
    agent_type: str = ""
    caller: str = "anonymous"
    step: int
    call_index: int
    tool: str
    operation: str = "call"
    toolset: str
    args: JsonObject
    fence: int
    attempt: int = 1
    deadline: datetime
    grant: tuple[JsonObject, ...] | None = None
    grants: tuple[tuple[JsonObject, ...], ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    spent_usd: float | None = None
    workspace: str = Field(default="", exclude_if=lambda digest: not digest)
    root_run_id: UUID | None = Field(default=None, exclude_if=is_unset)
    trace_id: UUID | None = Field(default=None, exclude_if=is_unset)
    counts_run_id: UUID | None = Field(default=None, exclude_if=is_unset)
    system_params: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)


class ToolInvocation(Message):
    """TAS to worker: run this call. The worker believes the ticket, not this envelope.

    `workspace` is the digest of the list of files that the tool works with, for one that asks for them; the worker gets
    them by its ticket. `root_run_id` is that of the run which a caller submitted, in a run that is below it: what is
    traced belongs to its trace, or to the caller's, `trace_id`, where there is one. `run` is a CallingRun, as JSON: the
    ticket has the digest of all of it, also of what only a newer service says.
    """

    execution_id: UUID
    attempt: int
    run_id: UUID
    project: Token
    toolset: Token
    tool: str
    args: JsonObject
    effect_class: EffectClass
    timeout_ms: int
    ticket: str
    workspace: str = Field(default="", exclude_if=lambda digest: not digest)
    root_run_id: UUID | None = Field(default=None, exclude_if=is_unset)
    trace_id: UUID | None = Field(default=None, exclude_if=is_unset)
    run: JsonObject | None = Field(default=None, exclude_if=is_unset)

    @property
    def run_digest(self) -> str:
        """The digest of `run`; empty where there is none."""
        return "" if self.run is None else digest(self.run)


class ClaimStart(Message):
    """Worker to TAS, before anything that is not pure: may I start now?"""

    execution_id: UUID
    run_id: UUID
    claim_id: UUID
    attempt: int
    worker: str
    ticket: str


class ClaimAnswer(Message):
    """TAS's answer: granted with a time to start in and a lease, or refused with the reason.

    `probe` says that an earlier start was granted whose outcome is not known. `required`: the tool runs only if its
    probe says that it did not happen. `preferred`, after a person's `retry`: it runs unless the probe says it happened.
    `claim_id` names the question, so that an answer which went astray starts nothing; None from older services.
    """

    granted: bool
    claim_id: UUID | None = None
    reason: str = ""
    start_by_ms: int = 0
    lease_ms: int = 0
    probe: Literal["", "required", "preferred"] = ""


class ToolOutcome(Message):
    """Worker to TAS: what came of a delivery. `probe` is what the tool's probe answered, where it was asked.

    `late` marks what a call came to after it was reported as cut off: another outcome, confirmed by itself. `changes`
    are those that a tool made to its scratch copy of the workspace; `changes_lost` says why there are none to take.
    `preview` is what prompts show of a result in the blob store: it is made once, and recorded.
    """

    execution_id: UUID
    run_id: UUID
    attempt: int
    claim_id: UUID | None = None
    tool: str
    status: Literal["succeeded", "failed", "ticket_expired"]
    result: Any = None
    result_digest: str | None = None
    result_bytes: int = 0
    blob: bool = False
    preview: OutputPreview | None = Field(default=None, exclude_if=is_unset)
    failure: ToolFailure | None = None
    duration_ms: int = 0
    worker: str = ""
    ticket: str = ""
    probe: ProbeWord = ""
    late: bool = False
    changes: tuple[FileChange, ...] = Field(default=(), max_length=MAX_FILES, exclude_if=lambda found: not found)
    changes_lost: LostChangesReason | None = Field(default=None, exclude_if=is_unset)

    @property
    def key(self) -> str:
        """The name under which the worker holds this outcome until it is confirmed."""
        return outcome_key(self.execution_id, self.attempt, late=self.late)


def outcome_key(execution_id: UUID, attempt: int, *, late: bool = False) -> str:
    """Return `execution_id:attempt`, and `:late` after it for what came after the first outcome."""
    return f"{execution_id}:{attempt}{':late' if late else ''}"


class OutcomeConfirmed(Message):
    """TAS to worker: the ledger holds these outcomes; forget them. `keys` are as `outcome_key` makes them."""

    keys: tuple[str, ...]


class CancelTool(Message):
    """TAS to workers: stop this call if you run it."""

    execution_id: UUID
    reason: str = "cancelled"


class BlobChunk(Message):
    """One piece of a blob, at most 256 KiB before base64; the last one completes it."""

    digest: str
    index: int
    total: int
    data_base64: str
    ticket: str = ""
    execution_id: UUID | None = None


class GetBlobChunk(Message):
    """Ask for one piece of a blob that the asker's request named; `project` is in whose turn."""

    digest: str
    index: int = 0
    run_id: UUID | None = None
    project: str = ""

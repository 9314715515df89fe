"""The rows of commands that ask about runs, gates, tools and policy, and print no message as it is."""

from datetime import datetime
from typing import Any, Literal, NotRequired
from uuid import UUID

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from towpath_contracts.base import JsonObject
from towpath_contracts.runs.views import GateView
from towpath_contracts.switches import ActiveSwitch
from towpath_contracts.tools.access import AuditEntry
from towpath_contracts.tools.calls import ToolSpec


class GateDecisionRow(TypedDict):
    """What was decided at a gate."""

    gate_id: UUID
    run_id: UUID
    verdict: str
    detail: str


class GateBulkRow(GateDecisionRow):
    """What became of one of many gates; `code` says why it was not decided."""

    code: str


class ListedGates(TypedDict):
    """Gates, and the name of this list, by which all of them are decided; it is empty where none matches."""

    gates: list[GateView]
    listed: str


class RetriedNoticeRow(TypedDict):
    """A notice that is sent once more."""

    notice_id: UUID
    detail: str


class SwitchRow(TypedDict):
    """A switch that was set; `warning`, of `pause`, says that nothing of today is meant by the name."""

    kind: str
    name: str
    now: Literal["paused", "open"]
    changed: bool
    stopping: int
    switch: ActiveSwitch | None
    warning: NotRequired[str]


class BudgetAccountFields(TypedDict):
    """Whose account it is that a unit belongs to, and how much of what was spent is an estimate."""

    scope: str
    key: str
    set_by: str
    estimated_share: float


class QuotaRow(TypedDict):
    """One limit of the project and what is used of it; `frees_at` is null where runs have to end first."""

    name: str
    limit: int
    used: int
    frees_at: str | None
    set_by: str


class ExportedAuditRow(TypedDict):
    """The bundle that was written."""

    file: str
    lines: int


class ProofFileRow(TypedDict):
    """The proof that was written, where --file names a file."""

    file: str
    entries: int
    leaves: int


class ExplainedDecisionRow(TypedDict):
    """A decision and the rule as it stood then; null where there is none."""

    decision: AuditEntry
    rule: dict[str, Any] | None


class ProfileRow(TypedDict):
    """A profile of policies."""

    profile: str
    about: str


class SuggestedDeclarationsRow(TypedDict):
    """What each tool should declare, by its name."""

    tools: dict[str, dict[str, Any]]


class ToolVersionFields(TypedDict):
    """The version of a tool that is accepted, and the one that holds its calls."""

    version: int | None
    held_by: int | None


class ToolProposalRow(TypedDict):
    """A version of a tool that nobody has looked at."""

    spec: ToolSpec
    version: int | None
    status: Literal["pending", "refused", "accepted"]
    reason: str
    held: bool
    worker: str
    digest: NotRequired[str]
    owner: NotRequired[str]
    proposed_at: NotRequired[datetime | None]


class ToolChangeRow(TypedDict):
    """What a version that waits changes in the accepted one, as lines of `diff -u`."""

    tool: str
    version: int
    was: int | None
    why: str
    changes: list[str]


class DecidedToolRow(TypedDict):
    """A version of a tool that was accepted or refused."""

    tool: str
    version: int
    accepted: bool


class WithdrawnToolRow(TypedDict):
    """A tool that was taken out of the project."""

    tool: str
    version: int
    withdrawn: bool


class AskedCallFields(TypedDict):
    """The call that the policy was asked about."""

    network: str
    agent_key: str
    tool: str
    args: dict[str, Any]


class CheckedPlanRow(TypedDict):
    """A plan without faults."""

    valid: bool
    steps: int
    network: str | None


class GraphRow(TypedDict):
    """A drawing of a network."""

    format: str
    graph: str


class PromptRow(TypedDict):
    """The prompt that an agent would get in its first step."""

    prompt: str


class RunIdField(TypedDict):
    """The run that it is about."""

    run_id: UUID


class NextField(TypedDict):
    """What to do next."""

    next: str


class PrunedRunsRow(TypedDict):
    """What goes of the runs that ended before a time: how many, about how many bytes, and why families are `kept`."""

    before: str
    runs: int
    families: int
    bytes: int
    kept: dict[str, int]
    pruned: int
    next: str


class FileTextRow(TypedDict):
    """A file of a run; `version` is the one that was asked for, null for the newest."""

    path: str
    version: int | None
    content: str


class WorkspaceDiffRow(TypedDict):
    """What a run wrote, as `diff -u` does, and the files that it deleted."""

    diff: str
    deleted: list[Any]


class ExportedFilesRow(TypedDict):
    """The files of a run that were written into a folder."""

    folder: str
    files: list[str]


class TestResultRow(TypedDict):
    """How many tests passed and failed, and the figures of each file."""

    passed: int
    failed: int
    files: list[dict[str, Any]]


class PolicyTestRow(TypedDict):
    """How many verdicts are not as expected, and the result of each case."""

    matrix: str
    cases: int
    failed: int
    results: list[dict[str, Any]]


@with_config(ConfigDict(extra="allow"))
class PolicyRuleRow(TypedDict):
    """A rule of the matrix, with those of its members that say something, as `towpath schema policy` has them."""

    name: str
    effect: str


class RecordHeadRow(TypedDict):
    """The first line of a run's record: whose it is, and the network as it was published."""

    towpath_record: int
    run_id: UUID
    network: str
    version: int
    status: str
    reason: str | None
    snapshot: JsonObject | None


class RecordFactRow(TypedDict):
    """A fact as it is stored, and the first event that came of it."""

    fact: JsonObject
    first_seq: int
    at: datetime
    engine_version: str


class RecordEventRow(TypedDict):
    """An event as it is stored."""

    event: JsonObject
    seq: int
    at: datetime


class ClientSubjectRow(TypedDict):
    """A subject that a program asks or hears: the message that it takes and the one that answers, by their names."""

    subject: str
    request: str
    answer: str
    does: str


class ClientSubjectsRow(TypedDict):
    """What a program may ask and hear as *caller*; `nats_url` is the broker of the platform in this folder."""

    caller: str
    nats_url: str | None
    subjects: list[ClientSubjectRow]

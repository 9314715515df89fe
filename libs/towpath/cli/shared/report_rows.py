"""The rows of commands that report on what they did or compared: the demo, campaigns, evaluations, backups, records."""

from datetime import datetime
from typing import Any, Literal, NotRequired
from uuid import UUID

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from towpath_contracts.base import JsonObject
from towpath_contracts.runs.views import RunView


class DemoRow(TypedDict):
    """What the platform holds of the demo's run, and the seconds since the demo began; `total_s` once it is stopped."""

    model: str
    run_id: UUID
    status: str
    answer: Any
    steps: int
    approvals: int
    audit_entries: int
    history_steps: int
    tool_calls: int
    ready_s: float
    finished_s: float
    recorded_s: float
    total_s: NotRequired[float]


class KilledProcessRow(TypedDict):
    """A process that was killed, and the one in its place."""

    killed_pid: int
    started_pid: int
    away_s: float


class CrashFields(TypedDict):
    """What was killed in the middle of the demo, and how often each tool was called before and after together."""

    orchestrator: KilledProcessRow
    calls: dict[str, int]
    refunds: int


class FaultNamesRow(TypedDict):
    """The faults that a campaign may have."""

    faults: list[str]


class RecoveryRow(TypedDict):
    """Seconds from a strike to the next event of the run; null where nothing was struck."""

    p50: float | None
    p99: float | None
    max: float | None


class StrikeRow(TypedDict):
    """How often something was struck, and what came of it."""

    strikes: int
    lost: int
    duplicates: int
    unknown: int
    recovery_s: RecoveryRow


class UnknownCallRow(TypedDict):
    """A call whose outcome was unknown, and how a person resolved it."""

    where: str
    claimed_by: NotRequired[str]
    run_id: str
    execution_id: str
    effect_class: str
    why: str
    verdicts: list[str]
    happened: int
    strikes: list[str]


class CampaignRow(TypedDict):
    """What a campaign found; it has passed where `problems` is empty."""

    seed: int
    networks: list[str]
    versions: dict[str, str]
    cores: int | None
    load: dict[str, float]
    seconds: float
    phases_s: dict[str, float]
    strikes: int
    kills: int
    by_fault: dict[str, StrikeRow]
    by_boundary: dict[str, StrikeRow]
    matrix: dict[str, dict[str, StrikeRow]]
    runs: int
    completed: int
    completed_share: float
    lost: int
    duplicates: int
    audit_holes: int
    orphans: int
    double: int
    diff: int
    late: int
    strayed: int
    differing: int
    replay_mismatches: int
    unknown: list[UnknownCallRow]
    unknown_by_cause: dict[str, int]
    gates: dict[str, int]
    effects: int
    repeats: int
    dead_letters: int
    timeouts: int
    recovery_s: RecoveryRow
    findings: dict[str, list[str]]
    problems: list[str]


class ScenarioRow(TypedDict):
    """How a scenario went: what it counted, what did not hold, and why it could not run here."""

    number: int
    name: str
    outcome: Literal["passed", "failed", "cannot run here"]
    figures: dict[str, int | float | str | bool | None]
    problems: list[str]
    reason: str
    seconds: float


class ScenariosRow(TypedDict):
    """The scenarios that were run."""

    seed: int
    versions: dict[str, str]
    scenarios: list[ScenarioRow]


class EvaluationTotals(TypedDict):
    """How runs of an evaluation went together; `usd` is null where the price of one of them is not known."""

    model: str
    runs: int
    passed: int
    pass_rate: float
    usd: float | None
    tokens: int
    seconds: float


class CaseTotals(EvaluationTotals):
    """The same of one case of one suite."""

    suite: str
    case: str


class EvaluatedRunRow(TypedDict):
    """One run of a case; of one that could not be started only what is always there."""

    suite: str
    case: str
    line: int
    model: str
    attempt: int
    labels: dict[str, str]
    status: str
    text: str
    usd: float | None
    tokens: int
    steps: int
    seconds: float
    passed: bool
    failures: list[str]
    run_id: NotRequired[UUID]
    reason: NotRequired[str]
    message: NotRequired[str]
    output: NotRequired[Any]
    agents: NotRequired[list[str]]
    calls: NotRequired[list[JsonObject]]
    gates: NotRequired[list[JsonObject]]


class EvaluationRow(TypedDict):
    """What an evaluation found; `ok` where the part of all runs that has to pass did."""

    runs: int
    passed: int
    pass_rate: float
    min_pass: float
    ok: bool
    models: list[EvaluationTotals]
    cases: list[CaseTotals]
    results: list[EvaluatedRunRow]


class BackupRow(TypedDict):
    """The file that was written, and what belongs to the platform and is not in it."""

    file: str
    bytes: int
    made_at: datetime
    unfinished_runs: int
    keep_apart: list[str]


class RestoreRow(TypedDict):
    """What was put back, and what was marked in it."""

    file: str
    lost_since: datetime
    marked_runs: int
    open_calls: int
    projects: int
    broker_emptied: bool


class ComparedStepRow(TypedDict):
    """A step of a run, as it is compared."""

    number: int
    agent: str | None
    what: str
    cost_usd: Any
    tokens: int | None
    duration_ms: int | None


class StepChangeRow(TypedDict):
    """A value that differs, as it is written; null where a run has no such value."""

    name: str
    a: str | None
    b: str | None


class ComparedStepsRow(TypedDict):
    """Steps of two runs that were aligned; one that only one of them has stands alone, and `kind` names its run."""

    kind: Literal["same", "unequal", "a", "b"]
    changes: list[StepChangeRow]
    a: NotRequired[ComparedStepRow]
    b: NotRequired[ComparedStepRow]


class ComparedRunsRow(TypedDict):
    """Two runs side by side; `complete` where all steps of both were compared."""

    a: RunView
    b: RunView
    rows: list[ComparedStepsRow]
    complete: bool


class AuditPlaceRow(TypedDict):
    """An entry of the audit."""

    entry_id: int
    phase: str
    verdict: str


class TracedCallRow(TypedDict):
    """A call, with the entries that the audit has of it; `duration_ms` is what its worker took."""

    execution_id: UUID
    tool: str
    status: str
    worker: str | None
    requested_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    audit: list[AuditPlaceRow]


class TracedStepRow(TypedDict):
    """A step, and what of its time models took to decide."""

    step: int
    agent: str | None
    began_at: datetime
    ended_at: datetime | None
    duration_ms: int | None
    deciding_ms: int
    calls: list[TracedCallRow]


class TracedRunRow(TypedDict):
    """A run, its trace, its steps and its audit; `missing` is what one record has and another lacks.

    `unknown` is what can't be told, because the audit may have dropped it or was not read whole.
    """

    run_id: UUID
    network: str
    version: int
    status: str
    trace_id: str
    seq: int
    recorded_seq: int
    audit_entries: int
    steps: list[TracedStepRow]
    missing: list[str]
    unknown: list[str]


class RunHistoryRow(TypedDict):
    """What the log-writer recorded of a run, column by column; `history` is null before it has begun."""

    history: JsonObject | None
    steps: list[JsonObject]


class ChangedLineRow(TypedDict):
    """A line of a text that differs."""

    sign: Literal["+", "-", " ", "…"]
    text: str


class DefinitionChangeRow(TypedDict):
    """A member that differs: both values as they are written, or of a long text the lines around what differs."""

    kind: Literal["added", "removed", "changed"]
    part: str
    member: str
    before: str
    after: str
    lines: list[ChangedLineRow]


NetworkDiffRow = TypedDict(
    "NetworkDiffRow",
    {"network": str, "from": int, "to": int, "changes": list[DefinitionChangeRow], "left_out": int},
)
"""What differs between two versions of a network."""


class InspectedToolRow(TypedDict):
    """A tool that an MCP server offers, and how it stands to what was accepted; "" where no platform was asked."""

    server: str
    tool: str
    standing: Literal["", "new", "accepted", "drifted", "refused"]
    effect_class: str | None
    operation: str | None
    definition: str | None
    hints: JsonObject
    notes: list[str]
    description: str | None
    spec: NotRequired[JsonObject]
    output_schema: NotRequired[JsonObject | None]


class AuditFaultRow(TypedDict):
    """What is wrong in a bundle, and where."""

    code: str
    message: str
    place: str
    line: int | None
    leaf: int | None
    last_leaf: int | None
    entry_id: int | None


class VerificationRow(TypedDict):
    """Whether a bundle or a proof holds; its faults are in the order of the log."""

    holds: bool
    faults: list[AuditFaultRow]
    notes: list[str]
    figures: JsonObject


@with_config(ConfigDict(extra="allow"))
class ReplayTotalsRow(TypedDict):
    """The last line of a replay of many runs; beside it a count for each other verdict that was found."""

    runs: int
    events: int
    identical: int
    engine_version: str


class WatchedGateFields(TypedDict):
    """What came about at a gate."""

    event: Literal["opened", "voted", "closed"]

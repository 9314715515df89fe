"""What each command prints for a program: the messages and rows of its documents, and the commands that print none.

A command that prints another document than it says here fails the tests that run it. What is published of this is
made by `output_schemas`.
"""

from typing import Any, NamedTuple

from towpath.cli.shared import administration_rows as machine
from towpath.cli.shared import output_rows as rows
from towpath.cli.shared import report_rows as reports
from towpath.tools.declaration_lint import DeclarationGap
from towpath_contracts import budgets, dead_letters, gate_notices, switches
from towpath_contracts.events.log import LogEntry
from towpath_contracts.grant_proposals.proposals import GrantProposal
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.runs import bulk, costs, records, views
from towpath_contracts.runs.run_control import RunSteered
from towpath_contracts.runs.tree import RunTreeNode
from towpath_contracts.tasks import RunAccepted
from towpath_contracts.tools import access, audit, calls, erasures, policy, queues, workers, workspace
from towpath_readings.execution_log import RunLogView
from towpath_readings.goals import GoalView
from towpath_readings.plans import PlanView
from towpath_readings.stream.tree import TreeEntry


class OutputForm(NamedTuple):
    """A form of a command's document: an object, or with *name* an object whose member of that name is a list of it.

    *also* has fields that stand beside those of *kind*; *left_out* are those of *kind* that aren't printed.
    """

    kind: Any
    name: str = ""
    also: Any = None
    left_out: frozenset[str] = frozenset()


def _one(kind: Any, *, also: Any = None, left_out: tuple[str, ...] = ()) -> tuple[OutputForm, ...]:
    return (OutputForm(kind, "", also, frozenset(left_out)),)


def _list(name: str, kind: Any, *, also: Any = None, left_out: tuple[str, ...] = ()) -> tuple[OutputForm, ...]:
    return (OutputForm(kind, name, also, frozenset(left_out)),)


_RUN = _one(views.RunView)
_STEERED = _one(RunSteered, also=rows.RunIdField)
_NETWORK = {"left_out": ("snapshot", "spec")}
_DECIDED = _one(rows.GateDecisionRow)
_ERASURE = _one(erasures.ErasureView)
_CONTEXT = _one(machine.ContextRow, also=machine.ContextFileField)
_SETTLED = _one(views.ActionDone, left_out=("schema_version",))
_APPLIED = _one(access.PolicyApplied)
_GRANT = _one(GrantProposal)
_DEMO = _one(reports.DemoRow)
_FOLLOWED = _one(LogEntry) + _one(TreeEntry)
_WORKERS = _list("credentials", machine.WorkerCredentialRow)
_AGENTS = _list("credentials", machine.AgentCredentialRow)
_CLIENTS = _list("credentials", machine.ClientCredentialRow)
_BUDGETS = _list("budgets", budgets.BudgetUnitBalance, also=rows.BudgetAccountFields)

FORMS: dict[str, tuple[OutputForm, ...]] = {
    "init": _one(machine.CreatedProjectRow),
    **dict.fromkeys(("new agent", "new network", "new tool", "new policy"), _one(machine.WrittenFilesRow)),
    "test": _one(rows.TestResultRow),
    "eval": _one(reports.EvaluationRow),
    "run": _RUN + _one(RunAccepted) + _FOLLOWED,
    "runs list": _list("runs", views.RunView),
    "runs show": _RUN,
    "runs cancel": _RUN,
    "runs watch": _FOLLOWED + _RUN,
    "runs replay": _one(records.ReplayResult) + _one(reports.ReplayTotalsRow),
    "runs diff": _one(reports.ComparedRunsRow),
    "runs history": _one(reports.RunHistoryRow),
    "runs export": _one(rows.RecordHeadRow) + _one(rows.RecordFactRow) + _one(rows.RecordEventRow),
    "runs tree": _one(RunTreeNode),
    "runs events": _list("events", LogEntry),
    "runs log": _one(RunLogView),
    "runs fork": _one(RunAccepted),
    "runs erase": _ERASURE,
    **dict.fromkeys(("runs pause", "runs resume", "runs note", "runs gate", "runs confidence"), _STEERED),
    "runs bulk": _one(bulk.BulkSelection, also=rows.NextField) + _list("runs", bulk.BulkResult),
    "runs prune": _one(rows.PrunedRunsRow),
    "runs retry": _one(bulk.BulkResult),
    "runs goal": _one(GoalView),
    "plans check": _one(rows.CheckedPlanRow),
    "plans show": _one(PlanView),
    "gates list": _list("gates", views.GateView),
    "gates show": _one(views.GateView),
    **dict.fromkeys(("gates approve", "gates deny", "gates resolve"), _DECIDED),
    "gates bulk": _one(rows.ListedGates) + _list("gates", rows.GateBulkRow),
    "gates watch": _one(views.GateView, also=reports.WatchedGateFields),
    "gates delegate": _one(views.GateView),
    "gates notices": _list("notices", gate_notices.GateNoticeDelivery) + _one(rows.RetriedNoticeRow),
    "networks validate": _one(NetworkVersion, **_NETWORK),
    "networks publish": _list("networks", NetworkVersion, **_NETWORK),
    "networks list": _list("networks", NetworkVersion, **_NETWORK),
    "networks show": _one(NetworkVersion),
    "networks rollback": _one(NetworkVersion, **_NETWORK),
    "networks diff": _one(reports.NetworkDiffRow),
    "networks graph": _one(rows.GraphRow),
    "networks prompt": _one(rows.PromptRow),
    "networks invoke": _RUN,
    "policy apply": _APPLIED,
    "policy rollback": _APPLIED,
    "policy check": _one(access.AccessVerdict),
    "policy permissions": _list("permissions", access.ToolPermission),
    "policy show": _one(access.PolicyView),
    "policy versions": _one(policy.PolicyVersions),
    "policy log": _one(policy.PolicyChangeLog),
    "policy explain": _one(rows.ExplainedDecisionRow),
    "policy diff": _one(policy.PolicyImpact),
    "policy shadow": _one(policy.ShadowView),
    "policy test": _one(rows.PolicyTestRow),
    "policy suggest": _one(rows.SuggestedDeclarationsRow),
    "policy profiles list": _list("profiles", rows.ProfileRow),
    "policy rule show": _one(rows.PolicyRuleRow),
    "policy rule put": _one(policy.RuleChanged),
    "policy rule remove": _one(policy.RuleChanged),
    **dict.fromkeys(("grants from-network", "grants from-plan", "grants from-runs", "grants propose"), _GRANT),
    "workspace ls": _one(workspace.WorkspaceView),
    "workspace cat": _one(rows.FileTextRow),
    "workspace diff": _one(rows.WorkspaceDiffRow),
    "workspace export": _one(rows.ExportedFilesRow),
    "switches list": _list("switches", switches.ActiveSwitch),
    "switches pause": _one(rows.SwitchRow),
    "switches resume": _one(rows.SwitchRow),
    **dict.fromkeys(("budgets show", "budgets set", "budgets lift"), _BUDGETS),
    **dict.fromkeys(
        ("projects quota show", "projects quota set", "projects quota lift"), _list("quotas", rows.QuotaRow)
    ),
    "costs": _list("costs", costs.NamedCost) + _list("costs", costs.DayCost),
    "tools call": _RUN + _one(access.AccessVerdict, also=rows.AskedCallFields),
    "tools list": _list("tools", calls.ToolSpec),
    "tools show": _one(calls.ToolSpec, also=rows.ToolVersionFields),
    "tools lint": _list("gaps", DeclarationGap),
    "tools proposals": _list("proposals", rows.ToolProposalRow),
    "tools diff": _one(rows.ToolChangeRow),
    "tools accept": _one(rows.DecidedToolRow),
    "tools refuse": _one(rows.DecidedToolRow),
    "tools withdraw": _one(rows.WithdrawnToolRow),
    "audit search": _one(access.AuditPage),
    "audit show": _one(access.AuditEntry),
    "audit stats": _one(policy.ToolCallStatistics),
    "audit export": _one(rows.ExportedAuditRow),
    "audit verify": _one(reports.VerificationRow),
    "audit prove": _one(rows.ProofFileRow),
    "audit checkpoint": _one(audit.CheckpointView),
    "audit erase": _ERASURE,
    "erasures list": _list("erasures", erasures.ErasureView),
    **dict.fromkeys(("erasures show", "erasures confirm", "erasures withdraw"), _ERASURE),
    "queues list": _one(queues.QueueList),
    "queues lag": _list("queues", queues.QueueState),
    "queues dead list": _list("letters", dead_letters.DeadLetter, left_out=("body",)),
    "queues dead show": _one(dead_letters.DeadLetter),
    "queues dead requeue": _SETTLED,
    "queues dead discard": _SETTLED,
    "context add": _CONTEXT,
    "context show": _CONTEXT,
    "context select": _CONTEXT + _one(machine.NoContextRow),
    "context list": _list("contexts", machine.ContextRow),
    "context remove": _one(machine.RemovedContextRow),
    "config show": _list("settings", machine.SettingRow),
    "keys create": _one(machine.KeyRow),
    "keys list": _list("keys", machine.KeyRow),
    "keys revoke": _one(machine.RevokedKeyRow),
    "keys ticket": _one(machine.KeyFileRow),
    "keys seal": _one(machine.KeyFileRow),
    "keys nkey": _one(machine.KeyFileRow, also=machine.PublicKeyRow),
    "db migrate": _list("migrations", machine.MigrationRow),
    "db plan": _list("migrations", machine.PlannedMigrationRow),
    "db status": _list("migrations", machine.MigrationRow),
    "db restored": _one(machine.RestoredRow),
    "upgrade check": _list("checks", machine.CheckRow),
    "streams ensure": _list("streams", machine.StreamRow),
    **dict.fromkeys([f"workers credential {word}" for word in ("list", "add", "remove")], _WORKERS),
    "workers list": _list("workers", workers.WorkerInstance),
    "workers drain": _one(workers.WorkerInstance, also=machine.DrainedFields),
    **dict.fromkeys([f"agents credential {word}" for word in ("list", "add", "remove")], _AGENTS),
    **dict.fromkeys([f"clients credential {word}" for word in ("list", "add", "remove")], _CLIENTS),
    "clients subjects": _one(rows.ClientSubjectsRow),
    "mcp inspect": _list("tools", reports.InspectedToolRow),
    "mcp add": _one(machine.AddedServerRow),
    "mcp config": _one(machine.EditorSettingsRow),
    "a2a card": _one(machine.AgentCardRow),
    "backup": _one(reports.BackupRow),
    "restore": _one(reports.RestoreRow),
    "demo": _DEMO,
    "demo run": _DEMO,
    "demo crash": _one(reports.DemoRow, also=reports.CrashFields),
    "demo flood": _one(machine.FloodRow),
    "chaos": _one(reports.CampaignRow) + _one(reports.FaultNamesRow) + _one(reports.ScenariosRow),
    "up": _one(machine.ReadyPlatformRow),
    "completion install": _one(machine.CompletionRow),
    "logs": _list("lines", machine.LogLineRow) + _one(machine.LogLineRow),
    "doctor": _list("checks", machine.CheckRow),
    "doctor trace": _one(reports.TracedRunRow),
    "schema": _list("kinds", machine.SchemaKindRow) + _list("written", machine.PathRow) + _one(machine.JsonSchemaFile),
    "explain": _list("problems", machine.ProblemRow) + _one(machine.ProblemRow, also=machine.ProblemExampleRow),
    "version": _one(machine.VersionRow),
    "down": _one(machine.StoppedPlatformRow),
}
"""The forms of the document that `-o json` prints, by command; of one that prints lines each line has one of them."""

_NO_JSON = "prints no JSON"
_A_PROGRAM = "runs until it is stopped"

WITHOUT_SCHEMA: dict[str, str] = {
    **dict.fromkeys(("worker", "serve", "mcp serve", "agents serve"), _A_PROGRAM),
    **dict.fromkeys(("completion show", "policy profiles show", "streams authority"), _NO_JSON),
    "api": "prints what the operation answers, as openapi.json has it",
    "runs output": "prints what the tool has returned, as the tool declares it",
}
"""Commands whose output has no schema, each with the reason."""

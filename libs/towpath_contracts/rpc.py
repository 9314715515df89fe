"""Every request/reply method between services, with its types.

An answer is the declared type, or a Problem; a Problem is marked by the header `Towpath-Problem: <code>`, so that
a reader need not guess from the body.
"""

from typing import NamedTuple

from towpath_contracts import agents, budgets, dead_letters, gate_notices, switches, tasks
from towpath_contracts.base import Message
from towpath_contracts.decisions import model_checks
from towpath_contracts.decisions import request as decisions_request
from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.grant_proposals import proposals
from towpath_contracts.networks import spec
from towpath_contracts.runs import bulk, costs, forks, gate_delegations, idle_runs, records, run_control, tree, views
from towpath_contracts.tools import (
    access,
    audit,
    calls,
    erasures,
    internal_outcomes,
    policy,
    queues,
    retention,
    workers,
)

PROBLEM_HEADER = "Towpath-Problem"
REPEAT_HEADER = "Towpath-Repeat"
"""On a request that is sent again on the same reply subject: which try it is, from 2."""
CONFIRM_HEADER = "Towpath-Confirm"
"""On `tool.outcome`: the subject on which the worker waits for OutcomeConfirmed."""
OUTCOME_HEADER = "Towpath-Outcome"
"""On `tool.outcome`: its key (`outcome_key`), a space, and its ticket. An outcome that ended the service each time it
was read is confirmed by this."""


class RpcMethod(NamedTuple):
    """One method: who answers, what it takes, what it gives.

    `repeatable`: a request may be handled twice, also by two replicas at once and with others between, and does then
    what it does once; nothing is audited twice. A caller sends it again when no answer comes. Not so what takes seconds
    by itself.
    """

    service: str
    method: str
    request: type[Message]
    answer: type[Message]
    repeatable: bool = False

    @property
    def subject(self) -> str:
        """The subject it is asked on."""
        return f"svc.{self.service}.{self.method}"


GET_RUN = RpcMethod("orchestrator", "get_run", views.GetRun, views.RunView, repeatable=True)
LIST_RUNS = RpcMethod("orchestrator", "list_runs", views.ListRuns, views.RunPage, repeatable=True)
RUN_TREE = RpcMethod("orchestrator", "run_tree", tree.GetTree, tree.RunTreeNode, repeatable=True)
EVENTS = RpcMethod("orchestrator", "events", views.GetEvents, EventPage, repeatable=True)
EVENTS_SINCE = RpcMethod("orchestrator", "events_since", views.GetEventsSince, EventPage, repeatable=True)
SWEEP_RUNS = RpcMethod("orchestrator", "sweep_runs", views.ListChangedRuns, views.ChangedRunList, repeatable=True)
IDLE_RUNS = RpcMethod("orchestrator", "idle_runs", idle_runs.ListIdleRuns, idle_runs.IdleRunList, repeatable=True)
LIST_GATES = RpcMethod("orchestrator", "list_gates", views.ListGates, views.GatePage, repeatable=True)
RESOLVE_GATE = RpcMethod("orchestrator", "resolve_gate", views.ResolveGate, views.ActionDone)
DELEGATE_GATE = RpcMethod("orchestrator", "delegate_gate", gate_delegations.DelegateGate, views.GateView)
CANCEL_RUN = RpcMethod("orchestrator", "cancel_run", views.CancelRun, views.ActionDone, repeatable=True)
LABEL_RUN = RpcMethod("orchestrator", "label_run", bulk.LabelRun, views.ActionDone)
STEER_RUN = RpcMethod("orchestrator", "steer_run", run_control.SteerRun, run_control.RunSteered)
PUBLISH_NETWORK = RpcMethod("orchestrator", "publish_network", spec.PublishNetwork, spec.NetworkVersion)
LIST_NETWORKS = RpcMethod("orchestrator", "list_networks", spec.ListNetworks, spec.NetworkList, repeatable=True)
GET_NETWORK = RpcMethod("orchestrator", "get_network", views.PreviewPrompt, spec.NetworkVersion, repeatable=True)
PREVIEW_PROMPT = RpcMethod(
    "orchestrator", "preview_prompt", views.PreviewPrompt, views.PromptContextPreview, repeatable=True
)
BLOB_GET_RUNS = RpcMethod("orchestrator", "blob_get", calls.GetBlobChunk, calls.BlobChunk, repeatable=True)
RECORD = RpcMethod("orchestrator", "record", records.GetRunRecord, records.RunRecordPiece, repeatable=True)
REPLAY_RUNS = RpcMethod("orchestrator", "replay_runs", records.ReplayRuns, records.ReplayPage)
LIST_DEAD_LETTERS = RpcMethod(
    "orchestrator", "list_dead_letters", dead_letters.ListDeadLetters, dead_letters.DeadLetterPage, repeatable=True
)
SETTLE_DEAD_LETTER = RpcMethod("orchestrator", "settle_dead_letter", dead_letters.SettleDeadLetter, views.ActionDone)
DEAD_LETTER_RUNS = RpcMethod("orchestrator", "dead_letter", dead_letters.ReportDeadLetter, views.ActionDone)
WAKE_PAUSED = RpcMethod("orchestrator", "wake_paused", switches.WakePaused, views.ActionDone, repeatable=True)
LIST_NOTICES = RpcMethod(
    "orchestrator", "list_notices", gate_notices.ListGateNotices, gate_notices.GateNoticePage, repeatable=True
)
RETRY_NOTICE = RpcMethod("orchestrator", "retry_notice", gate_notices.RetryGateNotice, views.ActionDone)
FORK_RUN = RpcMethod("orchestrator", "fork_run", forks.ForkRun, tasks.RunAccepted)

GRANT_FROM_RUNS = RpcMethod("orchestrator", "grant_from_runs", proposals.GetGrantFromRuns, proposals.GrantProposal)

SERVE_AGENT = RpcMethod(
    "orchestrator", "serve_agent", agents.DeclareAgentQueue, agents.AgentQueueDeclared, repeatable=True
)

SET_BUDGET = RpcMethod("orchestrator", "set_budget", budgets.SetBudget, budgets.BudgetSet)
SHOW_BUDGETS = RpcMethod(
    "orchestrator", "show_budgets", budgets.ShowBudgets, budgets.BudgetAccountList, repeatable=True
)
SET_QUOTA = RpcMethod("orchestrator", "set_quota", budgets.SetQuota, budgets.QuotaStatus)
SHOW_QUOTA = RpcMethod("orchestrator", "show_quota", budgets.ShowQuota, budgets.QuotaStatus, repeatable=True)

RENDER_PROMPT = RpcMethod(
    "decider",
    "render_prompt",
    decisions_request.RenderPromptRequest,
    decisions_request.RenderPromptAnswer,
    repeatable=True,
)
CHECK_MODEL = RpcMethod("decider", "check_model", model_checks.CheckModel, model_checks.ModelChecked)

CLAIM_START = RpcMethod("tas", "claim_start", calls.ClaimStart, calls.ClaimAnswer)
RAISE_FENCE = RpcMethod("tas", "raise_fence", access.RaiseFence, access.FencedCalls, repeatable=True)
RESOLVE_APPROVAL = RpcMethod("tas", "resolve_approval", views.ResolveGate, views.ActionDone)
RECORD_OUTCOME = RpcMethod(
    "tas",
    "record_outcome",
    internal_outcomes.RecordInternalOutcome,
    internal_outcomes.InternalOutcomeAnswer,
    repeatable=True,
)
SETTLE_CALL = RpcMethod("tas", "settle_call", access.SettleCall, views.ActionDone)
REGISTER_TOOLS = RpcMethod("tas", "register_tools", workers.RegisterTools, workers.ToolsRegistered, repeatable=True)
DECIDE_PROPOSAL = RpcMethod("tas", "decide_proposal", access.SettleToolProposal, views.ActionDone)
CHECK_GRANT = RpcMethod("tas", "check_grant", access.CheckGrant, access.GrantChecked, repeatable=True)
DESCRIBE_TOOLS = RpcMethod("tas", "describe_tools", access.DescribeTools, access.ToolsDescribed, repeatable=True)
CHECK_ACCESS = RpcMethod("tas", "check_access", access.CheckAccess, access.AccessVerdict, repeatable=True)
GET_PERMISSIONS = RpcMethod("tas", "get_permissions", access.GetPermissions, access.AgentPermissions, repeatable=True)
APPLY_POLICY = RpcMethod("tas", "apply_policy", access.ApplyPolicy, access.PolicyApplied)
GET_POLICY = RpcMethod("tas", "get_policy", access.GetPolicy, access.PolicyView, repeatable=True)
AUDIT_QUERY = RpcMethod("tas", "audit_query", access.AuditQuery, access.AuditPage, repeatable=True)
BLOB_GET_CALLS = RpcMethod("tas", "blob_get", internal_outcomes.GetWorkspaceChunk, calls.BlobChunk, repeatable=True)
BLOB_PUT = RpcMethod("tas", "blob_put", calls.BlobChunk, views.ActionDone, repeatable=True)
DEAD_LETTER_CALLS = RpcMethod("tas", "dead_letter", dead_letters.ReportDeadLetter, views.ActionDone)
REPUBLISH = RpcMethod("tas", "republish", dead_letters.RepublishDeadLetter, views.ActionDone)
SET_SWITCH = RpcMethod("tas", "set_switch", switches.SetSwitch, switches.SwitchSet)
LIST_SWITCHES = RpcMethod("tas", "list_switches", switches.ListSwitches, switches.SwitchList, repeatable=True)
LIST_QUEUES = RpcMethod("tas", "list_queues", queues.ListQueues, queues.QueueList, repeatable=True)
WORKER_BEAT = RpcMethod("tas", "worker_beat", workers.WorkerBeat, workers.WorkerHeard)
LIST_WORKERS = RpcMethod("tas", "list_workers", workers.ListWorkers, workers.WorkerList, repeatable=True)
DRAIN_WORKER = RpcMethod("tas", "drain_worker", workers.DrainWorker, workers.WorkerDrained)
GET_RETENTION = RpcMethod("tas", "get_retention", retention.GetRetention, retention.TasRetention, repeatable=True)
RECORD_ACTION = RpcMethod("tas", "record_action", access.RecordAction, views.ActionDone)
AUDIT_EXPORT = RpcMethod("tas", "audit_export", audit.ExportAudit, audit.AuditPiece)
AUDIT_CHECKPOINT = RpcMethod("tas", "audit_checkpoint", audit.GetCheckpoint, audit.CheckpointView)
AUDIT_PROVE = RpcMethod("tas", "audit_prove", audit.ProveRun, audit.AuditProof)
REQUEST_ERASURE = RpcMethod("tas", "request_erasure", erasures.RequestErasure, erasures.ErasureView)
DECIDE_ERASURE = RpcMethod("tas", "decide_erasure", erasures.DecideErasure, erasures.ErasureView)
PRUNE_RUNS = RpcMethod("tas", "prune_runs", retention.PruneRuns, retention.PrunedRuns)
LIST_ERASURES = RpcMethod("tas", "list_erasures", erasures.ListErasures, erasures.ErasureList, repeatable=True)
POLICY_VERSIONS = RpcMethod("tas", "policy_versions", policy.ListPolicyVersions, policy.PolicyVersions, repeatable=True)
POLICY_CHANGES = RpcMethod("tas", "policy_changes", policy.ListPolicyVersions, policy.PolicyChangeLog, repeatable=True)
ROLL_BACK_POLICY = RpcMethod("tas", "roll_back_policy", policy.RollBackPolicy, access.PolicyApplied)
CHANGE_RULE = RpcMethod("tas", "change_rule", policy.ChangeRule, policy.RuleChanged)
DIFF_POLICY = RpcMethod("tas", "diff_policy", policy.DiffPolicy, policy.PolicyImpact)
DIFF_PERMISSIONS = RpcMethod("tas", "diff_permissions", policy.DiffPermissions, policy.PermissionsDiff)
SET_SHADOW = RpcMethod("tas", "set_shadow", policy.SetShadow, policy.ShadowView)
GET_SHADOW = RpcMethod("tas", "get_shadow", policy.GetShadow, policy.ShadowView, repeatable=True)
GET_STATISTICS = RpcMethod("tas", "get_statistics", policy.GetToolCallStatistics, policy.ToolCallStatistics)

COUNT_USED_TOOLS = RpcMethod("tas", "count_used_tools", proposals.CountUsedTools, proposals.UsedTools)

GET_LLM_CALLS = RpcMethod("log_writer", "get_llm_calls", views.GetLlmCalls, views.LlmCalls, repeatable=True)
GET_COSTS = RpcMethod("log_writer", "get_costs", costs.GetCosts, costs.CostReport, repeatable=True)
GET_HISTORY = RpcMethod("log_writer", "get_history", views.GetHistory, views.ExecutionHistory, repeatable=True)

METHODS: tuple[RpcMethod, ...] = (
    GET_RUN,
    LIST_RUNS,
    EVENTS,
    EVENTS_SINCE,
    SWEEP_RUNS,
    IDLE_RUNS,
    RUN_TREE,
    LIST_GATES,
    RESOLVE_GATE,
    DELEGATE_GATE,
    CANCEL_RUN,
    STEER_RUN,
    LABEL_RUN,
    PUBLISH_NETWORK,
    LIST_NETWORKS,
    GET_NETWORK,
    PREVIEW_PROMPT,
    BLOB_GET_RUNS,
    RECORD,
    REPLAY_RUNS,
    FORK_RUN,
    LIST_NOTICES,
    RETRY_NOTICE,
    LIST_DEAD_LETTERS,
    SETTLE_DEAD_LETTER,
    DEAD_LETTER_RUNS,
    WAKE_PAUSED,
    GRANT_FROM_RUNS,
    SET_BUDGET,
    SHOW_BUDGETS,
    SET_QUOTA,
    SHOW_QUOTA,
    RENDER_PROMPT,
    CHECK_MODEL,
    CLAIM_START,
    RAISE_FENCE,
    RESOLVE_APPROVAL,
    SETTLE_CALL,
    RECORD_OUTCOME,
    REGISTER_TOOLS,
    DECIDE_PROPOSAL,
    CHECK_GRANT,
    DESCRIBE_TOOLS,
    CHECK_ACCESS,
    GET_PERMISSIONS,
    APPLY_POLICY,
    GET_POLICY,
    AUDIT_QUERY,
    BLOB_GET_CALLS,
    BLOB_PUT,
    GET_RETENTION,
    RECORD_ACTION,
    AUDIT_EXPORT,
    AUDIT_CHECKPOINT,
    AUDIT_PROVE,
    REQUEST_ERASURE,
    DECIDE_ERASURE,
    LIST_ERASURES,
    PRUNE_RUNS,
    SET_SWITCH,
    LIST_SWITCHES,
    LIST_QUEUES,
    WORKER_BEAT,
    LIST_WORKERS,
    DRAIN_WORKER,
    POLICY_VERSIONS,
    POLICY_CHANGES,
    ROLL_BACK_POLICY,
    CHANGE_RULE,
    DIFF_POLICY,
    DIFF_PERMISSIONS,
    SET_SHADOW,
    GET_SHADOW,
    GET_STATISTICS,
    COUNT_USED_TOOLS,
    DEAD_LETTER_CALLS,
    REPUBLISH,
    GET_LLM_CALLS,
    GET_HISTORY,
    GET_COSTS,
)

TOOLSET_METHODS: tuple[RpcMethod, ...] = (REGISTER_TOOLS, DEAD_LETTER_CALLS, WORKER_BEAT)
"""What workers ask on `<subject>.<project>.<toolset>`, so that the broker can hold them to their own toolsets."""

AGENT_METHODS: tuple[RpcMethod, ...] = (SERVE_AGENT, DEAD_LETTER_RUNS)
"""What processes of agents ask on `<subject>.<project>.<agent>`, so that the broker can hold them to their own."""

CLIENT_SUBJECTS: dict[str, tuple[type, type]] = {
    "task.submit": (tasks.SubmitTask, tasks.RunAccepted),
    "task.get": (views.GetRun, views.RunView),
    "task.events": (views.GetEvents, EventPage),
    "task.cancel": (views.CancelRun, views.ActionDone),
    "task.pause": (run_control.ClientSteerRun, run_control.RunSteered),
    "task.resume": (run_control.ClientSteerRun, run_control.RunSteered),
    "task.note": (run_control.ClientGiveNote, run_control.RunSteered),
    "task.gate": (run_control.ClientSteerRun, run_control.RunSteered),
    "task.confidence": (run_control.ClientSteerRun, run_control.RunSteered),
}
"""What a NATS client asks on `<verb>.<caller>`; `project` is filled in from the caller."""

"""What people and programs ask for in lists, filters and searches, answered by the services' own code."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from prometheus_client import CollectorRegistry

from towpath_audit.bundle import digest
from towpath_audit.notes import Signer
from towpath_contracts.budgets import ShowBudgets
from towpath_contracts.dead_letters import ListDeadLetters
from towpath_contracts.runs.costs import GetCosts
from towpath_contracts.runs.records import ReplayRuns
from towpath_contracts.runs.tree import GetTree
from towpath_contracts.runs.views import GetRun, ListGates, ListRuns
from towpath_contracts.tools.access import AuditQuery
from towpath_contracts.tools.audit import ExportAudit, ProveRun
from towpath_contracts.tools.policy import GetToolCallStatistics
from towpath_contracts.tools.workers import ListWorkers
from towpath_gateway.adapters.key_store import KeyStore
from towpath_log_writer.app.history_queries import CostQueries
from towpath_orchestrator.app.api.budgets import BudgetRequests
from towpath_orchestrator.app.api.dead_letters import DeadLetterRequests
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.replay_requests import ReplayRequests
from towpath_orchestrator.app.state_cache import RunWaiters
from towpath_orchestrator.app.webhook_delivery import QUERIES as NOTICES
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.app.audit.audit_export import AuditLogRequests
from towpath_tas.app.audit.audit_proofs import AuditProofs
from towpath_tas.app.audit.audit_queries import AuditQueries
from towpath_tas.app.audit.erasures import QUERIES as ERASURES
from towpath_tas.app.audit.sealer import Sealer
from towpath_tas.app.policy.policy_statistics import PolicyStatisticsQueries
from towpath_tas.app.worker_instances import WorkerInstances
from towpath_tas.metrics import TasMetrics

PROJECT = "default"
KNOWN = ("top", "thread", "called", "middle", "gate")
"""Statements that find what is asked about."""


class Question(NamedTuple):
    """A list with a filter, whose pool has what it asks the database, and how it is asked."""

    about: str
    filtered: str
    pool: Any
    ask: Callable[[], Awaitable[Any]]


def questions(pools: Mapping[str, Any], known: Mapping[str, UUID], now: datetime, signer: Signer) -> list[Question]:
    """Return everything that is asked; *pools* are those of the services."""
    return [
        *_of_runs(pools["orchestrator"], known),
        *_of_gates(pools["orchestrator"], known),
        *_of_other_rows(pools, known, now),
        *_of_the_audit(pools["tas"], known, now, signer),
    ]


def _of_runs(pool: Any, known: Mapping[str, UUID]) -> list[Question]:
    queries = RunQueries(pool, RunWaiters(), RunWaiters())

    def runs(filtered: str, **asked: Any) -> Question:
        return Question("runs", filtered, pool, lambda: queries.list_runs(ListRuns(**{"project": PROJECT, **asked})))

    return [
        runs("newest"),
        runs("top of trees", depth=0),
        runs("of a small project", project="project-3"),
        runs("of the middle of the time", before=known["middle"]),
        *(runs(f"status {one}", status=one) for one in ("completed", "failed", "waiting", "timed_out", "abandoned")),
        runs("status waiting, from the middle", status="waiting", before=known["middle"]),
        runs("network support", network="support"),
        runs("network rare", network="rare"),
        runs("network rare, failed", network="rare", status="failed"),
        runs("label team=team-7", label="team=team-7"),
        runs("label rare=yes", label="rare=yes"),
        runs("label rare=yes, completed, tops", label="rare=yes", status="completed", depth=0),
        runs("kind plan", kind="plan"),
        runs("children of a run with many", parent_run_id=known["top"]),
        runs("tree of a run with many", root_run_id=known["top"]),
        runs("tree of a run with many, timed_out", root_run_id=known["top"], status="timed_out"),
        runs("thread", thread_id=known["thread"]),
        Question("run", "tree", pool, lambda: queries.tree(GetTree(project=PROJECT, run_id=known["top"]))),
        Question(
            "run",
            "one, with what it waits for",
            pool,
            lambda: queries.get_run(GetRun(project=PROJECT, run_id=known["top"])),
        ),
    ]


def _of_gates(pool: Any, known: Mapping[str, UUID]) -> list[Question]:
    queries = RunQueries(pool, RunWaiters(), RunWaiters())

    def gates(filtered: str, **asked: Any) -> Question:
        return Question("gates", filtered, pool, lambda: queries.list_gates(ListGates(**{"project": PROJECT, **asked})))

    return [
        gates("pending"),
        gates("pending that people settle", paused=False),
        gates("pending, tool rare", tool="tools.rare"),
        gates("pending, network rare", network="rare"),
        gates("pending, assigned to nobody who is", assigned_to=("role:nobody",)),
        gates("pending, assigned to rare", assigned_to=("role:rare", "person-1")),
        gates("denied", status="denied"),
        gates("void", status="void"),
        gates("approved, tool rare", status="approved", tool="tools.rare"),
        gates("approved, network rare", status="approved", network="rare"),
        gates("any", status="all"),
        gates("any, behind the middle", status="all", after=known["gate"]),
        gates("any, tool rare", status="all", tool="tools.rare"),
        gates("any, network rare", status="all", network="rare"),
        gates("any, assigned to rare", status="all", assigned_to=("role:rare",)),
        gates("of a run", status="all", run_id=known["called"]),
        gates("of a tree with many runs", status="all", root_run_id=known["top"]),
        gates("closed last", status="all", newest=True),
        gates("closed last, void", status="void", newest=True),
        gates("closed last, tool and rule rare", status="all", newest=True, tool="tools.rare", rule="rule-rare"),
        gates("closed last, network rare", status="all", newest=True, network="rare"),
    ]


def _of_other_rows(pools: Mapping[str, Any], known: Mapping[str, UUID], now: datetime) -> list[Question]:
    pool, tas, of_history, of_keys = (pools[name] for name in ("orchestrator", "tas", "log_writer", "gateway"))
    letters = DeadLetterRequests(pool, None, None, None, None)  # type: ignore[arg-type]
    budgets, replays = BudgetRequests(pool, None, None), ReplayRequests(pool)  # type: ignore[arg-type]
    workers, costs, keys = WorkerInstances(tas), CostQueries(of_history), KeyStore(lambda: of_keys)

    def dead(filtered: str, **asked: Any) -> Question:
        request = ListDeadLetters(**{"project": PROJECT, **asked})
        return Question("dead letters", filtered, pool, lambda: letters.list(request))

    def replay(filtered: str, project: str = "", **asked: Any) -> Question:
        request = ReplayRuns(project=project, limit=500, **asked)
        return Question("replay", filtered, pool, lambda: replays.runs_to_replay(request))

    def notices(filtered: str, statement: str, *values: Any) -> Question:
        return Question("notices", filtered, pool, lambda: pool.fetch(statement, *values))

    def cost(by: Any) -> Question:
        asked = GetCosts(project=PROJECT, by=by, since=(now - timedelta(days=60)).date())
        return Question("costs", f"60 days by {by}", of_history, lambda: costs.get_costs(asked))

    lately, half = now - timedelta(hours=1), now - timedelta(days=30)
    return [
        dead("open"),
        dead("all", status=None),
        dead("requeued", status="requeued"),
        dead("open of a small project", project="project-3"),
        dead("open, without a project", unowned=True),
        dead("stream TOOLOUT", stream="TOOLOUT", status=None),
        dead("of a run", run_id=known["called"], status=None),
        Question("budgets", "limits", pool, lambda: budgets.show(ShowBudgets(project=PROJECT))),
        Question("budgets", "of a caller", pool, lambda: budgets.show(ShowBudgets(project=PROJECT, caller="caller-7"))),
        Question(
            "budgets", "of a run", pool, lambda: budgets.show(ShowBudgets(project=PROJECT, run_id=known["called"]))
        ),
        replay("all"),
        replay("all, since an hour ago", since=lately),
        replay("of a project", "project-3"),
        replay("network rare", PROJECT, network="rare"),
        replay("since an hour ago", PROJECT, since=lately),
        replay("network rare, since half", PROJECT, network="rare", since=half),
        notices("all", NOTICES.list_notices, PROJECT, None, 100),
        notices("dead", NOTICES.list_notices_of_status, PROJECT, None, 100, "dead"),
        *(cost(by) for by in ("network", "caller", "label")),
        Question("workers", "all", tas, lambda: workers.list(ListWorkers(project=PROJECT))),
        Question("tools", "names and versions", tas, lambda: tas.fetch(LEDGER.tools, PROJECT)),
        Question("tools", "proposals", tas, lambda: tas.fetch(LEDGER.proposals, PROJECT, 200, None)),
        Question("erasures", "all", tas, lambda: tas.fetch(ERASURES.listed, PROJECT, None, None, 100)),
        Question("erasures", "withdrawn", tas, lambda: tas.fetch(ERASURES.listed, PROJECT, "withdrawn", None, 100)),
        Question(
            "erasures", "of a small project", tas, lambda: tas.fetch(ERASURES.listed, "project-3", None, None, 100)
        ),
        Question("keys", "first page", of_keys, lambda: keys.page_of(PROJECT, None, 100)),
        Question("keys", "of a small project", of_keys, lambda: keys.page_of("project-1", None, 100)),
    ]


def _of_the_audit(pool: Any, known: Mapping[str, UUID], now: datetime, signer: Signer) -> list[Question]:
    queries, counts = AuditQueries(pool), PolicyStatisticsQueries(pool)
    sealer = Sealer(pool, signer, [], TasMetrics(CollectorRegistry()), structlog.get_logger(), idle_s=1e9)
    log, proofs = AuditLogRequests(pool, sealer), AuditProofs(pool, sealer)
    half, lately = now - timedelta(days=30), now - timedelta(hours=1)

    def audit(filtered: str, **asked: Any) -> Question:
        return Question("audit", filtered, pool, lambda: queries.query(AuditQuery(**{"project": PROJECT, **asked})))

    def figures(filtered: str, **asked: Any) -> Question:
        request = GetToolCallStatistics(**{"project": PROJECT, **asked})
        return Question("statistics", filtered, pool, lambda: counts.statistics(request))

    async def second(**asked: Any) -> Any:
        first = await log.export(ExportAudit(project=PROJECT, actor="person", **asked))
        behind = {"cursor": first.cursor, "previous": digest(first.lines[-1])}
        return await log.export(ExportAudit(project=PROJECT, actor="person", **behind, **asked))

    async def prove() -> Any:
        return await proofs.prove(ProveRun(project=PROJECT, run_id=known["called"]))

    return [
        audit("newest"),
        audit("of a small project", project="project-3"),
        audit("of no project", project="nobody"),
        audit("tool rare", tool="tools.rare"),
        audit("verdict deny", verdict="deny"),
        audit("verdict unknown", verdict="unknown"),
        audit("agent rare", agent_key="agent-rare"),
        audit("who acted rare", actor="person-rare"),
        audit("phase claim, verdict refused", phase="claim", verdict="refused"),
        audit("digest of arguments rare", args_digest="sha256:rare"),
        audit("the last hour", since=lately),
        audit("until the middle", until=half),
        audit("a day of the middle, denied", since=half - timedelta(days=1), until=half, verdict="deny"),
        audit("of a run", run_id=known["called"]),
        figures("the last day by tool"),
        figures("60 days by caller", since=now - timedelta(days=60), by=("caller",)),
        Question("export", "first two pieces", pool, second),
        Question("export", "since an hour ago, two pieces", pool, lambda: second(since=lately)),
        Question("export", "since the middle, two pieces", pool, lambda: second(since=half)),
        Question("proof", "of a run", pool, prove),
    ]

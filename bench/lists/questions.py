"""What people and programs ask for in lists, filters and searches, answered by the services' own code."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
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
from towpath_contracts.runs.views import GetEvents, GetHistory, GetLlmCalls, GetRun, ListGates, ListRuns
from towpath_contracts.tools.access import AuditQuery
from towpath_contracts.tools.audit import ExportAudit, ProveRun
from towpath_contracts.tools.policy import GetToolCallStatistics
from towpath_contracts.tools.workers import ListWorkers
from towpath_fabric.postgres.pool import Queries
from towpath_gateway.adapters.key_store import KeyStore
from towpath_log_writer.app.history_queries import CostQueries, HistoryQueries
from towpath_orchestrator.adapters.run_store import QUERIES as RUNS
from towpath_orchestrator.app.api import grant_history
from towpath_orchestrator.app.api.budgets import BudgetRequests
from towpath_orchestrator.app.api.dead_letters import DeadLetterRequests
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.replay_requests import ReplayRequests
from towpath_orchestrator.app.project_quotas import QUOTAS
from towpath_orchestrator.app.state_cache import RunWaiters
from towpath_orchestrator.app.webhook_delivery import QUERIES as NOTICES
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.app.audit.audit_export import AuditLogRequests
from towpath_tas.app.audit.audit_proofs import AuditProofs
from towpath_tas.app.audit.audit_queries import AuditQueries
from towpath_tas.app.audit.erasures import QUERIES as ERASURES
from towpath_tas.app.audit.sealer import Sealer
from towpath_tas.app.policy.policy_diff import HISTORY
from towpath_tas.app.policy.policy_statistics import PolicyStatisticsQueries
from towpath_tas.app.worker_instances import WorkerInstances
from towpath_tas.metrics import TasMetrics

PROJECT = "default"
SWITCHES = Queries.load("towpath_tas.adapters", "switches.sql")
ONE_RUN = "/v1/runs/{run_id}"
MODEL_CALLS = "steps/{step}/model-calls"
KNOWN = ("top", "thread", "called", "call", "middle", "gate", "letter", "entry", "size")
"""Statements that find what is asked about."""

FEW = {
    "/v1/tools": ("proposals", "name"),
    "/v1/networks": ("name", "before"),
    "/v1/policy/versions": ("before",),
    "/v1/policy/changes": ("before",),
    "/v1/policy/shadow": (),
    "/v1/switches": (),
}
"""Lists of what people make, and their parameters, which are all in the statements that are asked."""


class Question(NamedTuple):
    """A list with a filter, whose pool has what it asks the database, and how it is asked.

    `route` is where the gateway is asked for it; `parameters` are those of the route that it uses.
    """

    about: str
    filtered: str
    pool: Any
    ask: Callable[[], Awaitable[Any]]
    route: str = ""
    parameters: tuple[str, ...] = ()


def questions(pools: Mapping[str, Any], known: Mapping[str, UUID], now: datetime, signer: Signer) -> list[Question]:
    """Return everything that is asked; *pools* are those of the services."""
    return [
        *_of_runs(pools["orchestrator"], known, now),
        *_of_gates(pools["orchestrator"], known),
        *_of_letters_and_erasures(pools, known),
        *_of_other_rows(pools, known, now),
        *_of_the_audit(pools["tas"], known, now, signer),
    ]


def _of_runs(pool: Any, known: Mapping[str, UUID], now: datetime) -> list[Question]:
    queries = RunQueries(pool, RunWaiters(), RunWaiters())

    def runs(filtered: str, **asked: Any) -> Question:
        request = ListRuns(**{"project": PROJECT, **asked})
        return Question("runs", filtered, pool, lambda: queries.list_runs(request), "/v1/runs", tuple(asked))

    def one(filtered: str, ask: Callable[[], Awaitable[Any]], route: str, *parameters: str) -> Question:
        return Question("run", filtered, pool, ask, route, parameters)

    def events(after: int) -> Any:
        return queries.events(GetEvents(project=PROJECT, run_id=known["top"], after=after, limit=1_000))

    def grants(filtered: str, network: str, label: str | None, since: datetime) -> Question:
        statement = grant_history.QUERIES.completed_runs
        most = (grant_history.MAX_ROOTS, grant_history.MAX_LOOKED, grant_history.MAX_BELOW)
        asked = (
            PROJECT,
            UUID(int=int(since.timestamp() * 1_000) << 80),
            network,
            label,
            *most,
        )
        parameters = ("since", *(() if label is None else ("label",)))
        route = "/v1/grants/from-runs/{network}"
        return Question("grants", filtered, pool, lambda: pool.fetch(statement, *asked), route, parameters)

    return [
        runs("newest"),
        runs("top of trees", depth=0),
        runs("of a small project", project="project-small"),
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
        runs("thread, from the middle", thread_id=known["thread"], before=known["middle"]),
        runs("as deep as hardly any", depth=3),
        runs("as deep as hardly any, failed", depth=3, status="failed"),
        runs("tops of a small project, no network", project="project-small", depth=0, network="none"),
        runs("of no project", project="nobody"),
        one("tree", lambda: queries.tree(GetTree(project=PROJECT, run_id=known["top"])), f"{ONE_RUN}/tree"),
        one("with what it waits for", lambda: queries.get_run(GetRun(project=PROJECT, run_id=known["top"])), ONE_RUN),
        one("events", lambda: events(1), f"{ONE_RUN}/events"),
        one("events, late in its log", lambda: events(4_500), f"{ONE_RUN}/events", "after"),
        Question("quota", "of a project", pool, lambda: pool.fetchrow(QUOTAS.uses, [PROJECT], now), "/v1/quota"),
        grants("a network", "support", None, now - timedelta(days=30)),
        grants("a rare network", "rare", None, now - timedelta(days=700)),
        grants("a network, label rare=yes", "support", '{"rare": "yes"}', now - timedelta(days=700)),
    ]


def _of_gates(pool: Any, known: Mapping[str, UUID]) -> list[Question]:
    queries = RunQueries(pool, RunWaiters(), RunWaiters())

    def gates(filtered: str, **asked: Any) -> Question:
        request = ListGates(**{"project": PROJECT, **asked})
        parameters = tuple("order" if name == "newest" else name for name in asked)
        return Question("gates", filtered, pool, lambda: queries.list_gates(request), "/v1/gates", parameters)

    def one(filtered: str, route: str, **asked: Any) -> Question:
        return gates(filtered, **asked)._replace(route=route, parameters=())

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
        gates("any, rule rare", status="all", rule="rule-rare"),
        gates("any, of a small project", status="all", project="project-small"),
        gates("of a run", status="all", run_id=known["called"]),
        one("one", "/v1/gates/{gate_id}", status="all", gate_id=known["gate"]),
        gates("of a tree with many runs", status="all", root_run_id=known["top"]),
        gates("closed last", status="all", newest=True),
        gates("closed last, void", status="void", newest=True),
        gates("closed last, tool and rule rare", status="all", newest=True, tool="tools.rare", rule="rule-rare"),
        gates("closed last, network rare", status="all", newest=True, network="rare"),
    ]


def _of_letters_and_erasures(pools: Mapping[str, Any], known: Mapping[str, UUID]) -> list[Question]:
    pool, tas = pools["orchestrator"], pools["tas"]
    letters = DeadLetterRequests(pool, None, None, None, None)  # type: ignore[arg-type]

    def dead(filtered: str, **asked: Any) -> Question:
        request = ListDeadLetters(**{"project": PROJECT, **asked})
        return Question("dead letters", filtered, pool, lambda: letters.list(request), "/v1/dead-letters", tuple(asked))

    def erasures(filtered: str, project: str, status: str | None, before: UUID | None = None) -> Question:
        asked = (project, before, 100, *(() if status is None else (status,)))
        statement = ERASURES.listed if status is None else ERASURES.listed_of_status
        parameters = ("before", "status")[: 1 + (status is not None)]
        return Question("erasures", filtered, tas, lambda: tas.fetch(statement, *asked), "/v1/erasures", parameters)

    return [
        dead("open"),
        dead("all", status=None),
        dead("requeued", status="requeued"),
        dead("open of a small project", project="project-small"),
        dead("open, without a project", unowned=True),
        dead("stream TOOLOUT", stream="TOOLOUT", status=None),
        dead("of a run", run_id=known["called"], status=None),
        dead("of no project", project="nobody", status=None),
        dead("discarded, of a small project", project="project-small", status="discarded"),
        dead("all, from the middle", status=None, before=known["letter"]),
        dead("one", dead_letter_id=known["letter"])._replace(route="/v1/dead-letters/{dead_letter_id}", parameters=()),
        erasures("all", PROJECT, None),
        erasures("withdrawn", PROJECT, "withdrawn"),
        erasures("of a small project", "project-small", None),
        erasures("withdrawn, of a small project", "project-small", "withdrawn"),
    ]


def _of_other_rows(pools: Mapping[str, Any], known: Mapping[str, UUID], now: datetime) -> list[Question]:
    pool, tas, of_history, of_keys = (pools[name] for name in ("orchestrator", "tas", "log_writer", "gateway"))
    budgets, replays = BudgetRequests(pool, None, None), ReplayRequests(pool)  # type: ignore[arg-type]
    workers, costs, keys = WorkerInstances(tas), CostQueries(of_history), KeyStore(lambda: of_keys)
    past, top = HistoryQueries(of_history), {"project": PROJECT, "run_id": known["top"]}

    def replay(filtered: str, project: str = "", **asked: Any) -> Question:
        request = ReplayRuns(project=project, limit=500, **asked)
        return Question("replay", filtered, pool, lambda: replays.runs_to_replay(request), "/v1/replays", tuple(asked))

    def notices(filtered: str, statement: str, *values: Any) -> Question:
        parameters = ("before", "status")[: 1 + (len(values) > 3)]
        return Question("notices", filtered, pool, lambda: pool.fetch(statement, *values), "/v1/notices", parameters)

    def cost(by: Any) -> Question:
        asked = GetCosts(project=PROJECT, by=by, since=(now - timedelta(days=60)).date())
        ask = partial(costs.get_costs, asked)
        return Question("costs", f"60 days by {by}", of_history, ask, "/v1/costs", ("by", "since"))

    def budget(filtered: str, **asked: Any) -> Question:
        request = ShowBudgets(project=PROJECT, **asked)
        return Question("budgets", filtered, pool, lambda: budgets.show(request), "/v1/budgets", tuple(asked))

    def of_one(filtered: str, ask: Callable[[], Awaitable[Any]], route: str, *parameters: str) -> Question:
        return Question("run", filtered, of_history, ask, f"{ONE_RUN}/{route}", parameters)

    def few(about: str, filtered: str, one: Any, statement: str, values: tuple[Any, ...], route: str) -> Question:
        return Question(about, filtered, one, lambda: one.fetch(statement, *values), route, FEW[route])

    lately, half = now - timedelta(hours=1), now - timedelta(days=365)
    return [
        budget("limits"),
        budget("of a caller", caller="caller-7"),
        budget("of a run", run_id=known["called"]),
        replay("all"),
        replay("all, since an hour ago", since=lately),
        replay("of a project", "project-small"),
        replay("network rare", PROJECT, network="rare"),
        replay("since an hour ago", PROJECT, since=lately),
        replay("network rare, since half", PROJECT, network="rare", since=half),
        notices("all", NOTICES.list_notices, PROJECT, None, 100),
        notices("dead", NOTICES.list_notices_of_status, PROJECT, None, 100, "dead"),
        *(cost(by) for by in ("network", "caller", "label")),
        replay("behind the middle", PROJECT, after=known["middle"]),
        of_one("history", lambda: past.get_history(GetHistory(**top)), "history"),
        of_one("history, late", lambda: past.get_history(GetHistory(**top, after_step=900)), "history", "after_step"),
        of_one("model calls", lambda: past.get_llm_calls(GetLlmCalls(**top, after=900)), MODEL_CALLS, "after"),
        of_one("model calls of a step", lambda: past.get_llm_calls(GetLlmCalls(**top, step=7)), MODEL_CALLS),
        Question("workers", "all", tas, lambda: workers.list(ListWorkers(project=PROJECT)), "/v1/workers"),
        few("tools", "names and versions", tas, LEDGER.tools, (PROJECT,), "/v1/tools"),
        few("tools", "proposals", tas, LEDGER.proposals, (PROJECT, 200, None), "/v1/tools"),
        few("networks", "current", pool, RUNS.current_networks, (PROJECT, 2_001), "/v1/networks"),
        few("networks", "versions of one", pool, RUNS.network_versions, (PROJECT, "support", 50, 51), "/v1/networks"),
        few("policies", "versions", tas, HISTORY.versions, (PROJECT, None, 51), "/v1/policy/versions"),
        few("policies", "changes", tas, HISTORY.rules_of_versions, (PROJECT, [7, 8]), "/v1/policy/changes"),
        few("policies", "shadow", tas, HISTORY.divergences, (PROJECT, 0, 1_001), "/v1/policy/shadow"),
        few("pauses", "all", tas, SWITCHES.open_switches, (PROJECT,), "/v1/switches"),
        Question("keys", "first page", of_keys, lambda: keys.page_of(PROJECT, None, 100), "/v1/keys", ("after",)),
        Question("keys", "of a small project", of_keys, lambda: keys.page_of("project-1", None, 100), "/v1/keys"),
    ]


def _of_the_audit(pool: Any, known: Mapping[str, UUID], now: datetime, signer: Signer) -> list[Question]:
    queries, counts = AuditQueries(pool), PolicyStatisticsQueries(pool)
    sealer = Sealer(pool, signer, [], TasMetrics(CollectorRegistry()), structlog.get_logger(), idle_s=1e9)
    log, proofs = AuditLogRequests(pool, sealer), AuditProofs(pool, sealer)
    half, lately = now - timedelta(days=365), now - timedelta(hours=1)

    def audit(filtered: str, **asked: Any) -> Question:
        request = AuditQuery(**{"project": PROJECT, **asked})
        return Question("audit", filtered, pool, lambda: queries.query(request), "/v1/audit", tuple(asked))

    def figures(filtered: str, **asked: Any) -> Question:
        request = GetToolCallStatistics(**{"project": PROJECT, **asked})
        return Question(
            "statistics", filtered, pool, lambda: counts.statistics(request), "/v1/statistics", tuple(asked)
        )

    async def second(**asked: Any) -> Any:
        first = await log.export(ExportAudit(project=PROJECT, actor="person", **asked))
        behind = {"cursor": first.cursor, "previous": digest(first.lines[-1])}
        return await log.export(ExportAudit(project=PROJECT, actor="person", **behind, **asked))

    def proof(filtered: str, route: str, **asked: Any) -> Question:
        request = ProveRun(project=PROJECT, **asked)
        return Question("proof", filtered, pool, lambda: proofs.prove(request), f"/v1/audit/{route}", tuple(asked))

    return [
        audit("newest"),
        audit("of a small project", project="project-small"),
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
        audit("tool rare, from the middle", tool="tools.rare", before=known["entry"]),
        audit("verdict deny, from the middle", verdict="deny", before=known["entry"]),
        audit("of a run", run_id=known["called"]),
        audit("of a call", run_id=known["called"], execution_id=known["call"]),
        figures("the last day by tool"),
        figures("60 days by caller", since=now - timedelta(days=60), by=("caller",)),
        figures("a year, until the middle", since=now - timedelta(days=700), until=half, by=("rule", "tool")),
        Question("export", "first two pieces", pool, second),
        Question("export", "since an hour ago, two pieces", pool, lambda: second(since=lately)),
        Question("export", "since the middle, two pieces", pool, lambda: second(since=half)),
        proof("of a run", "proof/{run_id}", run_id=known["called"]),
        proof("of a call", "proof/{run_id}", run_id=known["called"], execution_id=known["call"]),
        proof("of a run, at an old checkpoint", "proof/{run_id}", run_id=known["called"], size=known["size"]),
        proof("of an entry", "entries/{entry_id}/proof", entry_id=known["entry"]),
        proof("of an entry, at an old checkpoint", "entries/{entry_id}/proof", entry_id=7, size=known["size"]),
    ]

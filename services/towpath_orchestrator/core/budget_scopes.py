"""Which accounts a run spends from, and what a model may cost it.

    task's budget, carve-outs   agents' budgets        limits that people set
              │                       │                          │
              v                       v                          v
         run/<root>           agent/<root>/<key>     caller/…  project/…  day/<date>/…     the narrow ones first

Which limits there are comes in; what is left of an account is decided by the statement that commits a transition.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from towpath_contracts.budgets import Budget, BudgetKind, ModelPrice, RunBudgetAccount, SpendingLimits
from towpath_contracts.events.log import RunCreated
from towpath_contracts.facts import BudgetAccountsAppliedFact
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_engine.state.run import RunState, Status
from towpath_orchestrator.core.task_kinds import criteria_in

PriceOf = Callable[[str], ModelPrice | None]
"""Returns what a model costs at most, None if nobody knows."""

SNAPSHOTS_KEPT = 1_024
"""Of so many networks it is remembered whether any of their agents has a budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """One budget limit that a person set for a caller or a project, in all or per day."""

    kind: BudgetKind
    name: str
    per_day: bool
    limits: SpendingLimits
    soft: float
    on_soft: str

    def scope(self, now: datetime) -> RunBudgetAccount:
        """Return the account in which it is counted now; days are UTC's, by Postgres's clock."""
        if self.per_day:
            return RunBudgetAccount(scope="day", key=day_key(now, self.kind, self.name))
        return RunBudgetAccount(scope=self.kind, key=self.name)


def day_key(now: datetime, kind: str, name: str) -> str:
    """Name the account of one day: `2026-11-22/caller/ann`."""
    return f"{now:%Y-%m-%d}/{kind}/{name}"


class BudgetLimits:
    """The budget limits that people set, of one version, and which of them apply to a run."""

    def __init__(self, price_of: PriceOf) -> None:
        self._price_of = price_of
        self._by_project: dict[str, tuple[BudgetLimit, ...]] = {}
        self._budgeted: dict[str, bool] = {}

    def use(self, limits: Iterable[tuple[str, BudgetLimit]]) -> None:
        """Use these limits, each with its project, from now on."""
        found: dict[str, list[BudgetLimit]] = {}
        for project, limit in limits:
            found.setdefault(project, []).append(limit)
        self._by_project = {project: tuple(own) for project, own in found.items()}

    def scopes_of(
        self, run_id: UUID, task: RunCreated, snapshot: NetworkSnapshot, now: datetime
    ) -> tuple[RunBudgetAccount, ...]:
        """Return the accounts that a run spends from, the narrow ones first; none where nothing is limited."""
        limits = self._by_project.get(task.project)
        budgets = task.budget is not None or task.carve_outs or self._has_budgets(task.snapshot_digest, snapshot)
        if limits is None and not budgets:
            return ()
        root = task.budget_root or (run_id if task.parent is None else task.parent.root_id)  # what the task was given
        own = [_own_scope("run", str(one.run_id), one.budget) for one in reversed(task.carve_outs)]
        own += [] if task.budget is None else [_own_scope("run", str(root), task.budget)]
        agents = [
            _own_scope("agent", f"{root}/{agent.key}", agent.budget, agent.key)
            for agent in snapshot.agents.values()
            if agent.budget is not None
        ]
        shared = [one.scope(now) for one in limits or () if one.name == _name_of(one.kind, task)]
        return (*own, *agents, *shared)

    def _has_budgets(self, digest: str, snapshot: NetworkSnapshot) -> bool:
        known = self._budgeted.get(digest)
        if known is None:
            if len(self._budgeted) >= SNAPSHOTS_KEPT:
                self._budgeted.clear()
            known = any(agent.budget is not None for agent in snapshot.agents.values())
            self._budgeted[digest] = known
        return known

    def changed_scopes(self, state: RunState, now: datetime) -> BudgetAccountsAppliedFact | None:
        """Return the fact that tells a run which accounts it spends from, where it knows others."""
        if state.is_final or state.status is Status.QUARANTINED or state.task is None:
            return None
        scopes = self.scopes_of(state.run_id, state.task, state.snapshot, now)
        budget = state.budget
        if budget is None:
            if not scopes:
                return None
        elif [(a.scope, a.key) for a in map(budget.accounts.__getitem__, budget.path)] == [
            (scope.scope, scope.key) for scope in scopes
        ]:
            return None
        return BudgetAccountsAppliedFact(
            run_id=state.run_id, scopes=scopes, prices=self.prices(state.task, state.snapshot)
        )

    def prices(self, task: RunCreated, snapshot: NetworkSnapshot) -> dict[str, ModelPrice]:
        """Return what is known of the prices of every model that the run may ask."""
        found = {model: self._price_of(model) for model in models_of(task, snapshot)}
        return {model: price for model, price in found.items() if price is not None}

    def check(self, run_id: UUID, task: RunCreated, snapshot: NetworkSnapshot, now: datetime) -> bool:
        """Return whether a run spends from any account; raises ProblemError `price_unknown` without a price."""
        scopes = self.scopes_of(run_id, task, snapshot, now)
        if not scopes:
            return False
        shared = {(one.scope(now).scope, one.scope(now).key): one for one in self._by_project.get(task.project, ())}
        limits = [scope.limits or shared[scope.scope, scope.key].limits for scope in scopes]
        if all(one.usd_micros is None for one in limits):
            return True
        unpriced = sorted(model for model in models_of(task, snapshot) if self._price_of(model) is None)
        if unpriced:
            raise ProblemError(problem("price_unknown", f"no price is known of {', '.join(unpriced)}"))
        return True


def models_of(task: RunCreated, snapshot: NetworkSnapshot) -> set[str]:
    """Return every model that a run, and the runs below it, may ask."""
    agents = snapshot.agents.values()
    models = {task.model} if task.model else {one for agent in agents for one in (agent.model, *agent.fallback_models)}
    summary_model = task.background_settings.summarize_model if task.background is not None else None
    judges = (task.goal_settings.judge_model, _judge_below(task, snapshot))
    return {model for model in (*models, summary_model, *judges, task.planner_model) if model}


def _judge_below(task: RunCreated, snapshot: NetworkSnapshot) -> str | None:
    """Return the network's judge where goals may be pursued below the run: by a plan's agents, or members of a team.

    A script brings its judgements along. Members that the lead of a goal asks are judged as it is.
    """
    if snapshot.goal is None or task.script_digest is not None or task.single_instruction:
        return None
    given, swarm = None if task.plan is None else task.plan.plan, snapshot.swarm
    led: Iterable[CompiledSwarm] = () if swarm is None else (swarm,) if task.goal is None else swarm.swarms.values()
    return snapshot.goal.judge_model if criteria_in(given) or any(map(_has_team, led)) else None


def _has_team(swarm: CompiledSwarm) -> bool:
    return swarm.mode == "team" or any(map(_has_team, swarm.swarms.values()))


def _name_of(kind: str, task: RunCreated) -> str:
    return task.caller if kind == "caller" else task.project


def _own_scope(scope: Any, key: str, budget: Budget, agent_key: str = "") -> RunBudgetAccount:
    return RunBudgetAccount(
        scope=scope,
        key=key,
        agent_key=agent_key,
        limits=budget.limits(),
        soft=budget.soft,
        on_soft=budget.on_soft,
    )

"""Puts one replica together, on whatever stands for the database and the broker.

The parts form a line: publishers, windows, dispatcher, announcer, commit loop, requests. Each is complete when it is
made, and knows only parts that were made before it. Facts that the process makes for itself go into a queue that comes
first. `__main__` gives it Postgres and NATS; the simulation gives it tables and a broker in memory, so that what is
simulated is what runs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from towpath_contracts import rpc
from towpath_contracts.runs.forks import ForkRun
from towpath_contracts.streams import INBOX_CONSUMER, TASKS_CONSUMER
from towpath_contracts.tasks import RunAccepted
from towpath_fabric.dead_letters import DeadLetters
from towpath_fabric.ports import Database, MessageBus, MessageConsumer
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.redelivery.poison_messages import poison_guards
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_orchestrator.adapters.model_prices import ModelPrices
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.app.admission import AdmissionController
from towpath_orchestrator.app.api.budgets import BudgetRequests
from towpath_orchestrator.app.api.client_requests import ClientRequests, serve_clients
from towpath_orchestrator.app.api.commands import HeldCallResumer, RunCommands
from towpath_orchestrator.app.api.dead_letters import DeadLetterRequests
from towpath_orchestrator.app.api.earlier_runs import EarlierRunReader
from towpath_orchestrator.app.api.forks import RunForks
from towpath_orchestrator.app.api.grant_history import GrantHistory
from towpath_orchestrator.app.api.handlers import (
    TaskQueueConsumer,
    serve_budgets,
    serve_dead_letters,
    serve_replays,
    serve_services,
    serve_submits,
    serve_switches,
)
from towpath_orchestrator.app.api.network_registry import NetworkRegistry
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.replay_requests import ReplayRequests
from towpath_orchestrator.app.api.run_control import RunControl
from towpath_orchestrator.app.api.run_questions import Answer, ReadingTurns, RunQuestions, in_turn, serve_questions
from towpath_orchestrator.app.api.schema_compiler import SchemaCompiler
from towpath_orchestrator.app.api.submit import TaskIntake
from towpath_orchestrator.app.api.task_checks import TaskChecker
from towpath_orchestrator.app.budget_limits import BudgetLimitCache
from towpath_orchestrator.app.commit.batch_commit import BatchCommitter
from towpath_orchestrator.app.commit.budget_accounting import BudgetAccounting
from towpath_orchestrator.app.commit.commit_loop import CommitLoop
from towpath_orchestrator.app.commit.inbox import Inbox
from towpath_orchestrator.app.commit.output_reader import OutputReader
from towpath_orchestrator.app.commit.run_reader import BatchRunReader
from towpath_orchestrator.app.commit.run_telemetry import TransitionMetrics
from towpath_orchestrator.app.commit.state_snapshots import SnapshotSaver
from towpath_orchestrator.app.commit.transition_announcer import TransitionAnnouncer
from towpath_orchestrator.app.commit.workspace_texts import WorkspaceTextStore
from towpath_orchestrator.app.dispatch.child_messenger import ChildRunReporter
from towpath_orchestrator.app.dispatch.dispatch_windows import Backlog, WindowedDispatcher
from towpath_orchestrator.app.dispatch.effect_dispatcher import EffectDispatcher
from towpath_orchestrator.app.dispatch.pending_resend import ReconnectResend, StartupResend
from towpath_orchestrator.app.dispatch.publishers import EventPublisher, RequestPublisher
from towpath_orchestrator.app.dispatch.windowed_request_timers import WaitingRequestMonitor
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.app.project_quotas import ProjectQuotas
from towpath_orchestrator.app.reconciler import Reconciler
from towpath_orchestrator.app.run_activity import RunActivity
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.app.stored_bytes import StoredBytesCounter
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings


def _trace_nothing(_run_id: UUID) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorPorts:
    """Where a replica touches the world. `arrived` is set by *inbox*; `ensure` declares the broker's streams.

    `backlog` returns how much waits at the broker; without it windows stay as wide as they are set. `trace_run` is
    called with every run that has ended. Lists are read from *reads*, where it is given.
    """

    pool: Database
    bus: MessageBus
    inbox: MessageConsumer
    tasks: MessageConsumer
    arrived: asyncio.Event
    ensure: Callable[[], Awaitable[None]]
    reads: Database | None = None
    backlog: Backlog | None = None
    trace_run: Callable[[UUID], None] = _trace_nothing


class OrchestratorWiring:
    """One replica. `answer` registers what it answers; then every one of `loops` runs for ever, or until it returns."""

    def __init__(
        self, ports: OrchestratorPorts, settings: OrchestratorSettings, metrics: OrchestratorMetrics, log: Logger
    ) -> None:
        pool, bus, prices = ports.pool, ports.bus, ModelPrices(settings.model_prices_file)
        self._bus, self._settings = bus, settings
        store, cache, lane = RunStore(pool), StateCache(settings.cache_runs), PinnedDatabaseConnection(pool)
        local_facts = LocalFactQueue(ports.arrived)
        limits = BudgetLimitCache(pool, prices.price_of)

        publisher, children = RequestPublisher(bus, metrics, local_facts), ChildRunReporter(pool, bus, log)
        self._windows = windows = WindowedDispatcher(publisher.publish, settings, metrics, ports.backlog)
        dispatcher = EffectDispatcher(bus, local_facts, windows, children, metrics)
        self.activity, self.stored, observed = RunActivity(), StoredBytesCounter(), TransitionMetrics(metrics, log)
        admission = AdmissionController(pool, settings, metrics, local_facts, log, self.activity)
        announcer = TransitionAnnouncer(
            EventPublisher(bus), children, admission, cache, local_facts, observed, self.stored, ports.trace_run
        )

        accounting, texts = BudgetAccounting(limits, metrics.refused), WorkspaceTextStore(pool, store)
        guard = poison_guards(pool, log, max_deaths=settings.max_handling_deaths)
        of_tasks = guard(TASKS_CONSUMER, ports.tasks, yields=True)  # a task may wait seconds for TAS
        dead = DeadLetters(pool, "INBOX", metrics.dead, log, local_facts.add_dead)
        of_inbox = ports.inbox, local_facts, dead, metrics, cache.caller_of, guard(INBOX_CONSUMER, ports.inbox)
        commit_loop = CommitLoop(
            inbox=Inbox(*of_inbox, batch_size=settings.batch_size, cost_of=prices.cost_of),
            local_facts=local_facts,
            reader=BatchRunReader(lane, store, cache, accounting, metrics, log),
            store=store,
            cache=cache,
            accounting=accounting,
            texts=texts,
            outputs=OutputReader(pool, log),
            committer=BatchCommitter(lane, accounting, texts, metrics, log),
            snapshots=SnapshotSaver(store, settings.snapshot_every, log),
            dispatcher=dispatcher,
            announcer=announcer,
            metrics=metrics,
            log=log,
        )

        self._registry = NetworkRegistry(pool, store, bus, FairThreads())
        self._turns, schemas = ReadingTurns(), SchemaCompiler(FairThreads())
        of_threads = EarlierRunReader(pool, store, self._turns.pages)
        self._checker = checker = TaskChecker(pool, store, bus, settings, self._registry.find, schemas, of_threads)
        self._switches = HeldCallResumer(pool, local_facts)
        self._quotas = ProjectQuotas(pool, bus, metrics, local_facts)
        self._intake = intake = TaskIntake(
            pool, checker, cache, local_facts, dispatcher, announcer, settings, limits, admission, self._quotas
        )
        self._queries = RunQueries(pool, announcer.changes, announcer.endings, reads=ports.reads)
        self._commands, self._control = RunCommands(self._queries, bus, pool), RunControl(self._queries, bus)
        self.dead_letters = DeadLetterRequests(pool, bus, local_facts, metrics, log)
        self._grants = GrantHistory(pool, store, bus, self._registry)
        self._budgets, self._replays = BudgetRequests(pool, bus, limits), ReplayRequests(pool)
        self._forks = RunForks(pool, intake, bus, settings, self._registry.find, self._turns.pages)
        of_runs = local_facts, admission, settings, log, limits, self.activity
        self.reconciler = Reconciler(pool, *of_runs, metrics)
        task_letters = DeadLetters(pool, "TASKS", metrics.dead, log)
        self.loops: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (
            commit_loop.run,
            intake.run,
            self.reconciler.run,
            admission.run,
            windows.run,
            WaitingRequestMonitor(pool, store, cache, windows, log).run,
            ReconnectResend(bus, cache, dispatcher, ports.ensure).run,
            self.reconciler.clean_up,
            StartupResend(pool, store, dispatcher, log, most=settings.max_active_runs).run,
            TaskQueueConsumer(ports.tasks, intake, checker, task_letters, of_tasks, log).run,
        )

    async def answer(self) -> Callable[[], Awaitable[None]]:
        """Answer clients and services; returns what ends the answers to clients."""
        clients = ClientRequests(self._intake, self._checker, self._queries, self._commands, self._control)
        serve_services(self._bus, self._queries, self._registry)
        serve_dead_letters(self._bus, self.dead_letters)
        serve_replays(self._bus, self._replays)
        serve_switches(self._bus, self._switches)
        serve_budgets(self._bus, self._budgets, self._quotas)
        stops = (
            await serve_clients(self._bus, clients),
            await serve_questions(self._bus, RunQuestions(self._queries, self._turns), self._questions()),
            await serve_submits(self._bus, clients, self._settings, self._windows),
        )

        async def stop() -> None:
            await asyncio.gather(*(each() for each in stops))

        return stop

    def _questions(self) -> tuple[Answer, ...]:
        """Return what else is answered in turns of projects. A fork takes its turn itself, when it reads."""
        pages, looks, acts = self._turns.pages, self._turns.looks, self._turns.acts

        async def fork(request: ForkRun, _project: str) -> RunAccepted:
            return await self._forks.fork(request)

        return (
            (rpc.LIST_NETWORKS, in_turn(self._registry.list, pages)),
            (rpc.GET_NETWORK, in_turn(self._registry.show, pages)),
            (rpc.PREVIEW_PROMPT, in_turn(self._registry.preview, pages)),
            (rpc.RECORD, in_turn(self._replays.record, pages)),
            (rpc.LIST_DEAD_LETTERS, in_turn(self.dead_letters.list, pages)),
            (rpc.SHOW_BUDGETS, in_turn(self._budgets.show, looks)),
            (rpc.SHOW_QUOTA, in_turn(self._quotas.show, looks)),
            (rpc.GRANT_FROM_RUNS, in_turn(self._grants.propose, looks)),
            (rpc.FORK_RUN, fork),
            (rpc.STEER_RUN, in_turn(self._control.steer, acts)),
            (rpc.CANCEL_RUN, in_turn(self._commands.cancel, acts)),
            (rpc.LABEL_RUN, in_turn(self._commands.label, acts)),
            (rpc.RESOLVE_GATE, in_turn(self._commands.resolve_gate, acts)),
            (rpc.DELEGATE_GATE, in_turn(self._commands.delegate_gate, acts)),
        )

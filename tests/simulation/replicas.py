"""The real services, wired as their `__main__` wires them, on the simulation's database, broker and clock."""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from tests.simulation.clockwork import Clockwork, Process
from tests.simulation.database import Database, Pool
from tests.simulation.wire import Feed, SimBus

from towpath_contracts import rpc
from towpath_contracts.streams import INBOX_CONSUMER, TASKS_CONSUMER, TOOLOUT_CONSUMER, TOOLREQ_CONSUMER
from towpath_fabric.lane import Lane
from towpath_fabric.tickets import TicketSigner
from towpath_orchestrator import app as orchestrator_app
from towpath_orchestrator import loop as commit_loop
from towpath_orchestrator.acting import Acting
from towpath_orchestrator.adapters.run_tables import RunTables
from towpath_orchestrator.metrics import Metrics as RunMetrics
from towpath_orchestrator.reading import Reading
from towpath_orchestrator.reconciler import Reconciler
from towpath_orchestrator.registry import Registry
from towpath_orchestrator.resuming import Resuming
from towpath_orchestrator.sender import Sender as RunSender
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_orchestrator.submit import Intake
from towpath_tas.app.aside import DeadLetters
from towpath_tas.app.book import Book, Clock
from towpath_tas.app.claims import Claims
from towpath_tas.app.laws import Laws
from towpath_tas.app.outcomes import Outcomes
from towpath_tas.app.requests import Requests
from towpath_tas.app.sending import Sender as CallSender
from towpath_tas.app.sending import Tickets
from towpath_tas.app.settling import Settling
from towpath_tas.metrics import Metrics as CallMetrics

TICKET_LIFE_S = 20

RUN_METRICS = RunMetrics(CollectorRegistry())
CALL_METRICS = CallMetrics(CollectorRegistry())
"""Shared by every simulation in this process: only their differences are read."""


class SimLog:
    """Keeps what no service should ever have to say."""

    def __init__(self, name: str, complain: Callable[[str], None]) -> None:
        self._name = name
        self._complain = complain

    def debug(self, _text: str, **_more: Any) -> None: ...

    info = warning = debug

    def error(self, text: str, **more: Any) -> None:
        self._complain(f"{self._name}: {text} {more}")


class Replica:
    """One process of a service. Its loops run for ever; one that ends is a fault of the code."""

    def __init__(self, loop: Clockwork, process: Process, complain: Callable[[str], None]) -> None:
        self.loop = loop
        self.process = process
        self.log: Any = SimLog(process.name, complain)
        self._complain = complain

    def run(self, part: Any) -> None:
        """Run a loop of the service."""
        task = self.loop.spawn(self.process, part(), getattr(part, "__qualname__", "loop"))
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not self.process.dead and not task.cancelled() and task.exception() is not None:
            self._complain(f"{self.process.name}: {task.get_name()} ended by {task.exception()!r}")


async def start_orchestrator(replica: Replica, database: Database, bus: SimBus, settings: OrchestratorSettings) -> None:
    """Start one replica of the orchestrator."""
    pool: Any = Pool(database, replica.process)
    anything: Any = bus
    arrived = asyncio.Event()
    inbox: Any = Feed(bus, INBOX_CONSUMER, arrived=arrived)
    tasks: Any = Feed(bus, TASKS_CONSUMER)
    tables = RunTables(pool)
    loop = commit_loop.CommitLoop(pool, tables, inbox, arrived, settings, RUN_METRICS, replica.log)
    sender = loop.sender = RunSender(anything, RUN_METRICS, loop.add)
    intake = Intake(pool, tables, loop, settings, Registry(pool, tables, anything).find)
    reading = Reading(pool, loop.waiters, loop.endings)
    acting = made(Acting, reading=reading, bus=anything, loop=loop, pool=pool)
    orchestrator_app.serve_clients(anything, orchestrator_app.Clients(intake, reading, acting))
    bus.answer(rpc.GET_RUN, reading.get_run)
    bus.answer(rpc.LIST_GATES, reading.list_gates)
    bus.answer(rpc.RESOLVE_GATE, acting.resolve_gate)
    await bus.serve()
    replica.run(loop.run)
    replica.run(intake.run)
    replica.run(Reconciler(pool, loop, intake, settings, RUN_METRICS, replica.log).run)
    replica.run(partial(sender.follow_reconnects, loop.cache.states))
    replica.run(Resuming(pool, tables, sender, replica.log, most=settings.max_active_runs).run)
    replica.run(orchestrator_app.Enqueued(tasks, intake, pool, replica.log).run)


async def start_tas(replica: Replica, database: Database, bus: SimBus, signer: TicketSigner, size: int) -> None:
    """Start one replica of the tool-access service."""
    pool: Any = Pool(database, replica.process)
    anything: Any = bus
    clock = Clock()
    book = Book(Laws(CALL_METRICS), clock, CALL_METRICS, replica.log, cache_calls=64)
    while not await told_time(book, pool):
        await asyncio.sleep(0.5)
    tickets = Tickets(signer, clock, TICKET_LIFE_S)
    sender = CallSender(anything, tickets, CALL_METRICS)
    asked: Any = Feed(bus, TOOLREQ_CONSUMER)
    ended: Any = Feed(bus, TOOLOUT_CONSUMER)
    settling = Settling(pool, book, sender)
    bus.answer(rpc.RAISE_FENCE, settling.raise_fence)
    bus.answer(rpc.RESOLVE_APPROVAL, settling.resolve_approval)
    bus.answer(rpc.SETTLE_CALL, settling.settle_call)
    metrics, log = CALL_METRICS, replica.log
    requests = Requests(
        *(asked, Lane(pool), book, sender, DeadLetters(pool, "TOOLREQ", metrics, log), metrics, log), batch_size=size
    )
    outcomes = Outcomes(
        *(ended, Lane(pool), book, sender, tickets, anything, DeadLetters(pool, "TOOLOUT", metrics, log)),
        *(metrics, log),
        batch_size=size,
    )
    claims = Claims(anything, Lane(pool), book, sender, tickets, metrics, log)
    await claims.start()
    await bus.serve()
    for part in (requests.run, outcomes.run, claims.run):
        replica.run(part)


async def told_time(book: Book, pool: Any) -> bool:
    """Ask Postgres for its time; False while it is away."""
    try:
        await book.learn_time(pool)
    except OSError:
        return False
    except Exception as error:
        if "connection was closed" in str(error):
            return False
        raise
    return True


def made(kind: Any, **parts: Any) -> Any:
    """Make *kind* from those of *parts* that its constructor names."""
    names = inspect.signature(kind).parameters
    return kind(**{name: part for name, part in parts.items() if name in names})

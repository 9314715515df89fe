"""The real services, wired as their `__main__` wires them, on the simulation's database, broker and clock."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
from prometheus_client import CollectorRegistry
from tests.simulation.outside.clock import SimProcess, VirtualTimeLoop
from tests.simulation.outside.database import Database, Pool
from tests.simulation.outside.message_bus import MessageFeed, SimBus

from towpath_contracts import rpc
from towpath_contracts.streams import INBOX_CONSUMER, TASKS_CONSUMER, TOOLOUT_CONSUMER, TOOLREQ_CONSUMER
from towpath_fabric.tickets import TicketSigner
from towpath_orchestrator import wiring as orchestrator
from towpath_orchestrator.metrics import OrchestratorMetrics as RunMetrics
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_tas.app.audit.audit_queries import AuditQueries
from towpath_tas.metrics import TasMetrics as CallMetrics
from towpath_tas.settings import TasSettings
from towpath_tas.wiring import call_wiring as tas

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

    def __init__(self, loop: VirtualTimeLoop, process: SimProcess, complain: Callable[[str], None]) -> None:
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
    arrived = asyncio.Event()
    anything: dict[str, Any] = {
        "pool": Pool(database, replica.process),
        "bus": bus,
        "inbox": MessageFeed(bus, INBOX_CONSUMER, arrived=arrived),
        "tasks": MessageFeed(bus, TASKS_CONSUMER),
    }
    ports = orchestrator.OrchestratorPorts(**anything, arrived=arrived, ensure=_nothing)
    wiring = orchestrator.OrchestratorWiring(ports, settings, RUN_METRICS, replica.log)
    await wiring.answer()
    await bus.serve()
    for loop in wiring.loops:
        replica.run(loop)


async def start_tas(
    replica: Replica, database: Database, bus: SimBus, signer: TicketSigner, settings: TasSettings
) -> None:
    """Start one replica of the tool-access service."""
    anything: dict[str, Any] = {
        "pool": Pool(database, replica.process),
        "bus": bus,
        "asked": MessageFeed(bus, TOOLREQ_CONSUMER),
        "ended": MessageFeed(bus, TOOLOUT_CONSUMER),
    }
    parts = tas.CallWiring(tas.TasConnections(**anything), signer, settings, CALL_METRICS, replica.log)
    while not await _learned_time(parts):  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.5)
    parts.answer()
    tas.serve(anything["bus"], rpc.RECORD_ACTION, AuditQueries(anything["pool"]).record)
    await parts.claims.start()
    await bus.serve()
    for loop in parts.loops:
        replica.run(loop)


async def _nothing() -> None:
    return


async def _learned_time(parts: tas.CallWiring) -> bool:
    """Ask Postgres for its time; False while it is away, when the real process would end and be started again."""
    try:
        await parts.read_time()
    except (OSError, asyncpg.PostgresError):
        return False
    return True

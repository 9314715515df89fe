"""The services of a platform in this process, wired as their own processes wire them, over memory."""

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry

from towpath.hooks import Hook
from towpath.toolbox import WorkerTools
from towpath_contracts import rpc, subjects
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events.log import LogEntry
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.streams import (
    INBOX_CONSUMER,
    TASKS_CONSUMER,
    TOOLOUT_CONSUMER,
    TOOLREQ_CONSUMER,
    decide_consumer,
)
from towpath_contracts.tools.calls import ToolSpec
from towpath_decider.adapters.provider import Provider
from towpath_decider.adapters.script_source import BlobScriptSource, FileScriptSource
from towpath_decider.adapters.scripted import ScriptedProvider
from towpath_decider.app.decision_service import DecisionMaker
from towpath_fabric.clock import wall
from towpath_fabric.nats.pull_consumer import ack
from towpath_fabric.prices.model_price_list import ModelPriceList
from towpath_fabric.tickets import TicketSigner
from towpath_orchestrator import wiring as orchestrator
from towpath_orchestrator.adapters.run_store import read_entry
from towpath_orchestrator.app.api.network_registry import compile_checked
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_tas.adapters.policy_texts import PolicyText
from towpath_tas.app.audit.audit_queries import AuditQueries
from towpath_tas.core.policy.policy_file import rule_row
from towpath_tas.core.tools.registry import spec_digest
from towpath_tas.metrics import TasMetrics
from towpath_tas.settings import TasSettings
from towpath_tas.wiring import call_wiring as tas
from towpath_testing.memory.database import MemoryDatabase, MemoryPool
from towpath_testing.memory.message_bus import MemoryBus, MessageFeed
from towpath_testing.metrics import uncounted
from towpath_testing.models import EveryProvider, FunctionProvider, ModelFunction
from towpath_testing.provider_models import ProviderModels
from towpath_testing.refusals import GIVE_MODEL
from towpath_testing.tables.budget_rows import BudgetRows
from towpath_testing.tables.ledger_rows import LedgerRows
from towpath_testing.tables.origin_rows import OriginRows
from towpath_testing.tables.run_rows import RunRows
from towpath_testing.tables.switch_rows import SwitchRows
from towpath_testing.worker import HarnessWorker

PROJECT = "default"
CALLER = "tester"


class MemoryPlatform:
    """One replica of each service. `start` begins; nothing of it is left after `close`."""

    def __init__(
        self,
        toolbox: WorkerTools,
        hooks: tuple[Hook, ...],
        model: ModelFunction | ProviderModels | None,
        log: Any,
        scripts: Path | None = None,
    ) -> None:
        """*scripts* is the folder with the scripts of `scripted:` models."""
        self.log = log
        self.database = MemoryDatabase()
        self.runs = RunRows(self.database)
        self.budgets = BudgetRows(self.database, self.runs)
        self.ledger = LedgerRows(self.database, self.runs)
        OriginRows(self.database, self.ledger, self.runs)
        SwitchRows(self.database, self.ledger, self.runs, self._complain)
        self.bus = MemoryBus(lambda name, error: log.error("a part of the platform failed", part=name, exc_info=error))
        self.runs.callers[CALLER] = PROJECT
        signer = TicketSigner(Ed25519PrivateKey.generate())
        self._orchestrator = self._wire_orchestrator()
        self._tas = self._wire_tas(signer)
        self._deciding = MessageFeed(self.bus, decide_consumer(subjects.DEFAULT_POOL))
        providers, prices = self._providers(model, scripts)
        self._decider = DecisionMaker(providers, prices=prices)
        self._worker = HarnessWorker(self.bus, toolbox, hooks, signer.public_keys(), PROJECT, log)
        self.tools: dict[str, ToolSpec] = {}
        for specs in toolbox.toolsets().values():
            for one in specs:
                self.register(one.spec)

    def _complain(self, text: str) -> None:
        self.log.error(text)

    def _wire_orchestrator(self) -> orchestrator.OrchestratorWiring:
        arrived = asyncio.Event()
        anything: dict[str, Any] = {
            "pool": MemoryPool(self.database),
            "bus": self.bus,
            "inbox": MessageFeed(self.bus, INBOX_CONSUMER, arrived),
            "tasks": MessageFeed(self.bus, TASKS_CONSUMER),
        }
        ports = orchestrator.OrchestratorPorts(**anything, arrived=arrived, ensure=_nothing)
        settings, metrics = _orchestrator_settings(), _run_metrics()
        return orchestrator.OrchestratorWiring(ports, settings, metrics, self.log)

    def _wire_tas(self, signer: TicketSigner) -> tas.CallWiring:
        anything: dict[str, Any] = {
            "pool": MemoryPool(self.database),
            "bus": self.bus,
            "asked": MessageFeed(self.bus, TOOLREQ_CONSUMER),
            "ended": MessageFeed(self.bus, TOOLOUT_CONSUMER),
        }
        settings, metrics = _tas_settings(), _call_metrics()
        return tas.CallWiring(tas.TasConnections(**anything), signer, settings, metrics, self.log)

    def _providers(
        self, model: ModelFunction | ProviderModels | None, scripts: Path | None
    ) -> tuple[Mapping[str, Provider], ModelPriceList | None]:
        blobs = BlobScriptSource(self.bus)
        files = FileScriptSource(scripts)
        scripted = ScriptedProvider(blobs=blobs, files=files, allowed=True, none_sent=GIVE_MODEL)
        match model:
            case None:
                return EveryProvider(scripted), None
            case ProviderModels():
                return model.open(scripted, self.log)
            case _:
                return EveryProvider(FunctionProvider(model)), None

    def register(self, spec: ToolSpec) -> None:
        """Accept a tool."""
        self.tools[spec.name] = spec
        row = {"name": spec.name, "version": 1, "digest": spec_digest(spec), "spec": spec.model_dump_json()}
        self.ledger.tools_of[PROJECT].append({**row, "owner": CALLER, "held_by": 0, "doubt": ""})

    def apply(self, policy: PolicyText) -> None:
        """Put a policy in force."""
        version, registry = self.ledger.versions.get(PROJECT, (0, 0))
        self.ledger.rules_of[PROJECT] = [json.dumps(rule_row(rule)) for rule in policy.read.rules]
        self.ledger.versions[PROJECT] = (version + 1, registry + 1)

    def publish(self, spec: NetworkSpec) -> None:
        """Check and publish a network; raises ProblemError `network_invalid` with everything that is wrong."""
        compiled = compile_checked(spec, self.tools, register="")
        self.runs.snapshots[compiled.address] = compiled.text
        version = {"project": PROJECT, "name": spec.name, "version": 1, "digest": compiled.address}
        self.runs.versions.append({**version, "published_at": wall(), "published_by": CALLER})

    async def start(self) -> None:
        """Answer requests and begin to work."""
        await self._orchestrator.answer()
        await self._tas.read_time()
        self._tas.answer()
        tas.serve(self.bus, rpc.RECORD_ACTION, AuditQueries(MemoryPool(self.database)).record)
        await self._tas.claims.start()
        await self._worker.start()
        for loop in (*self._orchestrator.loops, *self._tas.loops, self._decide):
            self.bus.spawn(loop(), getattr(loop, "__qualname__", "loop"))

    def has_ended(self, run_id: UUID) -> bool:
        """Return whether a run has ended; asked after every step, so it is looked up and not requested."""
        return self.runs.runs[run_id]["status"] in FINAL_STATUSES

    def log_of(self, run_id: UUID) -> Callable[[], tuple[LogEntry, ...]]:
        """Return what reads the log of a run as it is now; most tests look at a few of their results' logs only."""
        rows = self.runs.log_of(run_id)
        return lambda: tuple(read_entry(row) for row in rows)

    def any_run_goes_on(self) -> bool:
        """Return whether any run, also one below another, has not ended yet."""
        # Those that go on are mostly among the last that were begun.
        return any(run["status"] not in FINAL_STATUSES for run in reversed(self.runs.runs.values()))

    async def tell_ends(self) -> None:
        """Call the hooks of runs that have ended, as a worker does after its next heartbeat."""
        await self._worker.tell_ends(self.has_ended)

    def any_gate_waits(self) -> bool:
        """Return whether any gate is open."""
        return bool(self.runs.gates.waiting)

    def waiting_gates(self) -> list[UUID]:
        """Return the gates that wait, in the order in which a list of them has them."""
        order = sorted((gate["opened_at"], gate_id) for gate_id, gate in self.runs.gates.waiting.items())
        return [gate_id for _, gate_id in order]

    async def look(self) -> None:
        """Look for what is overdue."""
        await self._orchestrator.reconciler.look()

    async def _decide(self) -> None:
        while True:
            for message in await self._deciding.take(16):
                self.bus.spawn(self._answer(message), "decision")

    async def _answer(self, message: Any) -> None:
        request = DecisionRequest.model_validate_json(message.data)
        finished = await self._decider.answer(request)
        await self.bus.store(subjects.run_inbox("decider", request.run_id), finished.fact.model_dump_json().encode())
        await ack(message)

    async def close(self) -> None:
        """End everything."""
        await self.bus.close()
        self._worker.close()
        await self._decider.close()


async def _nothing() -> None:
    return


@cache
def _orchestrator_settings() -> OrchestratorSettings:
    return OrchestratorSettings(embedded=True)


@cache
def _tas_settings() -> TasSettings:
    return TasSettings(embedded=True)


@cache
def _run_metrics() -> OrchestratorMetrics:
    """Return metrics that count nothing; made once, since there are many."""
    return uncounted(OrchestratorMetrics(CollectorRegistry()))


@cache
def _call_metrics() -> TasMetrics:
    return uncounted(TasMetrics(CollectorRegistry()))

"""Builds the objects of one replica and connects them to the broker and the database.

Only this module, and `audit_wiring.py` for the audit log, know which object needs which other. `CallWiring` holds the
path of a call, on any database and broker: `__main__` gives it Postgres and NATS, the simulation its versions in
memory, so the code that is simulated is the code that runs.
"""

import functools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from towpath_contracts import rpc
from towpath_contracts.base import Message
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.streams import TOOLOUT_CONSUMER, TOOLREQ_CONSUMER
from towpath_fabric.dead_letters import DeadLetters, NotifyRun
from towpath_fabric.ports import Database, MessageBus, MessageConsumer
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.redelivery.poison_messages import poison_guards
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_fabric.tickets import TicketSigner
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_tas.app.calls.dead_letters import WorkerDeadLetters
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher, TicketIssuer
from towpath_tas.app.calls.ledger_commands import LedgerCommands
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.app.calls.start_claims import StartClaimServer
from towpath_tas.app.calls.stop_switches import SwitchCommands
from towpath_tas.app.calls.tool_outcomes import ToolOutcomeConsumer, outcome_number
from towpath_tas.app.calls.tool_requests import ToolRequestConsumer
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.calls.internal_calls import platform_tools
from towpath_tas.metrics import TasMetrics
from towpath_tas.settings import TasSettings

Handler = Callable[[Any], Awaitable[Message]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TasConnections:
    """A replica's connections: `asked` delivers tool requests, `ended` delivers outcomes."""

    pool: Database
    bus: MessageBus
    asked: MessageConsumer
    ended: MessageConsumer
    telemetry: SpanRecorder | None = None


def serve_in_turns(bus: MessageBus, method: rpc.RpcMethod, handler: Handler, turns: WorkTurns) -> None:
    """Answer *method* like `serve`, in turns of the projects that requests name; `overloaded` where none comes."""

    @functools.wraps(handler)
    async def in_turn(*request: Any, **named_request: Any) -> Message:
        [asked] = (*request, *named_request.values())
        async with turns.held(asked.project):
            return await handler(*request, **named_request)

    serve(bus, method, in_turn)


def serve(bus: MessageBus, method: rpc.RpcMethod, handler: Handler) -> None:
    """Answer *method*; while Postgres is down answer `unavailable`, so that callers don't wait for a timeout."""

    # FastStream passes the request by the name that the handler gives it, and the bus of simulations by its place.
    @functools.wraps(handler)
    async def reachable(*request: Any, **named_request: Any) -> Message:
        try:
            return await handler(*request, **named_request)
        except DATABASE_DOWN as error:
            raise ProblemError(problem("unavailable", "the ledger can't be reached", retry_after_s=2)) from error

    bus.subscriber(method)(reachable)


class CallWiring:
    """The objects on the path of a call. Call `read_time`, then `answer` and `claims.start`, then run all `loops`."""

    def __init__(
        self, ports: TasConnections, signer: TicketSigner, settings: TasSettings, metrics: TasMetrics, log: Logger
    ) -> None:
        self._ports = ports
        self._metrics = metrics
        self._log = log
        pool, bus, size = ports.pool, ports.bus, settings.batch_size
        self.policy_cache = PolicyCache(
            *(metrics, platform_tools(orchestrate=settings.agent_orchestrate_enabled), log),
            explains_in_runs=settings.embedded and settings.auth != "on",  # one person's own
        )
        clock = PostgresClock()
        self.ledger = ledger = LedgerStore(self.policy_cache, clock, metrics, log, cache_calls=settings.cache_calls)
        self.tickets = TicketIssuer(signer, clock, settings.ticket_life_s)
        dispatcher = LedgerEffectPublisher(bus, self.tickets, metrics)
        self._commands = LedgerCommands(pool, ledger, dispatcher, single_person=settings.single_person)
        self._switches = SwitchCommands(pool, bus, dispatcher, log)
        self.dead_letters = WorkerDeadLetters(pool, bus, ledger, dispatcher, metrics, log)
        guard = poison_guards(pool, log, max_deaths=settings.max_handling_deaths)
        requests = ToolRequestConsumer(
            *(
                ports.asked,
                PinnedDatabaseConnection(pool),
                ledger,
                dispatcher,
                self._dead("TOOLREQ", self.dead_letters.send_fact),
                guard(TOOLREQ_CONSUMER, ports.asked),
                metrics,
                log,
            ),
            batch_size=size,
            telemetry=ports.telemetry,
        )
        outcomes = ToolOutcomeConsumer(
            *(
                ports.ended,
                PinnedDatabaseConnection(pool),
                ledger,
                dispatcher,
                self.tickets,
                bus,
                self._dead("TOOLOUT"),
                guard(TOOLOUT_CONSUMER, ports.ended, key_of=outcome_number),
            ),
            *(metrics, log),
            batch_size=size,
        )
        self.claims = StartClaimServer(
            bus, PinnedDatabaseConnection(pool), ledger, dispatcher, self.tickets, metrics, log
        )
        self.loops: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (
            requests.run,
            outcomes.run,
            self.claims.run,
        )

    async def read_time(self) -> None:
        """Set the replica's clock from Postgres, before anything else."""
        await self.ledger.read_time(self._ports.pool)

    def answer(self) -> None:
        """Answer requests of the orchestrator and of people about calls."""
        bus = self._ports.bus
        serve(bus, rpc.RAISE_FENCE, self._commands.raise_fence)
        serve(bus, rpc.RESOLVE_APPROVAL, self._commands.resolve_approval)
        serve(bus, rpc.SETTLE_CALL, self._commands.settle_call)
        serve(bus, rpc.RECORD_OUTCOME, self._commands.record_outcome)
        serve(bus, rpc.SET_SWITCH, self._switches.set)
        serve(bus, rpc.LIST_SWITCHES, self._switches.list)
        serve(bus, rpc.DEAD_LETTER_CALLS, self.dead_letters.report)
        serve(bus, rpc.REPUBLISH, self.dead_letters.republish)

    def _dead(self, stream: str, tell: NotifyRun | None = None) -> DeadLetters:
        return DeadLetters(self._ports.pool, stream, self._metrics.dead, self._log, tell)

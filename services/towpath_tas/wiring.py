"""Builds the objects of one replica and connects them to the broker and the database.

Only this module knows which object needs which other. `CallWiring` holds the path of a call, on any database and
broker: `__main__` gives it Postgres and NATS, the simulation its versions in memory, so the code that is simulated is
the code that runs.

A replica without a sealing key does not start: an audit that is not sealed would prove nothing.
"""

import functools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from faststream import Path

from towpath_audit.notes import NoteError, PublicKey, Signer, read_keys
from towpath_contracts import rpc
from towpath_contracts.base import Message
from towpath_contracts.dead_letters import ReportDeadLetter
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.streams import TOOLOUT_CONSUMER, TOOLREQ_CONSUMER
from towpath_contracts.subjects import for_toolset, tool_exec
from towpath_contracts.tools.calls import RegisterTools, ToolsRegistered
from towpath_contracts.tools.retention import TasRetention
from towpath_contracts.tools.workers import WorkerBeat, WorkerHeard
from towpath_fabric.dead_letters import DeadLetters, NotifyRun
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.long_requests import FEW_BRACKETS, LongRequestReader
from towpath_fabric.ports import Database, MessageBus, MessageConsumer
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.redelivery.poison_messages import poison_guards
from towpath_fabric.service import Service
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_fabric.tickets import TicketSigner
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_tas.adapters.checkpoints import CheckpointFilePublisher, CheckpointLogPublisher, CheckpointUrlPublisher
from towpath_tas.adapters.keys import KeyFileError, load_key
from towpath_tas.app.audit.audit_export import AuditLogRequests
from towpath_tas.app.audit.audit_proofs import AuditProofs
from towpath_tas.app.audit.audit_queries import CallBlobRequests
from towpath_tas.app.audit.erasures import Erasures
from towpath_tas.app.audit.housekeeping import AuditRetention, RetentionQueries
from towpath_tas.app.audit.run_retention import RunPruning, RunRetention
from towpath_tas.app.audit.sealer import CheckpointPublisher, Sealer
from towpath_tas.app.calls.dead_letters import WorkerDeadLetters
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher, TicketIssuer
from towpath_tas.app.calls.ledger_commands import LedgerCommands
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.app.calls.start_claims import StartClaimServer
from towpath_tas.app.calls.stop_switches import SwitchCommands
from towpath_tas.app.calls.tool_outcomes import ToolOutcomeConsumer, outcome_number
from towpath_tas.app.calls.tool_requests import ToolRequestConsumer
from towpath_tas.app.policy.tool_registration import ToolRegistrations
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.app.worker_instances import WorkerInstances
from towpath_tas.app.worker_turns import WorkerTurns
from towpath_tas.core.calls.internal_calls import platform_tools
from towpath_tas.core.erasure_rules import ErasureRules
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


AUDIT_READINGS = 1
"""Requests that read the audit at the same time. Each holds a connection or the loop for long, and those that no loop
keeps are few: stop switches, approvals, fences and seals need one too."""

AUDIT_WAIT_S = 4.0
"""How long such a request waits for its turn: the gateway waits for most answers for five seconds."""


def audit_turns() -> WorkTurns:
    """Return the turns of projects at reading the audit."""
    return WorkTurns(AUDIT_READINGS, lambda _: AUDIT_READINGS, AUDIT_WAIT_S)


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


SEAL_KEY_NAME = "seal.key"
"""File name of the embedded platform's sealing key, next to the ticket key."""


def note_signer(settings: TasSettings) -> Signer:
    """Return the signer of checkpoints; on the embedded platform its key is created. Raises KeyFileError."""
    path = settings.seal_key_file
    if path is None and settings.embedded and settings.ticket_key_file is not None:
        path = settings.ticket_key_file.with_name(SEAL_KEY_NAME)
    if path is None:
        msg = "TOWPATH_SEAL_KEY_FILE is not set, and the audit has to be sealed; make a key: towpath keys seal FILE"
        raise KeyFileError(msg)
    try:
        return Signer(settings.audit_origin, load_key(path, create=settings.embedded, what="sealing key"))
    except NoteError as error:
        raise KeyFileError(f"TOWPATH_AUDIT_ORIGIN: {error}") from error


def other_seal_keys(settings: TasSettings) -> list[PublicKey]:
    """Return the keys that checkpoints of this log may bear besides the own. Raises KeyFileError."""
    texts = [text for text in settings.seal_other_keys.split(",") if text.strip()]
    try:
        keys = read_keys(texts)
    except NoteError as error:
        raise KeyFileError(f"TOWPATH_SEAL_OTHER_KEYS: {error}; show a key: towpath audit checkpoint") from error
    strange = [key.name for key in keys if key.name != settings.audit_origin]
    if strange:
        msg = f"TOWPATH_SEAL_OTHER_KEYS has a key of another log, {strange[0]}; this one is {settings.audit_origin}"
        raise KeyFileError(msg)
    return keys


def start_audit(service: Service, settings: TasSettings, signer: Signer, metrics: TasMetrics, turns: WorkTurns) -> None:
    """Answer requests about the audit log, and start to seal it."""
    pool, bus, log = service.pool, service.bus, service.log
    outlets: list[CheckpointPublisher] = [CheckpointLogPublisher(log)]
    if settings.checkpoint_file is not None:
        outlets.append(CheckpointFilePublisher(settings.checkpoint_file, log))
    if settings.checkpoint_url:
        outlets.append(CheckpointUrlPublisher(settings.checkpoint_url, log))
    sealer = Sealer(
        *(pool, signer, outlets, metrics, log),
        every_s=settings.seal_every_s,
        idle_s=settings.seal_idle_s,
        publish_s=settings.checkpoint_every_s,
        other_keys=other_seal_keys(settings),
    )
    bundles = AuditLogRequests(pool, sealer)
    serve_in_turns(bus, rpc.AUDIT_EXPORT, bundles.export, turns)
    serve_in_turns(bus, rpc.AUDIT_CHECKPOINT, bundles.checkpoint, turns)
    serve_in_turns(bus, rpc.AUDIT_PROVE, AuditProofs(pool, sealer).prove, turns)
    service.loop(sealer.run)
    rules = ErasureRules(delay=timedelta(hours=settings.erase_delay_h), single_person=settings.single_person)
    erasures = Erasures(pool, rules, log)
    serve(bus, rpc.REQUEST_ERASURE, erasures.request)
    serve(bus, rpc.DECIDE_ERASURE, erasures.decide)
    serve(bus, rpc.LIST_ERASURES, erasures.list)
    service.loop(erasures.run)
    serve(bus, rpc.PRUNE_RUNS, RunPruning(pool).prune)
    service.loop(RunRetention(pool, log, keep_days=settings.run_keep_days).run)
    serve(bus, rpc.GET_RETENTION, RetentionQueries(retention_of(settings)).get)
    service.loop(AuditRetention(pool, log, metrics, keep_days=settings.audit_keep_days).run)


def retention_of(settings: TasSettings) -> TasRetention:
    """Return for how long the audit and runs are kept with *settings*, and whether somebody has set it."""
    return TasRetention(
        instance=settings.instance,
        audit_keep_days=settings.audit_keep_days,
        origin="set" if "audit_keep_days" in settings.model_fields_set else "default",
        run_keep_days=settings.run_keep_days,
        runs_origin="set" if "run_keep_days" in settings.model_fields_set else "default",
    )


Token = Annotated[str, Path()]
"""A part of the subject."""


MAX_BRACKETS = 100_000
"""Lists and objects of one registration: some hundred tools with large schemas have a third of it."""


def serve_toolsets(
    bus: Bus, tools: ToolRegistrations, dead_letters: WorkerDeadLetters, instances: WorkerInstances
) -> None:
    """Answer registrations, dead letters and heartbeats of workers on `svc.tas.<method>.<project>.<toolset>`.

    The broker lets a worker's credential publish on the subjects of its own project and toolsets only. So the subject
    is trusted, and a request about another toolset is refused.
    """
    turns = WorkerTurns()

    async def register(request: RegisterTools, project: Token, toolset: Token) -> ToolsRegistered:
        subject = for_toolset(rpc.REGISTER_TOOLS.subject, project, toolset)
        require_same_toolset(subject, for_toolset(rpc.REGISTER_TOOLS.subject, request.project, request.toolset))
        async with turns.after_changes(project):
            registered = await tools.register(request)
            # Also what waits may hold the calls of its tool, or no longer.
            if changed := sum(standing.status != "unchanged" for standing in registered.standings):
                turns.note_change(project, changed)
            return registered

    async def report(request: ReportDeadLetter, project: Token, toolset: Token) -> ActionDone:
        require_same_toolset(request.subject, tool_exec(project, toolset))
        async with turns.held(project):
            return await dead_letters.report(request)

    async def hear(request: WorkerBeat, project: Token, toolset: Token) -> WorkerHeard:
        subject = for_toolset(rpc.WORKER_BEAT.subject, project, toolset)
        require_same_toolset(subject, for_toolset(rpc.WORKER_BEAT.subject, request.project, request.toolset))
        async with turns.held(project):
            return await instances.beat(request)

    tools_of, letters_of, beats_of = (for_toolset(one.subject, "{project}", "{toolset}") for one in _OF_TOOLSETS)
    bus.subscriber(tools_of, LongRequestReader(MAX_BRACKETS, _project_of))(register)
    bus.subscriber(letters_of, LongRequestReader(FEW_BRACKETS, _project_of))(report)
    bus.subscriber(beats_of, LongRequestReader(FEW_BRACKETS, _project_of))(hear)


def serve_blobs(bus: Bus, blobs: CallBlobRequests) -> None:
    """Take pieces of results, and give files of calls; whose they are stands in the ticket inside."""
    for method, handler in ((rpc.BLOB_PUT, blobs.put), (rpc.BLOB_GET_CALLS, blobs.get)):
        bus.subscriber(method, LongRequestReader(FEW_BRACKETS, blobs.owner_of))(handler)


_OF_TOOLSETS = (rpc.REGISTER_TOOLS, rpc.DEAD_LETTER_CALLS, rpc.WORKER_BEAT)


def _project_of(subject: str, _: bytes) -> str:
    return subject.split(".")[-2]


def require_same_toolset(requested: str, allowed: str) -> None:
    """Raise `forbidden` unless the *requested* subject is the one that the credential *allowed*."""
    if requested != allowed:
        raise ProblemError(problem("forbidden", f"this credential is of another toolset: {requested} is not {allowed}"))

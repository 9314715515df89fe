"""Wires subjects to the orchestrator's parts; no decision is made here."""

import asyncio
from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg
from pydantic import Field, ValidationError

from towpath_contracts import rpc, subjects
from towpath_contracts.base import ClientMessage, Message
from towpath_contracts.problems.registry import ProblemError, describe_validation_error
from towpath_contracts.runs.views import CancelRun, GetEvents, GetRun
from towpath_contracts.strict_json import check_json
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.crash_points import crash_point, crash_point_sent
from towpath_fabric.dead_letters import NOBODY, About, DeadLetters
from towpath_fabric.fair_request_queue import Rules
from towpath_fabric.nats.pull_consumer import ack, nak
from towpath_fabric.ports import Feed, Wire
from towpath_fabric.postgres.pool import DATA_AT_FAULT, DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.app.api.budgets import Budgets
from towpath_orchestrator.app.api.commands import Acting
from towpath_orchestrator.app.api.dead_letters import Letters
from towpath_orchestrator.app.api.forks import Forks
from towpath_orchestrator.app.api.network_registry import Registry
from towpath_orchestrator.app.api.queries import Reading
from towpath_orchestrator.app.api.replay_jobs import ReplayGate
from towpath_orchestrator.app.api.submit import Intake
from towpath_orchestrator.app.loop.dispatch_windows import Windows
from towpath_orchestrator.app.loop.switch_resume import Waking
from towpath_orchestrator.app.loop.webhook_delivery import Noticing
from towpath_orchestrator.settings import OrchestratorSettings

SUBMITS_AT_ONCE = 32
"""Tasks that are checked and stored at the same time: enough to share commits, and few before whoever comes next."""

SUBMITS_AMONG_WORK = 4
"""While requests of runs wait for their turn: what has begun goes before what would only wait in the queue."""


class ClientGetRun(ClientMessage):
    """`task.get.<caller>`: GetRun without the project, which is the caller's."""

    run_id: str
    wait_ms: int = Field(default=0, ge=0, le=30_000)
    effects: bool = True


class ClientGetEvents(ClientMessage):
    """`task.events.<caller>`: GetEvents without the project."""

    run_id: str
    after: int = Field(default=0, ge=0)
    limit: int = Field(default=200, ge=1, le=1_000)
    wait_ms: int = Field(default=0, ge=0, le=30_000)


class ClientCancel(ClientMessage):
    """`task.cancel.<caller>`: CancelRun without project and actor."""

    run_id: str
    reason: str = Field(default="", max_length=2_000)


def _caller(subject: str) -> str:
    tokens = subject.split(".")
    return tokens[2] if len(tokens) > 2 else subjects.ANONYMOUS


class Clients:
    """What NATS clients may ask, each in its own name; the caller is the last token of the subject."""

    def __init__(self, intake: Intake, reading: Reading, acting: Acting) -> None:
        self._intake = intake
        self._reading = reading
        self._acting = acting

    async def submit(self, task: SubmitTask, subject: str) -> Message:
        """Accept a task."""
        return await self._intake.submit(task, _caller(subject))

    async def get(self, request: ClientGetRun, subject: str) -> Message:
        """Show one of the caller's project's runs."""
        project = await self._intake.project_of(_caller(subject))
        return await self._reading.get_run(GetRun.model_validate({"project": project, **request.model_dump()}))

    async def events(self, request: ClientGetEvents, subject: str) -> Message:
        """Show events of one of the caller's project's runs."""
        project = await self._intake.project_of(_caller(subject))
        return await self._reading.events(GetEvents.model_validate({"project": project, **request.model_dump()}))

    async def cancel(self, request: ClientCancel, subject: str) -> Message:
        """Stop one of the caller's project's runs."""
        caller = _caller(subject)
        project = await self._intake.project_of(caller)
        body = {"project": project, "actor": caller, **request.model_dump()}
        return await self._acting.cancel(CancelRun.model_validate(body))


def serve_clients(bus: Wire, clients: Clients) -> None:
    """Answer the `task.*` subjects, but for those of `serve_submits`."""
    bus.answer_subject(subjects.TASK_GET_ALL, ClientGetRun, clients.get)
    bus.answer_subject(subjects.TASK_EVENTS_ALL, ClientGetEvents, clients.events)
    bus.answer_subject(subjects.TASK_CANCEL_ALL, ClientCancel, clients.cancel)


async def serve_submits(
    bus: Wire, clients: Clients, settings: OrchestratorSettings, windows: Windows
) -> Callable[[], Awaitable[None]]:
    """Take tasks in turns of their callers; returns what stops that."""
    share = settings.max_active_share

    def at_once() -> int:
        return SUBMITS_AMONG_WORK if windows.holds_any else SUBMITS_AT_ONCE

    rules = Rules(asker=_caller, most=settings.max_waiting_submits, share=share, at_once=at_once)
    words = (subjects.TASK_SUBMIT_ALL, subjects.TASK_SUBMIT_ANONYMOUS)
    return await bus.answer_in_turns(words, SubmitTask, clients.submit, rules)


def serve_services(bus: Wire, reading: Reading, acting: Acting, registry: Registry) -> None:
    """Answer `svc.orchestrator.*`."""
    bus.answer(rpc.GET_RUN, reading.get_run)
    bus.answer(rpc.LIST_RUNS, reading.list_runs)
    bus.answer(rpc.RUN_TREE, reading.tree)
    bus.answer(rpc.EVENTS, reading.events)
    bus.answer(rpc.EVENTS_SINCE, reading.events_since)
    bus.answer(rpc.SWEEP_RUNS, reading.sweep)
    bus.answer(rpc.IDLE_RUNS, reading.idle)
    bus.answer(rpc.LIST_GATES, reading.list_gates)
    bus.answer(rpc.BLOB_GET_RUNS, reading.blob)
    bus.answer(rpc.RESOLVE_GATE, acting.resolve_gate)
    bus.answer(rpc.CANCEL_RUN, acting.cancel)
    bus.answer(rpc.PUBLISH_NETWORK, registry.publish)
    bus.answer(rpc.LIST_NETWORKS, registry.list)
    bus.answer(rpc.GET_NETWORK, registry.show)
    bus.answer(rpc.PREVIEW_PROMPT, registry.preview)


def serve_waking(bus: Wire, waking: Waking) -> None:
    """Answer what the tool-access service tells of switches."""
    bus.answer(rpc.WAKE_PAUSED, waking.wake)


def serve_budgets(bus: Wire, budgets: Budgets) -> None:
    """Answer what people ask of budgets."""
    bus.answer(rpc.SET_BUDGET, budgets.set)
    bus.answer(rpc.SHOW_BUDGETS, budgets.show)


def serve_records(bus: Wire, replays: ReplayGate, forks: Forks) -> None:
    """Answer what `svc.orchestrator.*` tells of stored runs."""
    bus.answer(rpc.RECORD, replays.record)
    bus.answer(rpc.REPLAY_RUNS, replays.replay)
    bus.answer(rpc.FORK_RUN, forks.fork)


def serve_notices(bus: Wire, noticing: Noticing) -> None:
    """Answer what `svc.orchestrator.*` tells of gate notices."""
    bus.answer(rpc.LIST_NOTICES, noticing.list)
    bus.answer(rpc.RETRY_NOTICE, noticing.retry)


def serve_letters(bus: Wire, letters: Letters) -> None:
    """Answer what `svc.orchestrator.*` does with dead letters."""
    bus.answer(rpc.LIST_DEAD_LETTERS, letters.list)
    bus.answer(rpc.SETTLE_DEAD_LETTER, letters.settle)
    bus.answer(rpc.DEAD_LETTER_RUNS, letters.report)


def _delivery_key(message: Msg) -> str:
    """Name a stored message, so that its redelivery is the same task; a broker that starts anew counts from 1 again."""
    stored = message.metadata
    return f"enqueue:{stored.timestamp.isoformat()}:{stored.sequence.stream}"


class Enqueued:
    """Takes tasks from the TASKS stream; a task that can't be accepted becomes a dead letter."""

    def __init__(self, consumer: Feed, intake: Intake, dead: DeadLetters, log: Logger) -> None:
        self._consumer = consumer
        self._intake = intake
        self._dead = dead
        self._log = log

    async def run(self) -> None:
        """Accept tasks for ever."""
        while True:
            await asyncio.gather(*(self._accept(message) for message in await self._consumer.take(64)))

    async def _accept(self, message: Msg) -> None:
        crash_point("orchestrator.enqueued_taken")
        caller = _caller(message.subject)
        fault = check_json(message.data)
        if fault is not None:
            await self._refuse(message, f"not a task: {fault}")
            return
        try:
            task = SubmitTask.model_validate_json(message.data)
            key = task.idempotency_key or _delivery_key(message)
            await self._intake.submit(task.model_copy(update={"idempotency_key": key}), caller)
        except ValidationError as error:
            await self._refuse(message, f"not a task: {describe_validation_error(error)}")
        except ProblemError as error:
            if error.problem.retryable:
                await nak(message, 2)
            else:
                await self._refuse(message, f"{error.problem.code}: {error.problem.detail}")
        except Exception as error:  # noqa: BLE001 - whatever one task brings along, the next one must be taken
            self._log.error("an enqueued task failed", subject=message.subject, exc_info=error)
            await self._dead.failed(message, f"{type(error).__name__}: {error}", await self._whose(message))
        else:
            crash_point("orchestrator.enqueued_accepted")
            await ack(message)
            await crash_point_sent("orchestrator.enqueued_acked")

    async def _refuse(self, message: Msg, reason: str) -> None:
        self._log.warning("an enqueued task was refused", subject=message.subject, reason=reason)
        await self._dead.set_aside(message, reason, await self._whose(message))

    async def _whose(self, message: Msg) -> About:
        """Return the project of the caller that the subject names, where it is known."""
        try:
            return About(project=await self._intake.project_of(_caller(message.subject)))
        except (ProblemError, *DATABASE_DOWN, *DATA_AT_FAULT):
            return NOBODY

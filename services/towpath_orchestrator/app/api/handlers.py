"""Subjects of NATS and who answers them; no decision is made here."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from nats import errors as nats_errors
from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts import rpc, subjects
from towpath_contracts.agents import AgentQueueDeclared, DeclareAgentQueue
from towpath_contracts.dead_letters import ReportDeadLetter
from towpath_contracts.problems.input_faults import describe_validation_error
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.streams import ConsumerSpec, agent_consumer
from towpath_contracts.strict_json import NotStrictJsonError, read_bounded
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.dead_letters import UNKNOWN_OWNER, DeadLetterOwner, DeadLetters
from towpath_fabric.nats.long_requests import LongReadings
from towpath_fabric.nats.pull_consumer import ack
from towpath_fabric.nats.replies import with_caller_span, with_event_key
from towpath_fabric.ports import MessageBus, MessageConsumer
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import INVALID_DATA
from towpath_fabric.redelivery.poison_messages import PoisonGuard
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.turns.fair_request_queue import FairQueueLimits
from towpath_orchestrator.app.api.budgets import BudgetRequests
from towpath_orchestrator.app.api.client_requests import ClientRequests, caller_of
from towpath_orchestrator.app.api.commands import HeldCallResumer
from towpath_orchestrator.app.api.dead_letters import DeadLetterRequests
from towpath_orchestrator.app.api.network_registry import NetworkRegistry
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.replay_requests import ReplayRequests
from towpath_orchestrator.app.api.submit import TaskIntake
from towpath_orchestrator.app.api.task_checks import TaskChecker
from towpath_orchestrator.app.dispatch.dispatch_windows import WindowedDispatcher
from towpath_orchestrator.app.project_quotas import ProjectQuotas
from towpath_orchestrator.app.webhook_delivery import GateNoticeLoop
from towpath_orchestrator.settings import OrchestratorSettings

SUBMITS_AT_ONCE = 32
"""Tasks that are checked and stored at the same time: enough to share commits, and few before whoever comes next."""

SUBMITS_AMONG_WORK = 4
"""Of a caller whose runs' requests wait for their turn: what has begun goes before what would only wait as well.

Others are taken in at once: their runs are few, and would else wait behind that caller's, a commit for every few.
"""


REFUSED_S = 2
"""After this time an enqueued task comes again that can't be accepted now."""

QUOTA_EXCEEDED = "quota_exceeded"
"""An enqueued task is not tried again that its project's quota refuses, maybe until midnight: the broker sends no task
more while so many are given back, whosever they are."""


async def serve_submits(
    bus: MessageBus, clients: ClientRequests, settings: OrchestratorSettings, windows: WindowedDispatcher
) -> Callable[[], Awaitable[None]]:
    """Take tasks in turns of their callers; returns what stops that."""
    share = settings.max_active_share

    def max_concurrent_of(caller: str) -> int:
        return SUBMITS_AMONG_WORK if windows.holds(caller) else SUBMITS_AT_ONCE

    limits = FairQueueLimits(
        caller_of=caller_of,
        max_waiting=settings.max_waiting_submits,
        max_share=share,
        max_concurrent=SUBMITS_AT_ONCE,
        max_concurrent_of=max_concurrent_of,
    )
    served = (subjects.TASK_SUBMIT_ALL, subjects.TASK_SUBMIT_ANONYMOUS)
    return await bus.subscribe_fairly(served, clients.submit, limits)


def serve_services(bus: MessageBus, queries: RunQueries, registry: NetworkRegistry) -> None:
    """Answer `svc.orchestrator.*`, but for what people read, and do to runs (`run_questions.py`)."""
    bus.subscriber(rpc.EVENTS_SINCE)(queries.events_since)
    bus.subscriber(rpc.SWEEP_RUNS)(queries.sweep)
    bus.subscriber(rpc.IDLE_RUNS)(queries.idle)
    bus.subscriber(rpc.PUBLISH_NETWORK)(registry.publish)


def serve_switches(bus: MessageBus, switches: HeldCallResumer) -> None:
    """Answer the tool-access service when a switch holds nothing any more."""
    bus.subscriber(rpc.WAKE_PAUSED)(switches.wake)


def serve_budgets(bus: MessageBus, budgets: BudgetRequests, quotas: ProjectQuotas) -> None:
    """Set limits of budgets, and quotas of projects."""
    bus.subscriber(rpc.SET_BUDGET)(budgets.set)
    bus.subscriber(rpc.SET_QUOTA)(quotas.set)


def serve_replays(bus: MessageBus, replays: ReplayRequests) -> None:
    """Answer requests to replay runs, which take turns of their own."""
    bus.subscriber(rpc.REPLAY_RUNS)(replays.replay)


def serve_notices(bus: MessageBus, notices: GateNoticeLoop) -> None:
    """Answer requests about notices of gates."""
    bus.subscriber(rpc.LIST_NOTICES)(notices.list)
    bus.subscriber(rpc.RETRY_NOTICE)(notices.retry)


def serve_dead_letters(bus: MessageBus, letters: DeadLetterRequests) -> None:
    """Answer requests about dead letters."""
    bus.subscriber(rpc.SETTLE_DEAD_LETTER)(letters.settle)
    bus.subscriber(rpc.DEAD_LETTER_RUNS)(letters.report)


def _delivery_key(message: Msg) -> str:
    """Name a stored message, so that its redelivery is the same task; a broker that starts anew counts from 1 again."""
    stored = message.metadata
    return f"enqueue:{stored.timestamp.isoformat()}:{stored.sequence.stream}"


def _task_of(data: bytes) -> SubmitTask:
    read_bounded(data)
    return SubmitTask.model_validate_json(data)


class TaskQueueConsumer:
    """Takes tasks from the TASKS stream; a task that can't be accepted becomes a dead letter."""

    def __init__(
        self,
        consumer: MessageConsumer,
        intake: TaskIntake,
        checker: TaskChecker,
        dead: DeadLetters,
        guard: PoisonGuard,
        log: Logger,
    ) -> None:
        self._consumer = consumer
        self._intake = intake
        self._checker = checker
        self._dead = dead
        self._guard = guard
        self._log = log
        self._long = LongReadings()

    async def run(self) -> None:
        """Accept tasks for ever."""
        while True:
            together, watched = self._guard.apart(await self._consumer.take(64))
            await asyncio.gather(*(self._accept(message) for message in together))
            for message in watched:
                if self._intake.is_flooded_by(caller_of(message.subject)):
                    await self._guard.give_back(message, REFUSED_S)  # nothing of it is looked at, so it needs no mark
                    continue
                async with self._guard.alone(message, self._refuse) as admitted:
                    if admitted:
                        await self._accept(message)

    async def _accept(self, message: Msg) -> None:
        crash_point("orchestrator.enqueued_taken")
        caller = caller_of(message.subject)
        try:
            read = await self._long.read(caller, message.data, _task_of)
            task = with_caller_span(with_event_key(read, message), message)
            key = task.idempotency_key or _delivery_key(message)
            await self._intake.submit(task.model_copy(update={"idempotency_key": key}), caller)
        except NotStrictJsonError as error:
            await self._refuse(message, f"not a task: {error}")
        except ValidationError as error:
            await self._refuse(message, f"not a task: {describe_validation_error(error)}")
        except ProblemError as error:
            if error.problem.retryable and error.problem.code != QUOTA_EXCEEDED:
                await self._guard.give_back(message, REFUSED_S)
            else:
                await self._refuse(message, f"{error.problem.code}: {error.problem.detail}")
        except Exception as error:  # noqa: BLE001 - whatever one task brings along, the next one must be taken
            self._log.error("an enqueued task failed", subject=message.subject, exc_info=error)
            await self._dead.failed(message, f"{type(error).__name__}: {error}", await self._owner_of(message))
        else:
            crash_point("orchestrator.enqueued_accepted")
            await ack(message)
            await crash_point_after_flush("orchestrator.enqueued_acked")

    async def _refuse(self, message: Msg, reason: str, _reads: bool = True) -> None:
        self._log.warning("an enqueued task was refused", subject=message.subject, reason=reason)
        await self._dead.set_aside(message, reason, await self._owner_of(message))

    async def _owner_of(self, message: Msg) -> DeadLetterOwner:
        """Return the project of the caller that the subject names, where it is known."""
        try:
            return DeadLetterOwner(project=await self._checker.project_of(caller_of(message.subject)))
        except (ProblemError, *DATABASE_DOWN, *INVALID_DATA):
            return UNKNOWN_OWNER


EnsureQueue = Callable[[ConsumerSpec], Awaitable[None]]
"""Declares a consumer at the broker."""


def serve_agents(bus: MessageBus, letters: DeadLetterRequests, ensure: EnsureQueue) -> None:
    """Answer what agents' processes ask, each on a subject that the broker lets it use only in its own name."""
    from faststream import Path  # noqa: PLC0415 - a harness, which has no broker, imports this module too

    part_of_subject = Annotated[str, Path()]

    async def serve(request: DeclareAgentQueue, project: part_of_subject, agent: part_of_subject) -> AgentQueueDeclared:
        subject = subjects.for_agent(rpc.SERVE_AGENT.subject, project, agent)
        _require(subject, subjects.for_agent(rpc.SERVE_AGENT.subject, request.project, request.name))
        spec = agent_consumer(request.project, request.name)
        try:
            await ensure(spec)
        except (TimeoutError, nats_errors.Error) as error:
            detail = f"the queue of the agent {request.name} could not be declared: {type(error).__name__}"
            raise ProblemError(problem("unavailable", detail, retry_after_s=2)) from error
        return AgentQueueDeclared(durable=spec.durable)

    async def report(request: ReportDeadLetter, project: part_of_subject, agent: part_of_subject) -> ActionDone:
        _require(request.subject, subjects.decide(subjects.agent_pool(project, agent)))
        return await letters.report_of_agent(request, project)

    bus.subscriber(subjects.for_agent(rpc.SERVE_AGENT.subject, "{project}", "{agent}"))(serve)
    bus.subscriber(subjects.for_agent(rpc.DEAD_LETTER_RUNS.subject, "{project}", "{agent}"))(report)


def _require(subject: str, allowed: str) -> None:
    if subject != allowed:
        raise ProblemError(problem("forbidden", f"this credential is of another agent: {subject} is not {allowed}"))

"""What NATS clients ask of runs, each in its own name: `task.get`, `task.events`, `task.cancel` and what steers them.

Whoever may submit may ask, as often as it likes, so a flood is work in turns: few requests at a time are at work, which
leaves the loop to submits and runs, and of each caller some are open and some wait. What finds no room, or waits for
too long, is refused as `overloaded`. A request that waits for a run holds a place and no work. `anonymous` is whoever
has no credential, and has a smaller share of its own.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

from pydantic import Field

from towpath_contracts import subjects
from towpath_contracts.base import ClientMessage, Message
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.run_control import ClientGiveNote, ClientSteerRun, SteeringAct, SteerRun
from towpath_contracts.runs.views import CancelRun, GetEvents, GetRun, RunView
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.ports import MessageBus
from towpath_fabric.turns.fair_request_queue import FairQueueLimits
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.app.api.commands import RunCommands
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.run_control import RunControl
from towpath_orchestrator.app.api.submit import TaskIntake
from towpath_orchestrator.app.api.task_checks import TaskChecker

AT_WORK = 16
AT_WORK_OF_ONE = 4
AT_WORK_ANONYMOUS = 2
"""Requests that read the database at the same time; each caller has as many in the line for that."""

OPEN = 1_024
"""Requests on one verb that are open at the same time: nearly all of them wait for a run, which costs little."""

OPEN_OF_ONE = 512
OPEN_ANONYMOUS = 256

CANCELS = 64
CANCELS_OF_ONE = 16
CANCELS_ANONYMOUS = 4
"""A cancel waits until the run's log holds it: it is work all the time. So is an act that steers a run."""

STEERING: tuple[tuple[str, SteeringAct], ...] = (
    (subjects.TASK_PAUSE_ALL, "pause"),
    (subjects.TASK_RESUME_ALL, "resume"),
    (subjects.TASK_GATE_ALL, "gate"),
    (subjects.TASK_CONFIDENCE_ALL, "confidence"),
)
"""Acts that a client gives a reason for; a note has a text."""

WAITING = 2_048
WAITING_SHARE = 0.25

WAIT_S = 5.0
"""The SDK waits for an answer that long."""


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


def caller_of(subject: str) -> str:
    """Return the caller that *subject* names, by its last token; `task.submit` alone names none."""
    tokens = subject.split(".")
    return tokens[2] if len(tokens) > 2 else subjects.ANONYMOUS


class ClientRequests:
    """What NATS clients may ask, each in its own name; the caller is the last token of the subject.

    `anonymous` is whoever has no credential, so it sees and stops the runs of nobody else.
    """

    def __init__(
        self,
        intake: TaskIntake,
        checker: TaskChecker,
        queries: RunQueries,
        commands: RunCommands,
        control: RunControl,
    ) -> None:
        self._intake = intake
        self._checker = checker
        self._queries = queries
        self._commands = commands
        self._control = control
        self._acts = WorkTurns(CANCELS, _acts_of, WAIT_S)
        self._turns = WorkTurns(AT_WORK, _at_work_of, WAIT_S)

    async def submit(self, task: SubmitTask, caller: str) -> Message:
        """Accept a task."""
        return await self._intake.submit(task, caller)

    async def get(self, request: ClientGetRun, caller: str) -> Message:
        """Show one of the caller's project's runs."""
        async with self._turns.held(caller):
            project = await self._checker.project_of(caller)
        asked = GetRun.model_validate({"project": project, **request.model_dump()})
        if asked.wait_ms:
            await self._queries.await_end(asked)
        async with self._turns.held(caller):
            view = await self._queries.get_run(asked)
        _refuse_run_of_another(view, caller)
        return view

    async def events(self, request: ClientGetEvents, caller: str) -> Message:
        """Show events of one of the caller's project's runs."""
        async with self._turns.held(caller):
            project = await self._project_of_run(request.run_id, caller)
        asked = GetEvents.model_validate({"project": project, **request.model_dump()})
        if asked.wait_ms:
            await self._queries.await_news(asked)
        async with self._turns.held(caller):
            return await self._queries.events(asked)

    async def cancel(self, request: ClientCancel, caller: str) -> Message:
        """Stop one of the caller's project's runs."""
        project = await self._project_of_run(request.run_id, caller)
        body = {"project": project, "actor": caller, **request.model_dump()}
        return await self._commands.cancel(CancelRun.model_validate(body))

    async def note(self, request: ClientGiveNote, caller: str) -> Message:
        """Give the model of one of the caller's project's runs a note."""
        if not request.text.strip():
            raise ProblemError(problem("request_invalid", "the note is empty"))
        return await self._steer(request.run_id, "note", request.text, caller)

    def steering(self, act: SteeringAct) -> Callable[[ClientSteerRun, str], Awaitable[Message]]:
        """Return what does *act* to one of the caller's project's runs."""

        async def steer(request: ClientSteerRun, caller: str) -> Message:
            return await self._steer(request.run_id, act, request.reason, caller)

        return steer

    async def _steer(self, run_id: UUID, act: SteeringAct, text: str, caller: str) -> Message:
        async with self._acts.held(caller):
            project = await self._project_of_run(str(run_id), caller)
            asked = SteerRun(project=project, run_id=run_id, act=act, text=text, actor=caller)
            return await self._control.steer(asked)

    async def _project_of_run(self, run_id: str, caller: str) -> str:
        """Return the project of *caller*; raises ProblemError `run_not_found` for a run it may not see."""
        project = await self._checker.project_of(caller)
        if caller == subjects.ANONYMOUS:
            found = await self._queries.get_run(GetRun.model_validate({"project": project, "run_id": run_id}))
            _refuse_run_of_another(found, caller)
        return project


def _at_work_of(caller: str) -> int:
    return AT_WORK_ANONYMOUS if caller == subjects.ANONYMOUS else AT_WORK_OF_ONE


def _acts_of(caller: str) -> int:
    return CANCELS_ANONYMOUS if caller == subjects.ANONYMOUS else CANCELS_OF_ONE


def _refuse_run_of_another(view: RunView, caller: str) -> None:
    if caller == subjects.ANONYMOUS and view.caller != caller:
        raise ProblemError(problem("run_not_found", f"no run {view.run_id} of a caller without a credential"))


async def serve_clients(bus: MessageBus, clients: ClientRequests) -> Callable[[], Awaitable[None]]:
    """Answer the `task.*` subjects, but for those of submits, in turns of their callers; returns what stops that."""
    questions = _limits(OPEN, OPEN_OF_ONE, OPEN_ANONYMOUS)
    cancels = _limits(CANCELS, CANCELS_OF_ONE, CANCELS_ANONYMOUS)
    acts = replace(cancels, repeatable=False)  # a note that is given twice is two notes
    stops = [
        await bus.subscribe_fairly((subjects.TASK_GET_ALL,), clients.get, questions),
        await bus.subscribe_fairly((subjects.TASK_EVENTS_ALL,), clients.events, questions),
        await bus.subscribe_fairly((subjects.TASK_CANCEL_ALL,), clients.cancel, cancels),
        await bus.subscribe_fairly((subjects.TASK_NOTE_ALL,), clients.note, acts),
        *[await bus.subscribe_fairly((subject,), clients.steering(act), acts) for subject, act in STEERING],
    ]

    async def stop() -> None:
        for each in stops:
            await each()

    return stop


def _limits(most: int, of_one: int, anonymous: int) -> FairQueueLimits:
    return FairQueueLimits(
        caller_of=caller_of,
        max_waiting=WAITING,
        max_share=WAITING_SHARE,
        max_concurrent=most,
        max_concurrent_of=lambda caller: anonymous if caller == subjects.ANONYMOUS else of_one,
        max_wait_s=WAIT_S,
        repeatable=True,
    )

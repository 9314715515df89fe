"""Answers what workers ask and report on subjects of their own, which the broker lets no other credential use."""

from typing import Annotated

from faststream import Path

from towpath_contracts import rpc
from towpath_contracts.dead_letters import ReportDeadLetter
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.subjects import for_toolset, tool_exec
from towpath_contracts.tools.workers import RegisterTools, ToolsRegistered, WorkerBeat, WorkerHeard
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.long_requests import FEW_BRACKETS, LongRequestReader
from towpath_tas.app.audit.audit_queries import CallBlobRequests
from towpath_tas.app.calls.dead_letters import WorkerDeadLetters
from towpath_tas.app.policy.tool_registration import ToolRegistrations
from towpath_tas.app.worker_instances import WorkerInstances
from towpath_tas.app.worker_turns import WorkerTurns

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

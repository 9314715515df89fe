"""What workers ask in the name of one toolset: `svc.tas.<method>.<project>.<toolset>`.

The broker lets a worker's credential ask on the subjects of its own project and toolsets only, so the subject is
believed, and a request that speaks of others is refused.
"""

from towpath_contracts import rpc
from towpath_contracts.dead_letters import ReportDead
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.subjects import for_toolset, tool_exec
from towpath_contracts.tools.calls import RegisterTools, ToolsRegistered
from towpath_fabric.nats.bus import Bus
from towpath_tas.app.calls.dead_letters import Letters
from towpath_tas.app.policy.tool_registration import Tools


def serve_toolsets(bus: Bus, tools: Tools, letters: Letters) -> None:
    """Answer registrations and dead letters of workers whose credential is bound to project and toolset."""

    async def register(request: RegisterTools, subject: str) -> ToolsRegistered:
        require(subject, for_toolset(rpc.REGISTER_TOOLS.subject, request.project, request.toolset))
        return await tools.register(request)

    async def report(request: ReportDead, subject: str) -> ActionDone:
        project, toolset = subject.split(".")[-2:]
        require(request.subject, tool_exec(project, toolset))
        return await letters.report(request)

    bus.answer_subject(for_toolset(rpc.REGISTER_TOOLS.subject, "*", "*"), RegisterTools, register)
    bus.answer_subject(for_toolset(rpc.DEAD_LETTER_CALLS.subject, "*", "*"), ReportDead, report)


def require(said: str, meant: str) -> None:
    """Raise `forbidden` where a worker *said* something of another toolset than the one that it is *meant* to serve."""
    if said != meant:
        raise ProblemError(problem("forbidden", f"this credential is of another toolset: {said} is not {meant}"))

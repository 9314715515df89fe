"""What processes of agents ask in the name of one agent: `svc.orchestrator.<method>.<project>.<agent>`.

The broker lets a credential ask on the subjects of its own agent only, so the subject is believed, and a request
that speaks of others is refused. What user code reports is kept and never told to a run.
"""

from collections.abc import Awaitable, Callable

from nats import errors as nats_errors

from towpath_contracts import rpc, subjects
from towpath_contracts.agents import AgentServed, ServeAgent
from towpath_contracts.dead_letters import ReportDead
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.streams import ConsumerSpec, agent_consumer
from towpath_fabric.ports import Wire
from towpath_orchestrator.app.api.dead_letters import Letters

EnsureQueue = Callable[[ConsumerSpec], Awaitable[None]]
"""Declares a consumer at the broker."""


def serve_agents(bus: Wire, letters: Letters, ensure: EnsureQueue) -> None:
    """Answer what agents' processes ask."""

    async def serve(request: ServeAgent, subject: str) -> AgentServed:
        _require(subject, subjects.for_agent(rpc.SERVE_AGENT.subject, request.project, request.name))
        spec = agent_consumer(request.project, request.name)
        try:
            await ensure(spec)
        except (TimeoutError, nats_errors.Error) as error:
            detail = f"the queue of the agent {request.name} could not be declared: {type(error).__name__}"
            raise ProblemError(problem("unavailable", detail, retry_after_s=2)) from error
        return AgentServed(durable=spec.durable)

    async def report(request: ReportDead, subject: str) -> ActionDone:
        project, name = subject.split(".")[-2:]
        _require(request.subject, subjects.decide(subjects.agent_pool(project, name)))
        return await letters.report(request.model_copy(update={"tells": False}))

    bus.answer_subject(subjects.for_agent(rpc.SERVE_AGENT.subject, "*", "*"), ServeAgent, serve)
    bus.answer_subject(subjects.for_agent(rpc.DEAD_LETTER_RUNS.subject, "*", "*"), ReportDead, report)


def _require(said: str, meant: str) -> None:
    if said != meant:
        raise ProblemError(problem("forbidden", f"this credential is of another agent: {said} is not {meant}"))

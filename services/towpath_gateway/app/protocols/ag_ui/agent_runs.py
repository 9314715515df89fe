"""The route that AG-UI clients run a network by; following a run is `GET /v1/runs/{run_id}/events?format=ag-ui`."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response

from towpath_contracts.base import JsonObject
from towpath_gateway.app.ag_ui_stream import AgUiStream
from towpath_gateway.app.asking_stream import site_of
from towpath_gateway.app.dependencies import (
    ClientSpan,
    Dependencies,
    GatewayDependencies,
    RunsWriter,
    documented,
    require_scope,
)
from towpath_gateway.app.errors import naming_run
from towpath_gateway.app.gate_votes import say_word
from towpath_gateway.app.protocols.ag_ui.agent_input import InterruptAnswer, RunAgentInput, gate_answers
from towpath_gateway.app.protocols.openai.caller_tools import calls_in, names_offered
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.ag_ui_events import AgUiEvents
from towpath_gateway.core.api_keys import Principal

router = APIRouter(prefix="/v1/networks", route_class=BoundedJsonRoute, tags=["ag-ui"])

_REFUSALS = (
    *("network_not_found", "idempotency_conflict", "overloaded", "request_too_large", "run_not_found", "run_erased"),
    *("verdict_invalid", "role_missing", "requester_may_not_approve", "fence_raised", "reason_required"),
    *("edit_refused", "revisions_used_up", "retry_refused"),
)


@router.post(
    "/{network:path}/ag-ui",
    responses={
        **documented(*_REFUSALS),
        200: {"description": "The events of AG-UI", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
    },
    summary="Run a network for an AG-UI client",
)
async def run_agent(
    network: str,
    asked: RunAgentInput,
    request: Request,
    dependencies: Dependencies,
    principal: RunsWriter,
    span: ClientSpan,
) -> Response:
    """Answer the last message with a run and stream it; with `resume` say words at gates, and stream what follows."""
    require_scope(principal, "runs:read")
    decided: frozenset[UUID] = frozenset()
    after = 0
    if asked.resume:
        answers = gate_answers(asked.resume)
        run_id, after = answers[0].run_id, min(one.seq for one in answers)
        await dependencies.platform.run(principal.project, run_id)
        decided = frozenset([one.word.gate_id for one in answers if await settles(dependencies, principal, one)])
    else:
        task = asked.task(network)
        with dependencies.stream_shares.held(principal):  # no run is made whose stream has no room
            run_id = (await dependencies.platform.submit(principal.caller, task, span)).run_id
    with naming_run(run_id):
        view = await dependencies.platform.run(principal.project, run_id)
    events = AgUiEvents(
        run_id,
        view.network,
        thread=asked.thread_id,
        name=asked.run_id,
        state=asked.state,
        after=after,
        site=site_of(dependencies, request),
        calls_in=_calls_by_schema if asked.tools else lambda _final, _schema: [],
    )
    headers = {"Location": f"/v1/runs/{run_id}"}
    return AgUiStream(dependencies, principal, run_id, events, decided=decided, after=after, headers=headers)


def _calls_by_schema(final: Any, schema: JsonObject | None) -> list[JsonObject]:
    return calls_in(final, names_offered(schema))


async def settles(dependencies: GatewayDependencies, principal: Principal, answer: InterruptAnswer) -> bool:
    """Say a word; return whether its gate is not asked again.

    One that comes too late settles nothing. Who says none leaves it to somebody else, and waits.
    """
    if answer.word.says_nothing:
        return True
    require_scope(principal, "gates:resolve")
    with naming_run(answer.run_id):
        return await say_word(dependencies, principal, answer.word)

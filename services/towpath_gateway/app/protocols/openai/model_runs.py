"""The routes of OpenAI's API: chat completions, responses, and the networks of the project as models.

Each is a route of this API in other words: the same keys, scopes, shares, and the same way in. Giving up the wait, or
the stream, changes nothing: the run goes on, and its id says where it is.
"""

from contextlib import nullcontext
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Response

from towpath_contracts import rpc
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.spec import ListNetworks, NetworkList, NetworkVersion
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_contracts.runs.views import CancelRun, PreviewPrompt, RunView
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_gateway.app.dependencies import (
    ClientSpan,
    Dependencies,
    GatewayDependencies,
    NetworksReader,
    RunsReader,
    RunsWriter,
    documented,
    require_reading_of_continued,
    require_scope,
)
from towpath_gateway.app.errors import naming_run
from towpath_gateway.app.protocols.openai.answer_stream import AnswerStream
from towpath_gateway.app.protocols.openai.caller_tools import may_be_calls, names_offered
from towpath_gateway.app.protocols.openai.chat_requests import ChatRequest
from towpath_gateway.app.protocols.openai.model_answers import chat_completion, response_object, why_no_answer
from towpath_gateway.app.protocols.openai.response_requests import ResponseRequest
from towpath_gateway.app.protocols.openai.run_tasks import response_id, response_run
from towpath_gateway.app.protocols.openai.stream_frames import ChatFrames, ResponseFrames
from towpath_gateway.app.protocols.openai.waiting_gates import waiting_gates
from towpath_gateway.app.routes.legacy_run_api import Prefer, still_running
from towpath_gateway.app.routes.runs.submission import IdempotencyKey, run_headers, with_key
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal
from towpath_gateway.core.headers import preferred_wait

router = APIRouter(prefix="/v1", route_class=BoundedJsonRoute, tags=["openai"])

_REFUSALS = (
    *("network_not_found", "idempotency_conflict", "overloaded", "timeout", "request_too_large", "answer_missing"),
    *("run_not_found", "run_erased", "run_not_ended", "run_continued", "reply_refused"),
)
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or with `stream` its server-sent events",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.post(
    "/chat/completions",
    response_model=dict[str, Any],
    responses={**documented(*_REFUSALS), **_STREAM},
    summary="Complete a chat",
)
async def complete_chat(
    chat: ChatRequest,
    dependencies: Dependencies,
    principal: RunsWriter,
    span: ClientSpan,
    key: IdempotencyKey = None,
    prefer: Prefer = None,
) -> Response:
    """Answer the last message of a conversation with a run of the network that `model` names."""
    task = with_key(chat.task(), key)
    accepted = await _submit(dependencies, principal, task, span, streams=bool(chat.stream))
    offered = names_offered(task.response_schema)
    if chat.stream:
        options = chat.stream_options
        frames = ChatFrames(accepted.run_id, offered, with_usage=options is not None and options.include_usage)
        return AnswerStream(dependencies, principal, accepted.run_id, frames, _headers(accepted))
    view = await _ended(dependencies, principal, accepted, prefer)
    if (failed := why_no_answer(view)) is not None:
        raise ProblemError(failed)
    return _json(chat_completion(view, offered), view)


@router.post(
    "/responses",
    response_model=dict[str, Any],
    responses={**documented(*_REFUSALS), **_STREAM},
    summary="Create a response",
)
async def create_response(
    asked: ResponseRequest,
    dependencies: Dependencies,
    principal: RunsWriter,
    span: ClientSpan,
    key: IdempotencyKey = None,
    prefer: Prefer = None,
) -> Response:
    """Answer with a run of the network that `model` names; with `background` at once, with where it stands."""
    task = with_key(asked.task(), key)
    accepted = await _submit(dependencies, principal, task, span, streams=bool(asked.stream))
    offered = names_offered(task.response_schema)
    said: JsonObject = {"background": bool(asked.background), "instructions": asked.instructions}
    said |= {"tools": [{"strict": True, **tool.model_dump(exclude_none=True)} for tool in asked.tools]}
    if asked.stream:
        frames = ResponseFrames(accepted.run_id, said, offered)
        return AnswerStream(dependencies, principal, accepted.run_id, frames, _headers(accepted))
    if asked.background:
        with naming_run(accepted.run_id):
            view = await dependencies.platform.run(principal.project, accepted.run_id)
    else:
        view = await _ended(dependencies, principal, accepted, prefer)
    gates = await waiting_gates(dependencies, principal, view)
    return _json(response_object(view, said, offered, gates), view)


@router.get(
    "/responses/{response}",
    response_model=dict[str, Any],
    responses=documented("run_not_found", "run_erased"),
    summary="Look at a response",
)
async def get_response(
    response: str, dependencies: Dependencies, principal: RunsReader, prefer: Prefer = None
) -> Response:
    """Return a response as it stands; with `Prefer: wait=N` once it has ended, or as it stands after N seconds."""
    run_id = _run(response)
    wait_s = preferred_wait(prefer)
    view = await dependencies.platform.wait_for_end(principal.project, run_id, wait_s) if wait_s else None
    view = await dependencies.platform.with_untaken_calls(
        view or await dependencies.platform.run(principal.project, run_id)
    )
    gates = await waiting_gates(dependencies, principal, view)
    return _json(response_object(view, {}, await _offered(dependencies, view), gates), view)


@router.post(
    "/responses/{response}/cancel",
    response_model=dict[str, Any],
    responses=documented("run_not_found", "run_erased", "run_finished", "run_unreadable"),
    summary="Cancel a response",
)
async def cancel_response(response: str, dependencies: Dependencies, principal: RunsWriter) -> Response:
    """Ask the run of a response to stop; it is `in_progress` until no call of it can start any more."""
    require_scope(principal, "runs:read")
    run_id = _run(response)
    request = CancelRun(project=principal.project, run_id=run_id, **principal.named())
    await dependencies.platform.request(rpc.CANCEL_RUN, request)
    view = await dependencies.platform.run(principal.project, run_id)
    gates = await waiting_gates(dependencies, principal, view)
    return _json(response_object(view, {}, await _offered(dependencies, view), gates), view)


@router.get("/models", response_model=dict[str, Any], responses=documented(), summary="List networks as models")
async def list_models(dependencies: Dependencies, principal: NetworksReader) -> Response:
    """Return every published network of the project as a model."""
    listed: NetworkList = await dependencies.platform.request(
        rpc.LIST_NETWORKS, ListNetworks(project=principal.project)
    )
    body = {"object": "list", "data": [_model(network) for network in listed.networks]}
    return Response(canonical_json(body), media_type="application/json")


@router.get(
    "/models/{name:path}",
    response_model=dict[str, Any],
    responses=documented("network_not_found"),
    summary="Look at a network as a model",
)
async def get_model(name: str, dependencies: Dependencies, principal: NetworksReader) -> Response:
    """Return a published network as a model."""
    asked = PreviewPrompt(project=principal.project, network=name)
    network: NetworkVersion = await dependencies.platform.request(rpc.GET_NETWORK, asked)
    return Response(canonical_json(_model(network)), media_type="application/json")


def _model(network: NetworkVersion) -> JsonObject:
    created = int(network.published_at.timestamp())
    return {"id": network.name, "object": "model", "created": created, "owned_by": network.project}


async def _submit(
    dependencies: GatewayDependencies,
    principal: Principal,
    task: SubmitTask,
    span: RemoteSpan | None,
    *,
    streams: bool,
) -> RunAccepted:
    """Submit *task*; where there is no room for its stream, it is refused before there is a run."""
    require_reading_of_continued(principal, task)
    with dependencies.stream_shares.held(principal) if streams else nullcontext():
        return await dependencies.platform.submit(principal.caller, task, span)


async def _ended(
    dependencies: GatewayDependencies, principal: Principal, accepted: RunAccepted, prefer: str | None
) -> RunView:
    """Return the run once it has ended; raises ProblemError `timeout` with what it waits for.

    Whatever is raised names the run: who repeated the request would have it a second time.
    """
    most_s = dependencies.settings.run_wait_s
    seconds = preferred_wait(prefer, most_s) or most_s
    with naming_run(accepted.run_id):
        view = await dependencies.platform.wait_for_end(principal.project, accepted.run_id, seconds)
    if view is not None and view.status in FINAL_STATUSES:
        return view
    view = None if view is None else await dependencies.platform.with_untaken_calls(view)
    found = still_running(str(accepted.run_id), accepted.status if view is None else view.status, seconds)
    waits = "; ".join(view.waits) if view is not None else ""
    remedy = f"It goes on: GET /v1/responses/{response_id(accepted.run_id)}. Or ask with background, or with stream."
    detail = f"{found.detail} and waits: {waits}" if waits else found.detail
    if gates := await waiting_gates(dependencies, principal, view):
        detail += f", at gate {', '.join(gate['gate_id'] for gate in gates)}"
        remedy += f" To decide: `towpath gates approve {gates[0]['gate_id']}`, or deny."
    raise ProblemError(found.model_copy(update={"detail": detail, "remedy": remedy}))


async def _offered(dependencies: GatewayDependencies, view: RunView) -> frozenset[str]:
    """Return the functions that a run's answer may ask for, as its log begins; where it may be such an answer."""
    if not may_be_calls(view.final):
        return frozenset()
    first = await dependencies.readings.page(view.project, view.run_id, 0, 1)
    created = first.entries[0].event if first.entries else None
    return names_offered(created.response_schema) if isinstance(created, RunCreated) else frozenset()


def _run(text: str) -> UUID:
    run_id = response_run(text)
    if run_id is None:
        raise ProblemError(problem("run_not_found", "that is not the id of a response"))
    return run_id


def _headers(run: RunAccepted | RunView) -> dict[str, str]:
    return {**run_headers(run.run_id, run.trace_id), "x-request-id": str(run.run_id)}


def _json(body: JsonObject, view: RunView) -> Response:
    return Response(canonical_json(body), media_type="application/json", headers=_headers(view))

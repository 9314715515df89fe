"""The addresses of A2A: the gateway's card and each network's, and where calls are sent."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from towpath_contracts.canonical import canonical_json
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.app.asking_stream import site_of
from towpath_gateway.app.dependencies import ClientSpan, Dependencies, NetworksReader, RunsReader, documented
from towpath_gateway.app.protocols.a2a.agent_cards import CARD, PATH, PROTOCOL, gateway_card
from towpath_gateway.app.protocols.a2a.call_messages import A2aCall
from towpath_gateway.app.protocols.a2a.call_methods import A2aMethods, card_of
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.a2a_errors import VERSION, CallRefusedError, rpc_failure
from towpath_gateway.core.a2a_tasks import JSON

router = APIRouter(route_class=BoundedJsonRoute, tags=["a2a"])

Version = Annotated[
    str | None, Header(alias="A2A-Version", max_length=32, description="1.0; clients of another version are refused")
]

_CALLED: dict[int | str, dict[str, Any]] = {
    **documented("request_too_large"),
    200: {
        "description": "The result of the call or its error, of a streaming method one after the other",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
}


@router.get(CARD, include_in_schema=False)
async def get_gateway_card(request: Request, dependencies: Dependencies) -> Response:
    """Return the card of the gateway, which says nothing of any project; it needs no key."""
    return _json(gateway_card(site_of(dependencies, request)))


@router.get(
    f"/v1/networks/{{network:path}}{PATH}{CARD}",
    response_model=dict[str, Any],
    responses=documented("network_not_found"),
    summary="The agent card of a network",
)
async def get_network_card(
    network: str, request: Request, dependencies: Dependencies, principal: NetworksReader
) -> Response:
    """Return what an A2A client needs to call a network."""
    return _json(await card_of(dependencies, principal, network, site_of(dependencies, request)))


@router.post(PATH, response_model=dict[str, Any], responses=_CALLED, summary="Call a network of the project by A2A")
async def call_gateway(
    call: A2aCall,
    request: Request,
    dependencies: Dependencies,
    principal: RunsReader,
    span: ClientSpan,
    version: Version = None,
) -> Response:
    """Answer a call of A2A 1.0, whose `tenant` names the network; sending needs `runs:write` too."""
    site = site_of(dependencies, request)
    methods = A2aMethods(dependencies=dependencies, principal=principal, span=span, network="", site=site)
    return await _answered(methods, call, version)


@router.post(
    f"/v1/networks/{{network:path}}{PATH}",
    response_model=dict[str, Any],
    responses=_CALLED,
    summary="Call a network by A2A",
)
async def call_network(
    network: str,
    call: A2aCall,
    request: Request,
    dependencies: Dependencies,
    principal: RunsReader,
    span: ClientSpan,
    version: Version = None,
) -> Response:
    """Answer a call of A2A 1.0; sending needs `runs:write` too, and a word at a gate `gates:resolve`."""
    site = site_of(dependencies, request)
    methods = A2aMethods(dependencies=dependencies, principal=principal, span=span, network=network, site=site)
    return await _answered(methods, call, version)


async def _answered(methods: A2aMethods, call: A2aCall, version: str | None) -> Response:
    try:
        if version and version.partition(".")[0] != PROTOCOL.partition(".")[0]:
            detail = f"A2A {version} is not spoken here"
            raise CallRefusedError(problem("operation_unsupported", detail, remedy=f"Speak A2A {PROTOCOL}."), VERSION)
        result = await methods.answer(call)
    except ProblemError as error:
        code = error.rpc_code if isinstance(error, CallRefusedError) else None
        return _json(rpc_failure(call.id, error.problem, code), methods.headers)
    if isinstance(result, Response):
        return result
    return _json({"jsonrpc": "2.0", "id": call.id, "result": result}, methods.headers)


def _json(body: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    return Response(canonical_json(body), media_type=JSON, headers=headers)

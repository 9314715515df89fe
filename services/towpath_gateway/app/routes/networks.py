"""Networks: validate, publish, list, look at."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage, JsonObject, Name
from towpath_contracts.networks.spec import ListNetworks, NetworkList, NetworkVersion, PublishNetwork
from towpath_contracts.run_limits import MAX_VERSION
from towpath_contracts.runs.views import PreviewPrompt
from towpath_gateway.app.dependencies import (
    Dependencies,
    GatewayDependencies,
    NetworksReader,
    NetworksWriter,
    documented,
    json_answer,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal

router = APIRouter(prefix="/v1/networks", route_class=BoundedJsonRoute, tags=["networks"])

_INVALID = (
    "network_invalid",
    "default_agent_missing",
    "default_agent_ambiguous",
    "respond_agent_missing",
    "respond_unreachable",
    "route_unknown",
    "tool_unknown",
    "prompt_invalid",
    "network_too_large",
)


class PublishNetworkBody(ClientMessage):
    """A network as people write it (`kind: Network`); with `dry_run` nothing is published.

    With `if_version` it is published only where that version is current; 0 means that there is none yet.
    """

    spec: JsonObject
    dry_run: bool = False
    if_version: int | None = Field(default=None, ge=0, le=MAX_VERSION)


class ValidateNetworkBody(ClientMessage):
    """A network to validate."""

    spec: JsonObject


@router.post(
    "",
    status_code=201,
    response_model=NetworkVersion,
    responses={
        **documented(*_INVALID, "network_moved"),
        200: {"description": "It is equal to the current version, or this was a dry run", "model": NetworkVersion},
    },
    summary="Publish a network",
)
async def publish_network(draft: PublishNetworkBody, dependencies: Dependencies, principal: NetworksWriter) -> Response:
    """Make an immutable new version, unless the current one is equal; every problem of a bad one is listed."""
    version = await _publish(dependencies, principal, draft)
    made = not (draft.dry_run or version.unchanged)
    headers = {"Location": f"/v1/networks/{version.name}?version={version.version}"} if made else None
    return json_answer(version, status=201 if made else 200, headers=headers)


@router.post("/validate", response_model=NetworkVersion, responses=documented(*_INVALID), summary="Validate a network")
async def validate_network(
    check: ValidateNetworkBody, dependencies: Dependencies, principal: NetworksReader
) -> Response:
    """Return what publishing would make, or list every problem; nothing is stored."""
    return json_answer(await _publish(dependencies, principal, PublishNetworkBody(spec=check.spec, dry_run=True)))


@router.get("", response_model=NetworkList, responses=documented("network_not_found"), summary="List networks")
async def list_networks(
    dependencies: Dependencies,
    principal: NetworksReader,
    name: Annotated[Name | None, Query(description="List the versions of this network, newest first")] = None,
    before: Annotated[int | None, Query(ge=1, le=MAX_VERSION, description="`next_before` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Of versions; networks are listed whole")] = 50,
) -> Response:
    """Return the current version of every network of the project, or the versions of one."""
    request = ListNetworks(project=principal.project, name=name, before=before, limit=limit)
    return json_answer(await dependencies.platform.request(rpc.LIST_NETWORKS, request))


@router.get(
    "/{name:path}",
    response_model=NetworkVersion,
    responses=documented("network_not_found", "version_not_found"),
    summary="Look at a network",
)
async def get_network(
    name: str,
    dependencies: Dependencies,
    principal: NetworksReader,
    version: Annotated[int | None, Query(ge=1, le=MAX_VERSION)] = None,
) -> Response:
    """Return a version with its snapshot and the spec it was made from."""
    request = PreviewPrompt(project=principal.project, network=name, version=version)
    return json_answer(await dependencies.platform.request(rpc.GET_NETWORK, request))


async def _publish(
    dependencies: GatewayDependencies, principal: Principal, draft: PublishNetworkBody
) -> NetworkVersion:
    wanted = {"spec": draft.spec, "dry_run": draft.dry_run, "if_version": draft.if_version}
    request = PublishNetwork(project=principal.project, **wanted, **principal.named())
    version: NetworkVersion = await dependencies.platform.request(rpc.PUBLISH_NETWORK, request)
    return version

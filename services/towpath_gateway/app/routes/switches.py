"""The stop switch: pause and resume.

Who sets a switch is the credential's person, who needs the role `operator`; whoever may read runs may read what
they wait for. A credential pauses nothing outside its own project.
"""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from towpath_contracts import rpc
from towpath_contracts.base import ClientMessage
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.switches import (
    OPERATOR,
    ListSwitches,
    SetSwitch,
    SwitchKind,
    SwitchList,
    SwitchName,
    SwitchSet,
)
from towpath_gateway.app.dependencies import (
    Dependencies,
    GatewayDependencies,
    RunsOperator,
    RunsReader,
    documented,
    json_answer,
    require_role,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import Principal

router = APIRouter(prefix="/v1/switches", route_class=BoundedJsonRoute, tags=["switches"])

_REFUSALS = ("role_missing", "reason_required", "limit_exceeded")


class ResumeSwitchBody(ClientMessage):
    """Which stop switch to lift; of a project `name` may be left out.

    What to resume; of a project `name` may be left out. `reason` stands in the audit; who waits reads it.
    """

    kind: SwitchKind
    name: SwitchName | None = None
    reason: Annotated[str, Field(max_length=2_000)]


class PauseSwitchBody(ResumeSwitchBody):
    """What to pause; `stop_running` also asks the calls that run to stop, which may leave some of them in doubt."""

    stop_running: bool = False


@router.get("", response_model=SwitchList, responses=documented(), summary="What is paused")
async def list_switches(dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return the project's open switches, oldest first."""
    return json_answer(await dependencies.platform.request(rpc.LIST_SWITCHES, ListSwitches(project=principal.project)))


@router.post("/pause", response_model=SwitchSet, responses=documented(*_REFUSALS), summary="Pause")
async def pause(wanted: PauseSwitchBody, dependencies: Dependencies, principal: RunsOperator) -> Response:
    """Hold new calls back; they wait, and their runs' time stands still (needs the role `operator`)."""
    return await _set(dependencies, principal, wanted, paused=True, stop_running=wanted.stop_running)


@router.post("/resume", response_model=SwitchSet, responses=documented(*_REFUSALS), summary="Resume")
async def resume(wanted: ResumeSwitchBody, dependencies: Dependencies, principal: RunsOperator) -> Response:
    """Let what waits go on, by the rules that hold now (needs the role `operator`)."""
    return await _set(dependencies, principal, wanted, paused=False)


async def _set(
    dependencies: GatewayDependencies,
    principal: Principal,
    wanted: ResumeSwitchBody,
    *,
    paused: bool,
    stop_running: bool = False,
) -> Response:
    require_role(principal, OPERATOR)
    if wanted.name is None and wanted.kind != "project":
        raise ProblemError(problem("request_invalid", f"name the {wanted.kind}"))
    request = SetSwitch(
        project=principal.project,
        kind=wanted.kind,
        name=wanted.name or principal.project,
        paused=paused,
        **principal.named(),
        roles=tuple(sorted(principal.roles)),
        reason=wanted.reason,
        stop_running=stop_running,
    )
    return json_answer(await dependencies.platform.request(rpc.SET_SWITCH, request, timeout_s=15.0))

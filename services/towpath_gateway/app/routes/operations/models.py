"""Models: trying one for real, through the decider, which alone has the keys of providers."""

from fastapi import APIRouter, Response

from towpath_contracts import rpc
from towpath_contracts.decisions.model_checks import CheckModel, CheckModelBody, ModelChecked
from towpath_contracts.switches import OPERATOR
from towpath_gateway.app.dependencies import Dependencies, RunsOperator, documented, json_answer, require_role
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/models", route_class=BoundedJsonRoute, tags=["models"])

CHECK_WAIT_S = 18.0
"""Longer than the decider's own limit, so that it says what it found."""


@router.post(
    "/check", response_model=ModelChecked, responses=documented("role_missing", "model_unknown"), summary="Try a model"
)
async def check_model(asked: CheckModelBody, dependencies: Dependencies, principal: RunsOperator) -> Response:
    """Ask a model once, with the smallest question (needs the role `operator`); that is paid for, and is no run.

    A model that does not answer is a finding: 200 with `works` false, a code, what its provider said, and a remedy.
    """
    require_role(principal, OPERATOR)
    request = CheckModel(project=principal.project, model=asked.model, caller=principal.caller)
    return json_answer(await dependencies.platform.request(rpc.CHECK_MODEL, request, CHECK_WAIT_S))

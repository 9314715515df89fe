"""What this gateway runs with, and what is kept for how long, for whoever operates the platform; no secrets."""

from fastapi import APIRouter, Response

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.retention import GetRetention, TasRetention
from towpath_gateway.app.dependencies import Dependencies, PlatformOperator, documented, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.effective_settings import EffectiveSettings, effective_settings
from towpath_gateway.core.retention import RetentionReport, retention_report

router = APIRouter(prefix="/v1/settings", route_class=BoundedJsonRoute, tags=["settings"])


@router.get("", response_model=EffectiveSettings, responses=documented(), summary="What this gateway runs with")
async def get_settings(dependencies: Dependencies, principal: PlatformOperator) -> Response:
    """Return each setting of the gateway that answers, and where its value came from; never a secret."""
    del principal
    settings = dependencies.settings
    found = EffectiveSettings(service="gateway", instance=settings.instance, settings=effective_settings(settings))
    return json_answer(found)


@router.get("/retention", response_model=RetentionReport, responses=documented(), summary="What is kept for how long")
async def get_retention(dependencies: Dependencies, principal: PlatformOperator) -> Response:
    """Return for how long what is kept, and what decides that; the audit's is `unknown` while TAS does not answer."""
    del principal
    told: TasRetention | None
    try:
        told = await dependencies.platform.request(rpc.GET_RETENTION, GetRetention())
    except ProblemError as error:
        # Of the version before, or away: the other periods are known all the same.
        if error.problem.code != "unavailable":
            raise
        told = None
    return json_answer(retention_report(told))

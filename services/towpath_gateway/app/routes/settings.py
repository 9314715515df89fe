"""What this gateway runs with, for whoever operates the platform; secrets are hidden."""

from fastapi import APIRouter, Response

from towpath_gateway.app.dependencies import Dependencies, PlatformOperator, documented, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.effective_settings import EffectiveSettings, effective_settings

router = APIRouter(prefix="/v1/settings", route_class=BoundedJsonRoute, tags=["settings"])


@router.get("", response_model=EffectiveSettings, responses=documented(), summary="What this gateway runs with")
async def get_settings(dependencies: Dependencies, principal: PlatformOperator) -> Response:
    """Return each setting of the gateway that answers, and where its value came from; never a secret."""
    del principal
    settings = dependencies.settings
    found = EffectiveSettings(service="gateway", instance=settings.instance, settings=effective_settings(settings))
    return json_answer(found)

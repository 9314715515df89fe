"""The last hour of a few numbers, for pages; Prometheus has all of them, of every service, at `/metrics`."""

from fastapi import APIRouter, Response

from towpath_gateway.app.dependencies import Dependencies, RunsReader, documented, json_answer
from towpath_gateway.app.metric_samples import EVERY_S, MetricSamples
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_gateway.core.api_keys import OPERATE_PLATFORM

router = APIRouter(prefix="/v1/metrics", route_class=BoundedJsonRoute, tags=["metrics"])


@router.get("/samples", response_model=MetricSamples, responses=documented(), summary="Numbers of the last hour")
async def get_samples(dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return what this replica has sampled of the project since somebody asked first, and sample it for another hour.

    With the scope `platform:operate` also how many requests this gateway has refused for their credential.
    """
    refused = dependencies.refused_count() if OPERATE_PLATFORM in principal.scopes else None
    samples = dependencies.sampler.look(principal.project)
    kept = dependencies.sampler.keeps(principal.project)
    return json_answer(MetricSamples(every_s=EVERY_S, samples=samples, refused=refused, kept=kept))

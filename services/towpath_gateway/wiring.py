"""Makes the objects of one gateway and connects them."""

from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.service import Service
from towpath_gateway.adapters.key_store import CreateKeyBody, KeyStore
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.app.application import create_app
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.request_log import RequestLog
from towpath_gateway.metrics import GatewayMetrics
from towpath_gateway.settings import GatewaySettings


def build_service(settings: GatewaySettings) -> Service:
    """Return a gateway that serves once the service runs."""
    service = Service("gateway", settings)
    dependencies = GatewayDependencies(
        settings=settings,
        log=service.log,
        keys=KeyStore(lambda: service.pool),
        platform=PlatformClient(service.bus, service.stopping, service.telemetry),
        metrics=GatewayMetrics(service.registry),
        stopping=service.stopping,
    )
    service.serve_app(RequestLog(create_app(dependencies), dependencies), settings.gateway_host, settings.gateway_port)
    return service


async def create_key(settings: GatewaySettings, new: CreateKeyBody, project: str) -> str:
    """Store a new API key and return it; raises ProblemError."""
    pool = await open_pool(settings.dsn(), 1, "towpath_gateway")
    try:
        view = await KeyStore(lambda: pool).create(new, project=project, maker=None)
    finally:
        await pool.close()
    assert view.key is not None
    return view.key

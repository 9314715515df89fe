"""Makes the objects of one gateway and connects them."""

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.service import Service
from towpath_gateway.adapters.key_store import CreateKeyBody, KeyStore
from towpath_gateway.adapters.local_token import LocalToken
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.app.admission import Admission
from towpath_gateway.app.application import create_app, public_paths
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.oidc_sign_in import OidcSignIn, read_grants
from towpath_gateway.app.protocols.nats_agents.prompt_server import PromptServer
from towpath_gateway.app.request_log import RequestLog
from towpath_gateway.app.routes.sign_in import OIDC_DONE
from towpath_gateway.app.session_cookies import SessionCookies
from towpath_gateway.app.stream_pace import StreamPace
from towpath_gateway.core.browser_sessions import SessionSeal
from towpath_gateway.core.oidc import OidcFlowSeal
from towpath_gateway.core.own_site import OwnSite
from towpath_gateway.core.shares import ShareLimits, Shares
from towpath_gateway.metrics import GatewayMetrics
from towpath_gateway.settings import GatewaySettings


def build_service(settings: GatewaySettings) -> Service:
    """Return a gateway that serves once the service runs."""
    service = Service("gateway", settings)
    keys = KeyStore(lambda: service.pool)
    site = OwnSite(settings.own_origin)
    sessions = _sessions(settings, keys, site)
    dependencies = GatewayDependencies(
        settings=settings,
        log=service.log,
        keys=keys,
        platform=PlatformClient(service.bus, service.stopping, service.telemetry),
        metrics=GatewayMetrics(service.registry),
        stopping=service.stopping,
        site=site,
        local_token=_local_token(settings),
        sessions=sessions,
        oidc=_oidc(settings, keys, sessions),
        request_shares=Shares(
            "requests",
            ShareLimits(settings.max_requests, settings.max_requests_per_project, settings.max_requests_per_key),
            retry_after_s=1,
        ),
        stream_shares=Shares(
            "event streams",
            ShareLimits(settings.max_streams, settings.max_streams_per_project, settings.max_streams_per_key),
            retry_after_s=5,
        ),
        stream_pace=StreamPace(),
    )
    if settings.asks_for_nothing:
        service.log.warning(
            "nobody is asked for a key or a token: every process of this machine may do everything here"
        )
    service.loop(dependencies.sampler.run)
    service.loop(PromptServer(dependencies).run)
    api = create_app(dependencies)
    if service.telemetry.requests is not None:
        service.telemetry.requests.instrument_app(api)
    app = Admission(api, dependencies, public_paths())
    service.serve_app(RequestLog(app, dependencies), settings.gateway_host, settings.gateway_port)
    return service


def _local_token(settings: GatewaySettings) -> LocalToken | None:
    if settings.asks_for_keys or settings.asks_for_nothing:
        return None
    if settings.local_token_file is None:
        detail = "an embedded gateway needs TOWPATH_LOCAL_TOKEN_FILE, or TOWPATH_AUTH=on, or TOWPATH_AUTH=off"
        raise ProblemError(problem("request_invalid", detail))
    return LocalToken(settings.local_token_file, settings.local_sign_in_file, settings.gateway_port)


def _sessions(settings: GatewaySettings, keys: KeyStore, site: OwnSite) -> SessionCookies | None:
    if not settings.asks_for_keys or settings.session_secret is None:
        return None
    return SessionCookies(SessionSeal(settings.session_secret.get_secret_value()), keys, site)


def _oidc(settings: GatewaySettings, keys: KeyStore, sessions: SessionCookies | None) -> OidcSignIn | None:
    if not settings.oidc_issuer or sessions is None or settings.session_secret is None:
        return None
    try:
        from towpath_gateway.adapters.oidc_provider import (  # noqa: PLC0415 - of an extra that few install
            OidcProvider,
            is_safe_address,
        )
    except ImportError as error:
        detail = f"{error.name} is not installed, so nobody can sign in at {settings.oidc_issuer}"
        raise ProblemError(problem("request_invalid", detail, remedy="Install towpath[gateway,oidc].")) from error
    for address in (settings.oidc_issuer, settings.own_url):
        if not is_safe_address(address):
            raise ProblemError(problem("request_invalid", f"{address} is not an address with https://"))
    secret = settings.oidc_client_secret
    provider = OidcProvider(
        settings.oidc_issuer,
        settings.oidc_client_id,
        None if secret is None else secret.get_secret_value(),
        f"{settings.own_url.rstrip('/')}{OIDC_DONE}",
        settings.oidc_scopes,
    )
    return OidcSignIn(
        provider,
        OidcFlowSeal(settings.session_secret.get_secret_value()),
        keys,
        sessions,
        claim=settings.oidc_claim,
        name_claim=settings.oidc_name_claim,
        grants=read_grants(settings.oidc_grants),
        secure=bool(sessions.site.has_tls),
    )


async def create_key(settings: GatewaySettings, new: CreateKeyBody, project: str) -> str:
    """Store a new API key and return it; raises ProblemError."""
    pool = await open_pool(settings.dsn(), 1, "towpath_gateway")
    try:
        view = await KeyStore(lambda: pool).create(new, project=project, maker=None)
    finally:
        await pool.close()
    assert view.key is not None
    return view.key

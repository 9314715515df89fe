"""Makes the objects of one decider and connects them."""

from towpath_contracts.rpc import CHECK_MODEL, RENDER_PROMPT
from towpath_decider.adapters.attachment_source import AttachmentSource
from towpath_decider.adapters.keyed_providers import keyed_providers
from towpath_decider.adapters.provider import Provider
from towpath_decider.adapters.script_source import BlobScriptSource, FileScriptSource
from towpath_decider.adapters.scripted import ScriptedProvider
from towpath_decider.app.decider import DECIDER, Decider
from towpath_decider.app.decision_service import DecisionMaker
from towpath_decider.app.model_checker import ModelChecker
from towpath_decider.app.model_readiness import ModelReadiness
from towpath_decider.app.provider_limiter import ProviderLimiter
from towpath_decider.app.token_stream import TokenPublisher
from towpath_decider.metrics import DeciderMetrics
from towpath_decider.settings import DeciderSettings
from towpath_fabric.nats.kv_register import RegistersUnavailableError, SharedRegisters
from towpath_fabric.prices.model_price_list import ModelPriceList
from towpath_fabric.service import Service
from towpath_fabric.telemetry.clock_check import ClockCheck


def build_service(settings: DeciderSettings) -> Service:
    """Return a decider that serves once the service runs."""
    service = Service(DECIDER, settings)
    log, metrics = service.log, DeciderMetrics(service.registry)
    scripted = ScriptedProvider(
        blobs=BlobScriptSource(service.bus),
        files=FileScriptSource(settings.script_dir),
        allowed=settings.scripts_allowed,
    )
    token_publisher = TokenPublisher(service.bus)

    def hold_slots(count: int) -> None:
        decider.hold(count)  # made after the limiter, which its service needs; called only once requests arrive

    registers = SharedRegisters(service.bus, "providers")
    limiter = ProviderLimiter(
        settings.provider_limits,
        registers,
        log,
        metrics,
        hold=hold_slots,
        places=settings.decider_concurrency,
    )
    with_key = keyed_providers(settings, log)
    providers: dict[str, Provider] = {**with_key, "scripted": scripted}
    readiness, prices = ModelReadiness(scripted, with_key), ModelPriceList(settings.model_prices_file)
    decider = Decider(
        service.bus,
        DecisionMaker(
            providers,
            open_listener=token_publisher.open_listener if settings.decider_deltas else None,
            limiter=limiter,
            prices=prices,
            load_attachments=AttachmentSource(service.bus).get,
        ),
        log,
        metrics,
        pool=settings.decider_pool,
        concurrency=settings.decider_concurrency,
        telemetry=service.telemetry,
        readiness=readiness,
    )
    service.bus.subscriber(RENDER_PROMPT)(decider.render_prompt)
    checker = ModelChecker(providers, readiness, log, limiter=limiter, prices=prices)
    service.bus.subscriber(CHECK_MODEL)(checker.check_model)
    clock = ClockCheck("nats", registers.time, (RegistersUnavailableError,), service.registry, log)
    service.on_start(decider.start)
    service.on_stop(decider.stop)
    service.loop(decider.take_requests)
    service.loop(decider.keep_alive)
    service.loop(clock.run)
    service.loop(token_publisher.publish_waiting)
    for loop in limiter.loops:
        service.loop(loop)
    return service

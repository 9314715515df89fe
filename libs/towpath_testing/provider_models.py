"""Models of providers in a harness: asked by the decider's own classes, with the keys that a decider would have.

A harness asks a provider only where a test says so, since it costs money. Answers can be recorded, and said again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from towpath.declared_places import checks_call
from towpath_decider.adapters.provider import Provider
from towpath_decider.settings import DeciderSettings
from towpath_fabric.prices.model_price_list import ModelPriceList
from towpath_fabric.redaction import add_secrets
from towpath_testing.recordings import AnswerRecorder, RecordingProvider, ReplayProvider

SCRIPTED = "scripted"
ALL_ASKED = ("gemini", "google", "openai", "anthropic", "local")


class ProviderModels:
    """The models that a network names, or *model* in the place of all of them."""

    def __init__(
        self, model: str = "", *, recorder: AnswerRecorder | None = None, replayed: ReplayProvider | None = None
    ) -> None:
        self.model = model
        self._recorder = recorder
        self._replayed = replayed

    def open(self, scripted: Provider, log: Any) -> tuple[Mapping[str, Provider], ModelPriceList | None]:
        """Return the providers by name, and the operator's own prices of models.

        Scripts are played here too. With a replay nobody else is asked, and what was recorded has its price already.
        """
        if self._replayed is not None:
            return {**dict.fromkeys(ALL_ASKED, self._replayed), SCRIPTED: scripted}, None
        from towpath_decider.adapters.keyed_providers import keyed_providers  # noqa: PLC0415 - few tests need it

        settings = DeciderSettings()
        keys = [one.get_secret_value() for _, one in settings if isinstance(one, SecretStr)]
        add_secrets(*keys)
        found: dict[str, Provider] = {**keyed_providers(settings, log)}
        if self._recorder is not None:
            found = {name: RecordingProvider(one, self._recorder) for name, one in found.items()}
        return {**found, SCRIPTED: scripted}, ModelPriceList(settings.model_prices_file)


@checks_call
def live(model: str = "", *, record: str | Path | None = None) -> ProviderModels:
    """Return the models of providers: *model*, or those of the network. *record* is a file for their answers."""
    return ProviderModels(model, recorder=None if record is None else AnswerRecorder(Path(record)))


@checks_call
def replay(path: str | Path, model: str = "") -> ProviderModels:
    """Return models that say what was recorded in *path*, and nothing else; no key is needed."""
    return ProviderModels(model, replayed=ReplayProvider(Path(path)))

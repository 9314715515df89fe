"""Whether a model can be asked from here: said before a run is submitted, and never by asking the model.

Keys are looked for, and neither shown nor tried.
"""

from collections.abc import Mapping
from typing import Protocol

from towpath_decider.adapters.scripted import ScriptedProvider


class ProviderWithKey(Protocol):
    """A provider that somebody has to set something for."""

    @property
    def missing(self) -> str:
        """What has to be set before anything can be asked; empty when nothing has."""
        ...


class ModelReadiness:
    """Knows the providers of one decider."""

    def __init__(self, scripted: ScriptedProvider, providers: Mapping[str, ProviderWithKey]) -> None:
        self._scripted = scripted
        self._providers = dict(providers)

    async def missing(self, model: str) -> str:
        """Return what *model* lacks here; empty where it lacks nothing that is known, and for agents in user code."""
        name = model.partition(":")[0]
        if name == "scripted":
            return await self._scripted.missing_for(model)
        provider = self._providers.get(name)
        return provider.missing if provider is not None else ""

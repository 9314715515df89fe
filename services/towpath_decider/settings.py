"""Settings of the decider, from its environment.

Keys of providers are read here and nowhere else, and are never logged (`SecretStr`).
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr, field_validator

from towpath_contracts.decisions.model_strings import PROVIDERS, WITH_NATIVE_TOOLS
from towpath_contracts.decisions.provider_limits import ProviderLimit
from towpath_contracts.subjects import DEFAULT_POOL
from towpath_fabric.settings import Settings


def _refuse_others(given: Iterable[str], providers: Collection[str], these: str, others: str) -> None:
    """Raise ValueError where one of *given* is neither of *providers* nor a model of one, `provider:model`."""
    strange = sorted(name for name in given if name.partition(":")[0] not in providers)
    if strange:
        msg = f"{these} {', '.join(sorted(providers))} or a model of one, {others} {', '.join(strange)}"
        raise ValueError(msg)


class DeciderSettings(Settings):
    """`TOWPATH_DECIDER_*`, the variables of prices and scripts, and the providers' own."""

    decider_pool: str = Field(default=DEFAULT_POOL, pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$")
    decider_concurrency: int = Field(default=64, ge=1, le=1_024)
    """Requests that are answered at once; as many again may wait for a limited provider (docs/scheduling.md)."""

    decider_deltas: bool = True
    """Whether models are asked to stream their answers, so that viewers can read along; off, answers come whole."""

    provider_limits: dict[str, ProviderLimit] = Field(default_factory=dict)
    """JSON by provider or `provider:model`; every decider is given the same (docs/scheduling.md)."""

    native_tools: dict[str, bool] = Field(default_factory=dict)
    """JSON by provider or `provider:model`: whether tools are offered natively (docs/models.md)."""

    model_prices_file: Path | None = None
    """YAML with the operator's own prices of models, the same file as the orchestrator's (docs/budgets.md)."""

    allow_scripts: bool = False
    script_dir: Path | None = None
    gemini_base_url: str | None = None
    gemini_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("GEMINI_API_KEY", "GOOGLE_API_KEY")
    )

    openai_base_url: str | None = None
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    anthropic_base_url: str | None = None
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    local_url: str | None = None
    local_api_key: SecretStr | None = None

    @field_validator("provider_limits")
    @classmethod
    def _of_models(cls, limits: dict[str, ProviderLimit]) -> dict[str, ProviderLimit]:
        _refuse_others(limits, PROVIDERS, "limits are of", "not of")
        return limits

    @field_validator("native_tools")
    @classmethod
    def _of_providers(cls, switches: dict[str, bool]) -> dict[str, bool]:
        _refuse_others(switches, WITH_NATIVE_TOOLS, "tools can be offered natively to", "not to")
        return switches

    @property
    def scripts_allowed(self) -> bool:
        """Scripts play on the embedded platform, or where somebody allowed them."""
        return self.embedded or self.allow_scripts

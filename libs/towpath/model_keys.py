"""Which model providers can be asked from here.

A key is looked for, never shown and never tried. OpenAI's clients send a key of Towpath as OPENAI_API_KEY, so one may
lie where a provider's is looked for: it counts for none.
"""

from collections.abc import Collection, Iterator

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings

from towpath_fabric.process_protection import is_own_key


class ModelKeys(BaseSettings):
    """The keys of providers that the environment has; each field is named by its variable."""

    gemini_api_key: SecretStr | None = None
    google_api_key: SecretStr | None = None
    openai_api_key: SecretStr | None = None
    anthropic_api_key: SecretStr | None = None
    towpath_api_key: SecretStr | None = None
    local: str | None = Field(default=None, validation_alias="TOWPATH_LOCAL_URL")

    def found(self, own_tokens: Collection[str] = ()) -> tuple[str, ...]:
        """Return the providers that can be asked from here, by the first part of their model strings.

        *own_tokens* let in to a platform, and to no provider.
        """
        found = dict.fromkeys(provider for provider, _, is_own in self._keys(own_tokens) if not is_own)
        return (*found, "local") if self.local else tuple(found)

    def taken_for_keys(self, own_tokens: Collection[str] = ()) -> tuple[str, ...]:
        """Return the variables of a provider's key that hold one of Towpath, or one of *own_tokens*."""
        return tuple(variable for _, variable, is_own in self._keys(own_tokens) if is_own)

    def _keys(self, own_tokens: Collection[str]) -> Iterator[tuple[str, str, bool]]:
        """Yield provider and variable of each key that is set, and whether it is one of Towpath."""
        own = {*own_tokens, self.towpath_api_key.get_secret_value() if self.towpath_api_key is not None else ""}
        for provider, variable in (
            ("gemini", "GEMINI_API_KEY"),
            ("gemini", "GOOGLE_API_KEY"),
            ("openai", "OPENAI_API_KEY"),
            ("anthropic", "ANTHROPIC_API_KEY"),
        ):
            held: SecretStr | None = getattr(self, variable.lower())
            if held is not None and (key := held.get_secret_value().strip()):
                yield provider, variable, is_own_key(key, own)


def no_provider_key(variables: Collection[str]) -> str:
    """Return what is said of *variables* that hold a key of Towpath."""
    names = " and ".join(variables)
    return (
        f"{names} {'holds a key' if len(variables) == 1 else 'hold keys'} of Towpath and none of a provider: "
        "it is not given to the decider, and a run with a model of theirs fails for want of a key"
    )

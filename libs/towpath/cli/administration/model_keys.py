"""Which model providers can be asked from here.

A key is looked for and never shown.
"""

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings


class ModelKeys(BaseSettings):
    """Which model providers have a key here; the keys themselves are never shown."""

    gemini: SecretStr | None = Field(default=None, validation_alias=AliasChoices("GEMINI_API_KEY", "GOOGLE_API_KEY"))
    openai: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    anthropic: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    local: str | None = Field(default=None, validation_alias="TOWPATH_LOCAL_URL")

    @property
    def has_gemini(self) -> bool:
        """Whether there is a key for Gemini."""
        return self.gemini is not None and bool(self.gemini.get_secret_value())

    def found(self) -> tuple[str, ...]:
        """Return the providers that can be asked from here, by the first part of their model strings."""
        keys = {"gemini": self.gemini, "openai": self.openai, "anthropic": self.anthropic}
        found = [name for name, key in keys.items() if key is not None and key.get_secret_value()]
        return (*found, "local") if self.local else tuple(found)

"""Which model providers can be asked from here.

Law: a key is looked for and never shown.
"""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class ModelKeys(BaseSettings):
    """Which model providers have a key here; the keys themselves are never shown."""

    gemini: SecretStr | None = Field(default=None, validation_alias="GEMINI_API_KEY")

    @property
    def has_gemini(self) -> bool:
        """Whether there is a key for Gemini."""
        return self.gemini is not None and bool(self.gemini.get_secret_value())

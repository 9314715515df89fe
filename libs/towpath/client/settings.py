"""Which platform a client talks to when the code does not say: `TOWPATH_SERVER`, `TOWPATH_API_KEY`.

Law: an argument wins over the environment.
"""

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_SERVER = "http://127.0.0.1:8787"
"""Where `towpath up` listens."""


class ClientSettings(BaseSettings):
    """What the environment says about the server."""

    model_config = SettingsConfigDict(env_prefix="TOWPATH_", extra="ignore", frozen=True)

    server: str = DEFAULT_SERVER
    api_key: SecretStr | None = None

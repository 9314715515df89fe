"""Which platform a client talks to when the code does not say: `TOWPATH_SERVER`, `TOWPATH_API_KEY`.

An argument wins over the environment, and the environment over the platform that runs on `./.towpath`.
"""

import json
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

DEFAULT_SERVER = "http://127.0.0.1:8787"
"""Where `towpath up` listens."""


def running_server_url(folder: Path = Path(".towpath")) -> str | None:
    """Return the address of the platform that says it runs on *folder*; None where none does."""
    try:
        state = json.loads((folder / "state.json").read_text("utf-8"))
        address = state["gateway_url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return address if isinstance(address, str) else None


class ClientSettings(BaseSettings):
    """What the environment says about the server."""

    model_config = SettingsConfigDict(env_prefix="TOWPATH_", extra="ignore", frozen=True)

    server: str = Field(default_factory=lambda: running_server_url() or DEFAULT_SERVER)
    api_key: SecretStr | None = None

"""Settings that every service shares, read from `TOWPATH_*` and nowhere else.

Law: this module is the only reader of the environment. A service adds its own fields in a subclass. Secrets are
`SecretStr`, so that printing settings never shows them.
"""

import os
import socket
from typing import Any, Literal, Self

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What every service needs to know. Ports are TCP; 0 means any free one."""

    model_config = SettingsConfigDict(env_prefix="TOWPATH_", extra="ignore", frozen=True)

    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str | None = None
    nats_password: SecretStr | None = None
    database_url: SecretStr | None = None
    database_pool: int = 4
    health_host: str = "127.0.0.1"
    health_port: int = 0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console"] = "json"
    instance: str = ""
    embedded: bool = False
    otlp_endpoint: str | None = None
    stop_grace_s: float = 10.0

    @classmethod
    def load(cls, **values: Any) -> Self:
        """Read the environment; *values* win over it. Raises pydantic's ValidationError naming every wrong variable."""
        loaded = cls(**values)
        if loaded.instance:
            return loaded
        return loaded.model_copy(update={"instance": f"{socket.gethostname()}-{os.getpid()}"})

    def dsn(self) -> str:
        """Return the database URL; raises ValueError where a service needs one and none is set."""
        if self.database_url is None:
            msg = "TOWPATH_DATABASE_URL is not set, and this service keeps its truth in Postgres"
            raise ValueError(msg)
        return self.database_url.get_secret_value()

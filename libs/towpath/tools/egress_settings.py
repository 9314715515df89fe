"""What a worker's operator lets tools reach, as its environment says."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath.tools.egress_rules import EgressRules, split_patterns
from towpath.tools.platform_address import PlatformAddressSettings


class HttpEgressSettings(BaseSettings):
    """What `http.request` may reach: TOWPATH_HTTP_ALLOW, TOWPATH_HTTP_ALLOW_PRIVATE, TOWPATH_HTTP_MAX_BYTES.

    Both lists are separated by commas or spaces, and empty by default; `HOST:PORT` allows one port. A host that may
    have a private address must stand in both. Programs in a sandbox have a list of their own in place of the first.
    """

    model_config = SettingsConfigDict(env_prefix="TOWPATH_HTTP_", extra="ignore", frozen=True)

    allow: str = ""
    allow_private: str = ""
    max_bytes: int = Field(default=1024 * 1024, ge=1, le=8 * 1024 * 1024)

    def rules(self) -> EgressRules:
        """Return the rules for `http.request`."""
        platform = PlatformAddressSettings()
        return EgressRules(
            allowed=split_patterns(self.allow),
            allowed_private=split_patterns(self.allow_private),
            own_ports=platform.own_ports,
            broker_ports=platform.broker_ports(),
        )

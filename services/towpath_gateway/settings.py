"""Settings of the gateway, `TOWPATH_*` (see towpath_fabric.settings)."""

from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, FilePath, SecretStr, model_validator

from towpath_fabric.settings import Settings

_PORTS = {"http": 80, "https": 443}

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class GatewaySettings(Settings):
    """Where the gateway listens, whom it lets in, and how long it waits.

    `auth` "auto" asks for keys everywhere but on the embedded platform, which asks for the token in
    `local_token_file`. "off" lets in every process of the machine there; elsewhere it is refused.
    `session_secret` signs the cookies of people who sign in with a key in a browser: all replicas are given the same,
    and without one nobody signs in. `run_wait_s` bounds `POST /run`; `max_streams` bounds the event streams of one
    process.
    """

    secrets_in_files: ClassVar[tuple[str, ...]] = (*Settings.secrets_in_files, "session_secret", "oidc_client_secret")

    gateway_host: str = "127.0.0.1"
    gateway_port: int = 8787
    auth: Literal["auto", "on", "off"] = "auto"
    public_url: str = ""
    """Where browsers find this gateway: a session is used by pages of that site alone, and with https by TLS alone."""
    local_token_file: Path | None = None
    local_sign_in_file: Path | None = None
    session_secret: SecretStr | None = Field(default=None, min_length=32)
    session_secret_file: FilePath | None = None
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: SecretStr | None = None
    oidc_client_secret_file: FilePath | None = None
    oidc_gateway_url: str = ""
    """`public_url`, for people who sign in elsewhere: the provider sends them back to `/sign-in/oidc/done` there."""
    oidc_scopes: str = "openid profile"
    oidc_name_claim: str = "preferred_username"
    oidc_claim: str = "groups"
    oidc_grants: str = ""
    """JSON: what each value of `oidc_claim` gives, `{"VALUE": {"project": "shop", "roles": ["approver"]}}`."""
    run_wait_s: float = 120.0
    max_streams: int = 1_000
    max_streams_per_project: int = 750
    max_streams_per_key: int = 500
    max_requests: int = 2_000
    """Requests under way at once, streams included; more are refused before they are read (429, Retry-After)."""
    max_requests_per_project: int = 1_500
    max_requests_per_key: int = 1_000
    max_requests_without_key: int = Field(default=64, ge=1)
    """Beside the others: requests whose key is being looked up for the first time, and those that need none."""
    http_body_s: float = Field(default=30.0, gt=0)
    """For a whole body, from its request's first byte on: who sends 1 MiB slower than 35 kB/s is cut off."""

    @property
    def asks_for_keys(self) -> bool:
        """Whether a request needs a key."""
        return self.auth == "on" or not self.embedded

    @property
    def asks_for_nothing(self) -> bool:
        """Whether whoever reaches the port is let in."""
        return self.auth == "off"

    @property
    def own_url(self) -> str:
        """Where browsers find this gateway; empty where nobody says so."""
        return self.public_url or self.oidc_gateway_url

    @property
    def own_origin(self) -> str:
        """The origin of its pages; empty where nobody says so."""
        return origin_at(self.own_url) if self.own_url else ""

    @model_validator(mode="after")
    def _one_public_url(self) -> "GatewaySettings":
        given = {origin_at(url) for url in (self.public_url, self.oidc_gateway_url) if url}
        if len(given) > 1:
            msg = "TOWPATH_PUBLIC_URL and TOWPATH_OIDC_GATEWAY_URL are the same site: where browsers find this gateway"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _oidc_whole(self) -> "GatewaySettings":
        if not self.oidc_issuer:
            return self
        needed = {
            "TOWPATH_OIDC_CLIENT_ID": self.oidc_client_id,
            "TOWPATH_PUBLIC_URL": self.own_url,
            "TOWPATH_OIDC_GRANTS": self.oidc_grants,
            "TOWPATH_SESSION_SECRET": self.session_secret,
        }
        missing = [name for name, value in needed.items() if not value]
        if missing or not self.asks_for_keys:
            msg = f"with TOWPATH_OIDC_ISSUER keys are asked for, and these are given too: {', '.join(needed)}"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _open_only_to_this_machine(self) -> "GatewaySettings":
        if self.auth == "off" and not self.embedded:
            msg = "TOWPATH_AUTH=off is for an embedded platform; everywhere else a request needs a key"
            raise ValueError(msg)
        if not self.asks_for_keys and self.gateway_host not in _LOOPBACK:
            msg = f"without keys the gateway listens on the loopback only, not on {self.gateway_host}: TOWPATH_AUTH=on"
            raise ValueError(msg)
        return self


def origin_at(address: str) -> str:
    """Return the origin of *address* as browsers write it; raises ValueError where it is no address of a site."""
    parts = urlsplit(address)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{address!r} is not an address such as https://towpath.example")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in {None, _PORTS[parts.scheme]} else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"

"""Settings that every service shares, read from `TOWPATH_*` and nowhere else.

This module is the only reader of the environment. A service adds its own fields in a subclass. Secrets are
`SecretStr`, so that printing settings never shows them, and what is wrong is told without what was given.
"""

import os
import socket
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, FilePath, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath_contracts.problems.input_faults import details_of, in_plain_words
from towpath_fabric.addresses.broker_addresses import broker_addresses

TRACES_PATH = "/v1/traces"

STATEMENT_CACHE = 100
"""Prepared statements that a connection to Postgres keeps: more than any service has."""


class BrokerSettings(BaseSettings):
    """The broker's address and the login; files of keys and certificates are read by `towpath_fabric.nats.login`.

    One login: user and password, the seed of an nkey, or credentials (JWT and seed). Any of the `nats_tls_` files, or
    an address with `tls://` among them, requires TLS: there is never an unencrypted connection then.
    """

    model_config = SettingsConfigDict(
        env_prefix="TOWPATH_",
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,  # what is wrong is told at the start, and read by whoever reads logs
    )

    secrets_in_files: ClassVar[tuple[str, ...]] = ("nats_password", "database_url")
    """Secrets that may stand in a file, named by the same variable with `_FILE` behind it."""

    nats_url: str = "nats://127.0.0.1:4222"
    """The broker, or with commas between them the nodes of its cluster."""
    stream_replicas: int = Field(default=1, ge=1, le=5)
    """How many nodes of a broker's cluster keep each stream that is created."""
    nats_user: str | None = None
    nats_password: SecretStr | None = None
    nats_password_file: FilePath | None = None
    nats_nkey_file: FilePath | None = None
    nats_creds_file: FilePath | None = None
    nats_tls_ca: FilePath | None = None
    nats_tls_cert: FilePath | None = None
    nats_tls_key: FilePath | None = None
    nats_owner: int | None = Field(default=None, ge=0)
    """The user id of the process that has to answer at the address; who else does is sent nothing."""

    @model_validator(mode="before")
    @classmethod
    def _read_secret_files(cls, given: Any) -> Any:
        """Read the secrets whose files are named; what is wrong with the name of a file its own field tells."""
        if not isinstance(given, dict):
            return given
        read = dict(given)
        for name in cls.secrets_in_files:
            place = Path(str(read.get(f"{name}_file") or ""))
            if not place.is_file():
                continue
            if read.get(name) is not None:
                msg = f"TOWPATH_{name.upper()} and TOWPATH_{name.upper()}_FILE are given; one of them is enough"
                raise ValueError(msg)
            read[name] = place.read_text("utf-8").strip()
        return read

    @field_validator("nats_url")
    @classmethod
    def _read_addresses(cls, given: str) -> str:
        broker_addresses(given)
        return given

    @field_validator("stream_replicas")
    @classmethod
    def _have_a_majority(cls, given: int) -> int:
        if given % 2 == 0:
            msg = f"{given} copies outlive the loss of no more nodes than {given - 1} do; write 1, 3 or 5"
            raise ValueError(msg)
        return given

    @property
    def nats_servers(self) -> tuple[str, ...]:
        """Each address of `nats_url`."""
        return broker_addresses(self.nats_url)

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        ways = {
            "TOWPATH_NATS_PASSWORD": self.nats_password,
            "TOWPATH_NATS_NKEY_FILE": self.nats_nkey_file,
            "TOWPATH_NATS_CREDS_FILE": self.nats_creds_file,
        }
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            msg = f"there is one way to log in to the broker, not {len(given)}: {', '.join(given)}"
            raise ValueError(msg)
        if (self.nats_tls_cert is None) is not (self.nats_tls_key is None):
            msg = "TOWPATH_NATS_TLS_CERT and TOWPATH_NATS_TLS_KEY are given together"
            raise ValueError(msg)
        return self


class OtelSettings(BaseSettings):
    """The variables of OpenTelemetry that decide here; its SDK reads the others, such as headers and the sampler."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", extra="ignore", frozen=True)

    sdk_disabled: str = ""
    traces_exporter: str = "otlp"
    exporter_otlp_endpoint: str = ""
    exporter_otlp_traces_endpoint: str = ""
    propagators: str = "tracecontext"

    @property
    def disabled(self) -> bool:
        """Whether nothing is to be sent at all."""
        return self.sdk_disabled.strip().lower() == "true"

    @property
    def traces_url(self) -> str | None:
        """Where spans go; None without a receiver."""
        if self.disabled or self.traces_exporter.strip().lower() == "none":
            return None
        return self.exporter_otlp_traces_endpoint or with_traces_path(self.exporter_otlp_endpoint)

    @property
    def reads_traceparent(self) -> bool:
        """Whether the trace of a caller is gone on with."""
        return "tracecontext" in {name.strip() for name in self.propagators.split(",")}


def with_traces_path(base: str) -> str | None:
    """Return where a receiver at *base* takes spans; None where there is none."""
    base = base.rstrip("/")
    return base if base.endswith(TRACES_PATH) else base + TRACES_PATH if base else None


class Settings(BrokerSettings):
    """Settings of every service. Ports are TCP; 0 means any free one."""

    database_url: SecretStr | None = None
    database_url_file: FilePath | None = None
    read_database_hosts: str = Field(default="", pattern=r"^(|[^\s,/@?]+(,[^\s,/@?]+)*)$")
    """Replicas that lists, searches and history are read from, as HOST:PORT with commas between them; the rest of their
    address is as in `database_url`. Without any, the primary is read."""
    read_max_lag_s: float = Field(default=1.0, gt=0)
    """How old what the replica holds may be; while it is older, or unknown, the primary is read."""
    database_pool: int = Field(default=4, ge=2)  # a loop of some services keeps one for itself
    database_statement_cache: int = Field(default=STATEMENT_CACHE, ge=0)
    """Prepared statements that a connection keeps; 0 behind a pooler that shares its connections by transaction."""
    health_host: str = "127.0.0.1"
    health_port: int = 0
    listener_descriptor: int | None = None
    """A socket that listens already where this process answers, of whoever started it."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    """`auto` is lines to read where standard error is a terminal, and JSON everywhere else."""
    instance: str = ""
    embedded: bool = False
    otlp_endpoint: str | None = None
    otlp_openinference: bool = False
    """Whether spans have the names of OpenInference too, which some receivers draw a span by."""
    otel: OtelSettings = Field(default_factory=OtelSettings)
    stop_grace_s: float = 10.0
    max_handling_deaths: int = Field(default=3, ge=1)
    """Deaths of a process that handled one message alone, after which the message is set aside. It is handled alone
    after two other deliveries that ended without an answer, so the default is five deaths in all."""
    http_hosts: str = ""
    """Names with a dot that `/metrics`, `/readyz` and the like are answered under, with commas between them."""
    http_header_s: float = Field(default=10.0, gt=0)
    """For the headers of an HTTP request, and for the next request of who has shown no credential."""
    http_idle_s: int = Field(default=75, gt=0)
    """For the next request of others: longer than clients and proxies keep an idle connection, so that the server is
    not the first to close one on which a request is in flight."""
    http_max_strangers: int = Field(default=512, ge=8)
    """Connections on which no credential was shown yet; for one more, the oldest is closed."""
    http_max_idle: int = Field(default=2_000, ge=8)
    """Other connections without a request; for one more, the oldest is closed."""

    @classmethod
    def load(cls, **values: Any) -> Self:
        """Read the environment; *values* win over it. Raises pydantic's ValidationError naming every wrong variable."""
        loaded = cls(**values)
        if loaded.instance:
            return loaded
        return loaded.model_copy(update={"instance": f"{socket.gethostname()}-{os.getpid()}"})

    @property
    def traces_url(self) -> str | None:
        """Where spans of runs go; None where nobody records them."""
        own = None if self.otel.disabled else with_traces_path(self.otlp_endpoint or "")
        return own or self.otel.traces_url

    def dsn(self) -> str:
        """Return the database URL; raises ValueError where a service needs one and none is set."""
        if self.database_url is None:
            msg = "TOWPATH_DATABASE_URL is not set, and this service needs Postgres"
            raise ValueError(msg)
        return self.database_url.get_secret_value()


def describe_wrong_settings(error: ValidationError) -> str:
    """Name every variable that is wrong, and what is wrong with it; never its value."""
    prefix = BrokerSettings.model_config["env_prefix"]
    found = []
    for one in in_plain_words(details_of(error)):
        name = one.pointer.strip("/").replace("/", ".")
        found.append(f"{prefix}{name.upper()}: {one.detail}" if name else one.detail)
    return "; ".join(found) + ". Correct it in the environment, and start again"

"""Where the platform of a worker is, as its environment says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath_fabric.addresses.broker_addresses import DEFAULT_PORT, broker_places


class PlatformAddressSettings(BaseSettings):
    """Where the platform of this worker is: TOWPATH_NATS_URL, and TOWPATH_STATE_FILE of one on this machine."""

    model_config = SettingsConfigDict(env_prefix="TOWPATH_", extra="ignore", frozen=True)

    nats_url: str = ""
    health_port: int | None = None
    state_file: Path | None = None

    def broker_ports(self) -> frozenset[int]:
        """Return the ports at which the broker is, of every node of its cluster."""
        return frozenset(place.port or DEFAULT_PORT for place in broker_places(self.nats_url) if place.hostname)

    def own_ports(self) -> frozenset[int] | None:
        """Return the ports of the platform on this machine as they are now; None where its file can't be read.

        Processes that are started again may change their ports, so the file is read each time.
        """
        addresses: list[str] = []
        if self.state_file is not None:
            try:
                state = json.loads(self.state_file.read_text("utf-8"))
                addresses += [text for text in (*state.values(), *_health_urls(state)) if isinstance(text, str)]
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                return None
        return frozenset(filter(None, (*map(port_of, addresses), self.health_port)))


def _health_urls(state: Any) -> Iterator[str]:
    for process in state["processes"].values():
        yield process.get("health_url", "")


def port_of(address: str) -> int | None:
    """Return the port that an address names."""
    try:
        return urlsplit(address).port
    except ValueError:
        return None

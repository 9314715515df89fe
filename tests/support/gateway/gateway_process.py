"""Starts the real gateway as a process of its own, as the platform does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.service_process import ServiceProcess, service_process

GatewayProcess = ServiceProcess


@contextmanager
def gateway_process(folder: Path, nats_url: str, **settings: str) -> Iterator[GatewayProcess]:
    """Start a gateway; *settings* are names and values without the prefix TOWPATH_.

    An embedded one asks for nothing unless *settings* say otherwise.
    """
    if settings.get("embedded") in {"true", "1"}:
        settings = {"auth": "off", **settings}
    with service_process("gateway", folder, nats_url, **settings) as process:
        yield process

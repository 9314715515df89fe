"""Starts the real gateway as a process of its own, as the platform does."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from towpath_embedded.ports import free_port

READY_S = 40  # a cold import on a busy machine


@dataclass
class GatewayProcess:
    """A running gateway."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def client(self, key: str | None = None, **options: object) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=30, **options)

    async def wait_ready(self) -> None:
        """Wait until the gateway says that it is ready."""
        until = time.monotonic() + READY_S
        async with httpx2.AsyncClient(base_url=self.url) as client:
            while time.monotonic() < until:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        return
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def gateway_process(folder: Path, nats_url: str, **settings: str) -> Iterator[GatewayProcess]:
    """Start a gateway; *settings* are names and values without the prefix TOWPATH_."""
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")},
        "TOWPATH_NATS_URL": nats_url,
        "TOWPATH_GATEWAY_PORT": str(port),
        **{f"TOWPATH_{name.upper()}": value for name, value in settings.items()},
    }
    log = folder / f"gateway-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "towpath_gateway"], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield GatewayProcess(url=f"http://127.0.0.1:{port}", process=process, log=log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

"""Starts a real service as a process of its own, as the platform does, and asks whether it is ready."""

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
STOP_S = 15


@dataclass
class ServiceProcess:
    """A running service; `url` is where its health paths are."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    async def wait_ready(self) -> None:
        """Wait until `/readyz` says 200."""
        until = time.monotonic() + READY_S
        async with httpx2.AsyncClient(base_url=self.url) as client:
            while time.monotonic() < until:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        return
                except httpx2.TransportError:
                    await asyncio.sleep(0.05)
        raise AssertionError(self.log.read_text())

    async def metrics(self) -> str:
        """Return `/metrics`."""
        async with httpx2.AsyncClient(base_url=self.url) as client:
            return (await client.get("/metrics")).text

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def cpu_s(self) -> float:
        """Return the processor time that the process has used, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def service_process(role: str, folder: Path, nats_url: str, **settings: str) -> Iterator[ServiceProcess]:
    """Start *role*; *settings* are names and values without the prefix TOWPATH_ (which other names keep off)."""
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")},
        "TOWPATH_NATS_URL": nats_url,
        "TOWPATH_HEALTH_PORT": str(port),
        **{f"TOWPATH_{name.upper()}": value for name, value in settings.items()},
    }
    log = folder / f"{role}-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", f"towpath_{role}"], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield ServiceProcess(url=f"http://127.0.0.1:{port}", process=process, log=log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

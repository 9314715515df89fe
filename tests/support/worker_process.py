"""Starts the real worker as a process of its own, as the platform does."""

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
class WorkerProcess:
    """A running worker."""

    process: "subprocess.Popen[bytes]"
    log: Path
    health: str

    async def wait_ready(self) -> None:
        """Wait until the worker says that it is ready."""
        until = time.monotonic() + READY_S
        async with httpx2.AsyncClient(base_url=self.health) as client:
            while time.monotonic() < until:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        return
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.05)
        raise AssertionError(self.log.read_text())

    async def counted(self, name: str, within_s: float = 5) -> None:
        """Wait until a counter is no longer 0."""
        until = time.monotonic() + within_s
        async with httpx2.AsyncClient(base_url=self.health) as client:
            while not any(
                line.startswith(name) and float(line.rpartition(" ")[2]) > 0
                for line in (await client.get("/metrics")).text.splitlines()
            ):
                assert time.monotonic() < until, f"{name} is still 0"
                await asyncio.sleep(0.05)

    async def ended(self, within_s: float = 20) -> int:
        """Wait for the end and return the exit code."""
        return await asyncio.to_thread(self.process.wait, within_s)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def worker_process(
    folder: Path, nats_url: str, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[WorkerProcess]:
    """Start `python -m towpath_worker` with *arguments*."""
    port = free_port()
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")},
        "TOWPATH_NATS_URL": nats_url,
        "TOWPATH_HEALTH_PORT": str(port),
        "TOWPATH_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",  # a worker must not even look at it
        **(environment or {}),
    }
    log = folder / f"worker-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "towpath_worker", *arguments],
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield WorkerProcess(process=process, log=log, health=f"http://127.0.0.1:{port}")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()

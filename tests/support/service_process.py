"""Starts a real service as a process of its own, as the platform does, and asks whether it is ready.

By a fork of a process that has imported the services already (`towpath_embedded.processes.fork_client`): a start costs
hundredths of a second of processor time instead of more than one, and is the same otherwise. Clients of services, which
speak plain HTTP, read no certificates of authorities (`verify=False`): that costs as much as a start.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from towpath_embedded.processes import fork_client
from towpath_embedded.processes.child_process import ChildProcess, wait_exit
from towpath_embedded.processes.ports import free_port
from towpath_embedded.processes.role_process import module_command

READY_S = 120  # a cold import on a busy machine
COUNTED_S = 60
STOP_S = 15


@dataclass
class ServiceProcess:
    """A running service; `url` is where its health paths are, and the gateway's API."""

    url: str
    process: ChildProcess
    log: Path

    def client(self, key: str | None = None, **options: object) -> httpx2.AsyncClient:
        """Return a client of its API, with the key *key*."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.AsyncClient(base_url=self.url, verify=False, headers=headers, timeout=60, **options)

    async def wait_ready(self) -> None:
        """Wait until `/readyz` says 200."""
        until = time.monotonic() + READY_S
        async with httpx2.AsyncClient(base_url=self.url, verify=False, timeout=60) as client:
            while time.monotonic() < until:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        return
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.02)
        raise AssertionError(self.log.read_text())

    async def metrics(self) -> str:
        """Return `/metrics`."""
        async with httpx2.AsyncClient(base_url=self.url, verify=False, timeout=60) as client:
            return (await client.get("/metrics")).text

    async def counted(self, name: str, within_s: float = COUNTED_S) -> None:
        """Wait until a counter is no longer 0."""
        until = time.monotonic() + within_s
        while not any(
            line.startswith(name) and float(line.rpartition(" ")[2]) > 0 for line in (await self.metrics()).splitlines()
        ):
            assert time.monotonic() < until, f"{name} is still 0"
            await asyncio.sleep(0.02)

    async def ended(self, within_s: float = 60) -> int:
        """Wait for the end and return the exit code."""
        status = await wait_exit(self.process, timeout_s=within_s)
        assert status is not None, f"still runs after {within_s} s"
        return status

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
def started(
    role: str, *words: str, folder: Path, environment: dict[str, str], port_variable: str = "TOWPATH_HEALTH_PORT"
) -> Iterator[ServiceProcess]:
    """Run `python -m towpath_<role>` with *words* until the block ends; it sees no other `TOWPATH_*` variable."""
    port = free_port()
    log = folder / f"{role}-{port}.log"
    server = fork_client.server()
    if server is not None:
        server.ready(READY_S)
    process = fork_client.spawn(
        module_command(role, *words),
        log=log,
        environment={
            **{name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")},
            port_variable: str(port),
            **environment,
        },
        death_signal=signal.SIGTERM,
        directory=Path.cwd(),
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


@contextmanager
def service_process(role: str, folder: Path, nats_url: str, **settings: str) -> Iterator[ServiceProcess]:
    """Start *role*; *settings* are names and values without the prefix TOWPATH_."""
    environment = {
        "TOWPATH_NATS_URL": nats_url,
        **{f"TOWPATH_{name.upper()}": value for name, value in settings.items()},
    }
    port_variable = "TOWPATH_GATEWAY_PORT" if role == "gateway" else "TOWPATH_HEALTH_PORT"
    with started(role, folder=folder, environment=environment, port_variable=port_variable) as process:
        yield process

"""A stub of docker for testcontainers: containers that are ready at once, or for which this machine's servers start.

It stands for docker alone: testcontainers, the fixtures that use it and the servers behind the ports are real.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from tests.support.tcp_proxy import tcp_proxy

from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres import PORT, Postgres

StartServer = Callable[[str, dict[str, Any]], int]
"""Starts what an image is of, with what was asked of docker, and returns its port on this machine."""


@dataclass
class StubContainer:
    """A container that is ready at once: it has logged that it is, and every command in it succeeds."""

    id: str
    begin: Callable[[], object] = lambda: None
    status: str = "created"
    ran: list[Any] = field(default_factory=list)
    removed: bool = False

    @property
    def short_id(self) -> str:
        return self.id

    def start(self) -> None:
        self.begin()
        self.status = "running"

    def reload(self) -> None:
        return

    def logs(self, stdout: bool = True, stderr: bool = True) -> bytes:
        return b"[1] [INF] Server is ready\n" if stderr else b""

    def exec_run(self, cmd: Any, **_: Any) -> Any:
        from docker.models.containers import ExecResult

        self.ran.append(cmd)
        return ExecResult(0, b"PostgreSQL 18")

    def remove(self, force: bool, v: bool) -> None:
        assert force and v
        self.removed = True


class StubDocker:
    """What testcontainers asks of a docker client."""

    def __init__(self, start_server: StartServer | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self.made: list[StubContainer] = []
        self.ports: dict[str, int] = {}
        self.api = SimpleNamespace(headers={}, base_url="http+docker://localhost", port=self.port)
        self.images = SimpleNamespace(get=lambda image: image)
        self.networks = SimpleNamespace(list=lambda **_: [])
        self.containers = SimpleNamespace(create=self.create)
        self._start_server = start_server

    def create(self, image: str, **wanted: Any) -> StubContainer:
        self.asked.append({"image": image, **wanted})
        container = StubContainer(id=f"c{len(self.made)}")
        start_server = self._start_server
        if start_server is not None:
            container.begin = lambda: self.ports.update({container.id: start_server(image, wanted)})
        self.made.append(container)
        return container

    def port(self, container: str, port: int) -> list[dict[str, str]]:
        return [{"HostPort": str(self.ports.get(container, port + 30_000))}]

    def close(self) -> None:
        return


def use_stub_docker(monkeypatch: pytest.MonkeyPatch, stub: StubDocker) -> None:
    """Have testcontainers ask *stub*."""
    from testcontainers.core import container, docker_client

    monkeypatch.setattr(docker_client.docker, "from_env", lambda **_: stub)
    monkeypatch.setattr(docker_client, "get_docker_host", lambda: None)
    monkeypatch.setattr(docker_client.utils, "inside_container", lambda: False)
    monkeypatch.setattr(container.c, "_ryuk_disabled", True)  # the container that removes what a killed session left


@contextlib.contextmanager
def machine_servers(folder: Path) -> Iterator[StartServer]:
    """Start this machine's NATS and Postgres for their images, until the block ends; from the main thread alone."""
    with contextlib.ExitStack() as stack:

        def start(image: str, wanted: dict[str, Any]) -> int:
            server = (
                Nats(folder / "nats") if image.startswith("nats:") else Postgres(folder / "postgres", durable=False)
            )
            asyncio.run(server.start())
            stack.callback(lambda: asyncio.run(server.stop()))
            if isinstance(server, Nats):
                return server.port
            asyncio.run(_add_user(server, wanted["environment"]))
            return stack.enter_context(_port_of(server.socket_folder / f".s.PGSQL.{PORT}"))

        yield start


async def _add_user(server: Postgres, environment: dict[str, str]) -> None:
    """Make the user and the database of *environment*, as the image of Postgres does."""
    user, database = environment["POSTGRES_USER"], environment["POSTGRES_DB"]
    connection = await asyncpg.connect(server.dsn(database="postgres"))
    try:
        await connection.execute(f'CREATE ROLE "{user}" SUPERUSER LOGIN')
        await connection.execute(f'CREATE DATABASE "{database}" OWNER "{user}"')
    finally:
        await connection.close()


@contextlib.contextmanager
def _port_of(socket: Path) -> Iterator[int]:
    """Give a port on which *socket* is reached, by a thread of its own: the tests have loops that come and go."""
    loop, stack = asyncio.new_event_loop(), contextlib.AsyncExitStack()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        proxy = asyncio.run_coroutine_threadsafe(stack.enter_async_context(tcp_proxy(socket)), loop).result(60)
        yield proxy.port
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

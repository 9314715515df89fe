"""The containers that tests use where docker answers, driven through testcontainers with a stub of docker."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.platform.containers import nats_container, postgres_container


@dataclass
class StubContainer:
    """A container that is ready at once: it has logged that it is, and every command in it succeeds."""

    id: str
    status: str = "created"
    ran: list[Any] = field(default_factory=list)
    removed: bool = False

    @property
    def short_id(self) -> str:
        return self.id

    def start(self) -> None:
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

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.made: list[StubContainer] = []
        self.api = SimpleNamespace(headers={}, base_url="http+docker://localhost", port=self.port)
        self.images = SimpleNamespace(get=lambda image: image)
        self.networks = SimpleNamespace(list=lambda **_: [])
        self.containers = SimpleNamespace(create=self.create)

    def create(self, image: str, **wanted: Any) -> StubContainer:
        self.asked.append({"image": image, **wanted})
        self.made.append(StubContainer(id=f"c{len(self.made)}"))
        return self.made[-1]

    def port(self, _container: str, port: int) -> list[dict[str, str]]:
        return [{"HostPort": str(port + 30_000)}]

    def close(self) -> None:
        return


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> StubDocker:
    from testcontainers.core import container, docker_client

    stub = StubDocker()
    monkeypatch.setattr(docker_client.docker, "from_env", lambda **_: stub)
    monkeypatch.setattr(docker_client, "get_docker_host", lambda: None)
    monkeypatch.setattr(docker_client.utils, "inside_container", lambda: False)
    monkeypatch.setattr(container.c, "_ryuk_disabled", True)  # the container that removes what a killed session left
    return stub


def test_nats_starts_in_a_container_without_a_warning(docker: StubDocker) -> None:
    with nats_container() as address:
        assert address == "nats://localhost:34222"
        (asked,) = docker.asked
        assert (asked["image"], asked["command"], asked["ports"]) == ("nats:2.15", "-js", {"4222": None})
        assert not docker.made[0].removed
    assert docker.made[0].removed


def test_postgres_starts_in_a_container_without_a_warning(docker: StubDocker) -> None:
    with postgres_container() as dsn:
        assert dsn == "postgresql://test:test@localhost:35432/test"
        (asked,) = docker.asked
        assert (asked["image"], asked["environment"]["POSTGRES_DB"]) == ("postgres:18", "test")
        (asked_psql,) = docker.made[0].ran
        assert "psql" in asked_psql[-1], "it is waited for"
    assert docker.made[0].removed

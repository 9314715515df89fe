"""The containers that tests use where docker answers, driven through testcontainers with a stub of docker.

That a service works on servers that start through them is tried in tests/integration/fabric/test_container_servers.py.
"""

import pytest
from tests.support.platform.containers import nats_container, postgres_container
from tests.support.platform.stub_docker import StubDocker, use_stub_docker


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> StubDocker:
    stub = StubDocker()
    use_stub_docker(monkeypatch, stub)
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

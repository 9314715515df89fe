"""NATS and Postgres in containers, where docker answers: what the session's fixtures use there (tests/conftest.py).

Only what testcontainers doesn't deprecate: its warnings are errors here, and would end the tests of whoever has docker.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

POSTGRES_IMAGE = "postgres:18"
NATS_IMAGE = "nats:2.15"
NATS_PORT = 4222


def docker_answers() -> bool:
    """Say whether containers can be started here."""
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextlib.contextmanager
def postgres_container() -> Iterator[str]:
    """Start Postgres; gives the address of its owner's database."""
    from testcontainers.community.postgres import PostgresContainer

    with PostgresContainer(POSTGRES_IMAGE, driver=None) as container:
        yield container.get_connection_url()


@contextlib.contextmanager
def nats_container() -> Iterator[str]:
    """Start NATS with JetStream; gives its address. Importing testcontainers' own class of it warns."""
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    wanted = DockerContainer(NATS_IMAGE).with_command("-js").with_exposed_ports(NATS_PORT)
    with wanted.waiting_for(LogMessageWaitStrategy("Server is ready")) as container:
        yield f"nats://{container.get_container_host_ip()}:{container.get_exposed_port(NATS_PORT)}"

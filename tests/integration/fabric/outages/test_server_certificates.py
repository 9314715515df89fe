"""Services reach Postgres and the broker over TLS, and end where a certificate can't be trusted.

The embedded Postgres has no TLS: what ends it here stands before a real server, as poolers and managed databases do.
"""

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import pytest
from tests.conftest import DatabaseUrl
from tests.integration.fabric.outages.test_refused_starts import ended
from tests.support.certificates import Authority
from tests.support.service_process import started
from tests.support.tcp_proxy import tcp_proxy

from towpath_contracts.authority import USERS
from towpath_embedded.servers.nats import Nats
from towpath_fabric.postgres.database_hosts import hosts_of

ROLE = "log_writer"


class TlsNats(Nats):
    """A broker that talks TLS from the first byte, with `server.pem` of *folder*'s parent."""

    def configuration(self) -> str:
        """The server's configuration file."""
        place = self.folder.parent
        files = f"cert_file: {json.dumps(str(place / 'server.pem'))}, key_file: {json.dumps(str(place / 'server.key'))}"
        return f"{super().configuration()}tls {{ {files}, handshake_first: true }}\n"


class TlsServers(NamedTuple):
    """Both servers as a service is told of them, the certificate of another authority, and `deploy`'s password."""

    environment: dict[str, str]
    other: Path
    plain: str
    deploys: str

    def changed(self, **changes: str) -> dict[str, str]:
        """What the environment says, but for *changes*."""
        return {**self.environment, **changes}


@pytest.fixture
async def servers(folder: Path, database: DatabaseUrl) -> AsyncIterator[TlsServers]:
    """Postgres and a broker, each with a certificate for 127.0.0.1."""
    Authority.make(folder, "ours").issue("server")
    Authority.make(folder, "elsewhere")
    broker = TlsNats(folder / "nats", users=USERS)
    await broker.start()
    (host, port), *_ = hosts_of(database(ROLE))
    parts = urlsplit(database(ROLE))
    login = parts.netloc.rpartition("@")[0]
    async with tcp_proxy(Path(host, f".s.PGSQL.{port}") if host.startswith("/") else port) as postgres:
        postgres.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        postgres.tls.load_cert_chain(folder / "server.pem", folder / "server.key")
        address = f"{parts.scheme}://{login}@127.0.0.1:{postgres.port}{parts.path}?sslmode=verify-full&sslrootcert="
        environment = {
            "TOWPATH_NATS_URL": f"tls://127.0.0.1:{broker.port}",
            "TOWPATH_NATS_TLS_CA": str(folder / "ours.pem"),
            "TOWPATH_NATS_USER": ROLE,
            "TOWPATH_NATS_PASSWORD": broker.password(ROLE),
            "TOWPATH_DATABASE_URL": address + quote(str(folder / "ours.pem")),
        }
        yield TlsServers(environment, folder / "elsewhere.pem", address, broker.password("deploy"))
    await broker.stop()


async def test_a_service_works_over_tls_with_certificates_that_it_checks(servers: TlsServers, folder: Path) -> None:
    with started(ROLE, folder=folder, environment=servers.environment) as service:
        await service.wait_ready()
        service.terminate()
        assert await service.ended() == 0
        assert "eof_received" not in service.log.read_text(), "asyncio warns of what nats-py does"


async def test_a_command_over_tls_says_nothing_of_how_the_connection_ends(servers: TlsServers) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "towpath.cli", "streams", "ensure"),
        env={**os.environ, **servers.changed(TOWPATH_NATS_USER="deploy", TOWPATH_NATS_PASSWORD=servers.deploys)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert (process.returncode, said.decode()) == (0, "")


@pytest.mark.parametrize("hosts", [1, 2])
async def test_a_certificate_of_postgres_that_can_not_be_trusted_ends_a_service(
    hosts: int, servers: TlsServers, folder: Path
) -> None:
    address = servers.plain + quote(str(servers.other))
    if hosts > 1:  # nobody listens at the other one
        address = address.replace("@127.0.0.1:", "@127.0.0.1:1,127.0.0.1:")
    found = await ended(ROLE, folder, servers.changed(TOWPATH_DATABASE_URL=address))
    assert (found.status, found.problem["code"]) == (2, "database_untrusted")
    assert "sslrootcert" in found.problem["remedy"] and "certificate of Postgres" in found.problem["detail"]


async def test_a_missing_file_and_a_server_without_tls_end_a_service(
    servers: TlsServers, folder: Path, database: DatabaseUrl
) -> None:
    gone = servers.plain + "/nowhere.pem"
    found = await ended(ROLE, folder, servers.changed(TOWPATH_DATABASE_URL=gone))
    assert (found.status, found.problem["code"]) == (2, "database_address_invalid")
    assert "/nowhere.pem" in found.problem["detail"]
    (host, port), *_ = hosts_of(database(ROLE))
    async with tcp_proxy(Path(host, f".s.PGSQL.{port}") if host.startswith("/") else port) as plain:
        address = servers.environment["TOWPATH_DATABASE_URL"]
        without: Any = address.replace(f":{urlsplit(address).port}/", f":{plain.port}/")
        found = await ended(ROLE, folder, servers.changed(TOWPATH_DATABASE_URL=without))
    assert (found.status, found.problem["code"]) == (2, "database_untrusted")


async def test_a_certificate_of_the_broker_that_can_not_be_trusted_ends_a_service(
    servers: TlsServers, folder: Path
) -> None:
    found = await ended(ROLE, folder, servers.changed(TOWPATH_NATS_TLS_CA=str(servers.other)))
    assert (found.status, found.problem["code"]) == (2, "broker_untrusted")
    assert "TOWPATH_NATS_TLS_CA" in found.problem["remedy"]

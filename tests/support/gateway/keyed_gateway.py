"""A gateway that asks for keys, with a database of its own, and keys for it."""

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
from pydantic import SecretStr
from tests.conftest import _with as address_of
from tests.support.gateway.gateway_process import GatewayProcess, gateway_process
from tests.support.platform.platform_peer import PlatformPeer

from towpath_gateway.adapters.key_store import CreateKeyBody
from towpath_gateway.core.api_keys import SCOPES
from towpath_gateway.settings import GatewaySettings
from towpath_gateway.wiring import create_key

SESSION_SECRET = "the secret of the sessions of a gateway in a test"


class Place:
    """A gateway that asks for keys, its peer and its database."""

    def __init__(self, gateway: GatewayProcess, peer: PlatformPeer, dsn: str) -> None:
        self.gateway = gateway
        self.peer = peer
        self.dsn = dsn

    async def key(self, project: str, caller: str, scopes: Sequence[str] = SCOPES, **more: Any) -> str:
        """Make a key, with every scope and role unless told otherwise."""
        self.peer.projects[caller] = project
        new = CreateKeyBody(caller=caller, scopes=tuple(scopes), **{"roles": ("approver", "policy_admin"), **more})
        return await create_key(GatewaySettings(database_url=SecretStr(self.dsn)), new, project)

    async def client(
        self, project: str, caller: str, scopes: Sequence[str] = SCOPES, **more: Any
    ) -> httpx2.AsyncClient:
        return self.gateway.client(await self.key(project, caller, scopes, **more))


def make_key(dsn: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Make a key on the command line, as the first key is made."""
    environment = {**os.environ, "TOWPATH_DATABASE_URL": dsn}
    command = [sys.executable, "-m", "towpath_gateway", "create-key", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


class Servers:
    """What the tests of keys share: one database, one gateway. `emptied` takes the keys away."""

    def __init__(self, gateway: GatewayProcess, owner: str, role: str) -> None:
        self.gateway = gateway
        self.owner = owner
        self.role = role

    async def emptied(self) -> None:
        """Remove all keys and callers."""
        await execute(
            self.owner,
            "TRUNCATE gateway.api_key",
            "DELETE FROM gateway.principal WHERE caller NOT IN ('anonymous', 'local')",
        )


async def execute(dsn: str, *statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def keyed_gateway(
    postgres_dsn: str, template_database: str, nats_url: str, folder: Path, **settings: str
) -> Iterator[Servers]:
    """Start a gateway on a new database, and drop it in the end."""
    name = f"towpath_keys_{uuid.uuid4().hex[:12]}"
    asyncio.run(execute(postgres_dsn, f'CREATE DATABASE "{name}" TEMPLATE "{template_database}"'))
    owner = address_of(postgres_dsn, database=name)
    role = address_of(postgres_dsn, user="towpath_gateway", database=name)
    with gateway_process(folder, nats_url, database_url=role, session_secret=SESSION_SECRET, **settings) as gateway:
        asyncio.run(gateway.wait_ready())
        yield Servers(gateway, owner, role)
    asyncio.run(execute(postgres_dsn, f'DROP DATABASE "{name}" WITH (FORCE)'))

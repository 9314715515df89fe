"""An owner of the database who is no superuser migrates it, as CloudNativePG makes one and as roles.sh does."""

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.support.deploy.rendered_chart import ALL, of_kind
from tests.support.places import ROOT

from towpath_embedded.servers.postgres import Postgres
from towpath_fabric.postgres.migrations import migrate


@pytest.fixture
async def postgres(folder: Path) -> AsyncIterator[Postgres]:
    """An empty server of its own: roles belong to all databases of one."""
    server = Postgres(folder, durable=False)
    await server.start()
    yield server
    await server.stop()


def dsn(server: Postgres, role: str) -> str:
    """Address the platform's database as *role*."""
    return re.sub(r"//[^@/]*@", f"//{role}@", server.dsn(database="towpath"))


async def assert_migrates(server: Postgres) -> None:
    """The owner migrates, and a service may do no more than its rights say."""
    assert {one.owner for one in await migrate(dsn(server, "towpath"))} >= {"towpath_orchestrator", "towpath_tas"}
    connection = await asyncpg.connect(dsn(server, "towpath_tas"))
    assert await connection.fetchval("SHOW plan_cache_mode") == "force_generic_plan"
    assert await connection.fetchval("SELECT bool_or(rolsuper) FROM pg_roles WHERE rolname ~ '^towpath'") is False
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("CREATE TABLE tas.mine (a int)")
    await connection.close()


async def test_the_owner_that_the_chart_makes_migrates(postgres: Postgres) -> None:
    spec = of_kind(ALL, "Cluster")["postgres"]["spec"]["bootstrap"]["initdb"]
    superuser = await asyncpg.connect(postgres.dsn(database="postgres"))
    await superuser.execute(f"CREATE ROLE {spec['owner']} LOGIN")  # as the operator does, before these
    for statement in spec["postInitSQL"]:
        await superuser.execute(statement)
    await superuser.execute(f"CREATE DATABASE {spec['database']} OWNER {spec['owner']}")
    await superuser.close()
    await assert_migrates(postgres)


def run_script(server: Postgres) -> None:
    """Run roles.sh as the superuser of *server*, having it make the owner too."""
    psql = Path(next(Path(sys.prefix).rglob("pginstall/bin/psql")))
    socket = re.search(r"host=([^&]+)", server.dsn())
    assert socket is not None
    environment = {
        "PATH": f"{psql.parent}:{os.environ['PATH']}",
        "PGHOST": socket[1],
        "POSTGRES_USER": "postgres",
        "POSTGRES_DB": "postgres",
        "POSTGRES_PASSWORD": "owner",
        "TOWPATH_OWNER": "towpath",
        **{f"TOWPATH_PASSWORD_{role}": "p" for role in ("ORCHESTRATOR", "TAS", "GATEWAY", "LOG_WRITER")},
    }
    command = ["bash", ROOT / "deploy" / "roles.sh"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_owner_that_the_script_makes_migrates(postgres: Postgres) -> None:
    run_script(postgres)
    await assert_migrates(postgres)

"""What CloudNativePG runs when it makes the database is enough for its owner, who is no superuser, to migrate it."""

import re
from pathlib import Path

import asyncpg
import pytest
from tests.support.deploy.rendered_chart import ALL, of_kind

from towpath_embedded.servers.postgres import Postgres
from towpath_fabric.postgres.migrations import migrate


async def test_an_owner_without_superuser_rights_migrates_what_the_chart_has_made(folder: Path) -> None:
    spec = of_kind(ALL, "Cluster")["postgres"]["spec"]["bootstrap"]["initdb"]
    server = Postgres(folder, durable=False)
    await server.start()
    try:
        superuser = await asyncpg.connect(server.dsn(database="postgres"))
        await superuser.execute(f"CREATE ROLE {spec['owner']} LOGIN")  # as the operator does, before these
        for statement in spec["postInitSQL"]:
            await superuser.execute(statement)
        await superuser.execute(f"CREATE DATABASE {spec['database']} OWNER {spec['owner']}")
        await superuser.close()
        owner = re.sub(r"//[^@/]*@", f"//{spec['owner']}@", server.dsn(database=spec["database"]))
        assert {one.owner for one in await migrate(owner)} >= {"towpath_orchestrator", "towpath_tas", "towpath_gateway"}
        service = re.sub(r"//[^@/]*@", "//towpath_tas@", owner)
        connection = await asyncpg.connect(service)
        assert await connection.fetchval("SHOW plan_cache_mode") == "force_generic_plan"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("CREATE TABLE tas.mine (a int)")
        await connection.close()
    finally:
        await server.stop()

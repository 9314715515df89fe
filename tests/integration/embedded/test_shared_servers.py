"""The fixtures that the other tests stand on."""

from collections.abc import Callable

import asyncpg
import nats


async def test_every_service_reaches_its_database_as_itself(database: Callable[..., str]) -> None:
    for role in ("orchestrator", "tas", "gateway", "log_writer"):
        connection = await asyncpg.connect(database(role))
        try:
            assert await connection.fetchval("SELECT current_user") == f"towpath_{role}"
        finally:
            await connection.close()


async def test_databases_of_two_tests_share_nothing(database: Callable[..., str]) -> None:
    connection = await asyncpg.connect(database())
    try:
        await connection.execute("CREATE TABLE public.only_here ()")
        assert await connection.fetchval("SELECT count(*) FROM public.towpath_migration") > 0
    finally:
        await connection.close()


async def test_the_sessions_nats_has_jetstream(nats_url: str) -> None:
    connection = await nats.connect(nats_url)
    try:
        assert (await connection.jetstream().account_info()).limits is not None
    finally:
        await connection.close()

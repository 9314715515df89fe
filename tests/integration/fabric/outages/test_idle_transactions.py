"""A transaction that nobody goes on with ends, and with it the locks that others wait for."""

import importlib.resources
import re
from collections.abc import Callable

import pytest

from towpath_fabric.postgres.pool import DATABASE_DOWN, SESSION_SETTINGS, open_pool

LOCK = "SELECT version FROM runs.budget_version FOR UPDATE"


async def test_what_a_frozen_process_holds_is_free_again(
    database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SESSION_SETTINGS, "idle_in_transaction_session_timeout", "300")
    frozen = await open_pool(database("orchestrator"), 1, "test")
    monkeypatch.undo()
    other = await open_pool(database("orchestrator"), 1, "test")
    try:
        async with frozen.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await connection.fetchval(LOCK)
            assert await other.fetchval(LOCK) is not None
            with pytest.raises(DATABASE_DOWN):
                await connection.fetchval(LOCK)
        assert await frozen.fetchval(LOCK) is not None, "the pool goes on with another connection"
    finally:
        frozen.terminate()
        other.terminate()


def test_roles_have_what_services_ask_for_where_a_pooler_refuses_it() -> None:
    assert SESSION_SETTINGS["idle_in_transaction_session_timeout"] == "20000"
    migration = importlib.resources.files("towpath_fabric").joinpath("migrations/0001_roles.sql").read_text("utf-8")
    [listed] = re.findall(r"FOREACH setting IN ARRAY ARRAY\[(.*?)\] LOOP", migration, re.DOTALL)
    found = dict(one.split(" = ") for one in re.findall(r"'([^']*)'", listed))
    assert found == SESSION_SETTINGS

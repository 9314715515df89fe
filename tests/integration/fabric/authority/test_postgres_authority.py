"""The services' Postgres roles have exactly the rights in tests/authority/postgres.yaml, read and tried."""

import re
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from tests.support.platform.postgres_rights import ROLES, rights, written

from towpath_fabric.postgres.pool import open_pool

TRIED = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
_COLUMNS = (
    "SELECT attname AS name FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped"
    " ORDER BY attnum"
)
_TABLES = (
    "SELECT format('%s.%s', n.nspname, c.relname) AS name, c.relkind = 'v' AS view FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
)


async def test_the_catalog_grants_what_the_file_says_and_nothing_else(database: Callable[..., str]) -> None:
    connection = await asyncpg.connect(database())
    try:
        assert await rights(connection) == written(), (
            "python -m tests.support.platform.postgres_rights write, and read the diff"
        )
    finally:
        await connection.close()


async def test_every_statement_on_every_table_is_refused_unless_the_file_has_it(database: Callable[..., str]) -> None:
    connection = await asyncpg.connect(database())
    tried = 0
    wrong: list[str] = []
    try:
        tables = [(row["name"], row["view"]) for row in await connection.fetch(_TABLES)]
        for role in ROLES:
            found: dict[str, str] = written()[role]["tables"]
            for table, view in tables:
                columns = [row["name"] for row in await connection.fetch(_COLUMNS, table)]
                for verb, statement, column in statements(table, columns, view=view):
                    tried += 1
                    if await allowed(connection, role, statement) != listed(found.get(table, ""), verb, column):
                        wrong.append(f"{role}: {statement}")
    finally:
        await connection.close()
    assert wrong == []
    assert tried > 1_000


async def test_a_function_with_its_owners_rights_says_where_it_looks(database: Callable[..., str]) -> None:
    connection = await asyncpg.connect(database())
    try:
        loose = await connection.fetch(
            "SELECT p.oid::regprocedure::text AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
            " WHERE p.prosecdef AND n.nspname IN ('runs', 'tas', 'gateway', 'history')"
            " AND NOT EXISTS (SELECT FROM unnest(p.proconfig) said WHERE said = 'search_path=pg_catalog, pg_temp')"
        )
        assert [row["name"] for row in loose] == []
    finally:
        await connection.close()


async def test_a_name_without_a_schema_is_postgres_s_own_whatever_path_was_set(database: Callable[..., str]) -> None:
    owner = await asyncpg.connect(database())
    try:
        await owner.execute(
            "CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;"
            " CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql"
            " AS $$ SELECT pg_catalog.clock_timestamp() + interval '2 days' $$;"
            " DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = evil, pg_catalog', current_database());"
            " END $$"
        )
        pool = await open_pool(database("tas"), 1, "test")
        ahead = "SELECT clock_timestamp() - pg_catalog.clock_timestamp() > interval '1 day'"
        try:
            assert await pool.fetchval(ahead) is False
        finally:
            await pool.close()
        bare = await asyncpg.connect(database("tas"))
        assert await bare.fetchval(ahead) is True, "and a session without the setting is deceived"
        await bare.close()
    finally:
        await owner.close()


async def test_no_role_makes_temporary_objects_that_a_function_of_an_owner_could_find(
    database: Callable[..., str], template_database: str
) -> None:
    connection = await asyncpg.connect(database())
    try:  # of the database that was migrated: its copies for tests do not keep the rights on databases
        for role in ("towpath_orchestrator", "towpath_tas", "towpath_gateway", "towpath_log_writer"):
            may = "SELECT has_database_privilege($1, $2, 'TEMPORARY')"
            assert await connection.fetchval(may, role, template_database) is False
    finally:
        await connection.close()


async def test_what_runs_as_its_owner_takes_no_type_of_the_callers(database: Callable[..., str]) -> None:
    connection = await asyncpg.connect(database("orchestrator"))
    try:
        await connection.execute(
            "CREATE FUNCTION pg_temp.evil() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN IF current_user <> session_user"
            " THEN RAISE EXCEPTION 'I am %', current_user; END IF; RETURN true; END$$;"
            " GRANT EXECUTE ON FUNCTION pg_temp.evil() TO PUBLIC;"
            " CREATE DOMAIN pg_temp.timestamptz AS pg_catalog.timestamptz CHECK (pg_temp.evil())"
        )
        await connection.execute("SELECT runs.ensure_partitions('runs.run_event', 3)")
        with pytest.raises(asyncpg.RaiseError, match="at most 24 months"):
            await connection.execute("SELECT runs.ensure_partitions('runs.run_event', 1000000)")
    finally:
        await connection.close()


def statements(table: str, columns: list[str], *, view: bool) -> list[tuple[str, str, str]]:
    """Every kind of statement on *table*, as (verb, statement, column); EXPLAIN checks rights and changes nothing."""
    found = [("SELECT", f'EXPLAIN SELECT "{column}" FROM {table}', column) for column in columns]
    if view:
        return found
    found += [("UPDATE", f'EXPLAIN UPDATE {table} SET "{column}" = DEFAULT', column) for column in columns]
    found += [("INSERT", f"EXPLAIN INSERT INTO {table} DEFAULT VALUES", "")]
    return [*found, ("DELETE", f"EXPLAIN DELETE FROM {table}", ""), ("TRUNCATE", f"TRUNCATE {table}", "")]


def listed(given: str, verb: str, column: str) -> bool:
    """Return whether the file's words allow *verb*, on *column* where one is named."""
    words = dict(re.findall(r"(\w+)(?:\(([^)]*)\))?", given.replace(", ", ",")) if given else [])
    if verb not in words:
        return False
    return not words[verb] or not column or column in words[verb].split(",")


async def allowed(connection: Any, role: str, statement: str) -> bool:
    """Try *statement* as *role* and take it back; any refusal but for want of rights is an error of this test."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"SET LOCAL ROLE {role}")
        await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return False
    else:
        return True
    finally:
        await transaction.rollback()

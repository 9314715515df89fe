"""What each service's Postgres role may do, read from the catalog: the whole of it, as `tests/authority/postgres.yaml`.

Rights are asked of the server (`has_…_privilege`), so that what comes from PUBLIC, membership or ownership counts
too. `python -m tests.support.platform.postgres_rights write` writes the file anew from the migrations; read its diff.
"""

import asyncio
import sys
from typing import Any

import asyncpg
import yaml
from tests.support.places import TESTS

from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.postgres.migrations import migrate

FILE = TESTS / "authority" / "postgres.yaml"
ROLES = ("towpath_gateway", "towpath_log_writer", "towpath_orchestrator", "towpath_tas")
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
VERBS_SINCE = {"MAINTAIN": 17}
"""Verbs that an older server does not know, with the first version of PostgreSQL that does."""
COLUMN_VERBS = ("SELECT", "INSERT", "UPDATE", "REFERENCES")
HEAD = """\
# What each service's role may do in Postgres, and nothing else: USAGE of schemas, verbs per table (a column list where
# only these columns), EXECUTE of functions. Partitions are reached through their tables only.
# A migration that grants something: python -m tests.support.platform.postgres_rights write, and read the diff.
"""

_OURS = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
_TABLES = (
    "SELECT c.oid, format('%s.%s', n.nspname, c.relname) AS name, c.relispartition AS part FROM pg_class c"
    f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r','p','v','m','f') AND {_OURS} ORDER BY name"
)
_COLUMNS = (
    "SELECT attname AS name, attnum FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped"
    " ORDER BY attnum"
)
_FUNCTIONS = (
    "SELECT p.oid, format('%s.%s', n.nspname, p.proname) AS name FROM pg_proc p JOIN pg_namespace n"
    f" ON n.oid = p.pronamespace WHERE {_OURS} AND p.prorettype <> 'trigger'::regtype ORDER BY name"
)
_SCHEMAS = f"SELECT n.oid, n.nspname AS name FROM pg_namespace n WHERE {_OURS} ORDER BY name"
_SEQUENCES = (
    "SELECT c.oid, format('%s.%s', n.nspname, c.relname) AS name FROM pg_class c"
    f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND {_OURS} ORDER BY name"
)


async def rights(connection: Any) -> dict[str, Any]:
    """Return every right of every role, as the file has them."""
    tables, functions = await connection.fetch(_TABLES), await connection.fetch(_FUNCTIONS)
    schemas, sequences = await connection.fetch(_SCHEMAS), await connection.fetch(_SEQUENCES)
    found: dict[str, Any] = {}
    for role in ROLES:
        found[role] = {
            "attributes": await attributes(connection, role),
            "schemas": await _named(connection, role, schemas, "schema", ("USAGE", "CREATE")),
            "tables": {row["name"]: said for row in tables if (said := await _of_table(connection, role, row))},
            "sequences": await _named(connection, role, sequences, "sequence", ("USAGE", "SELECT", "UPDATE")),
            "functions": sorted(await _named(connection, role, functions, "function", ("EXECUTE",))),
        }
    return found


async def attributes(connection: Any, role: str) -> list[str]:
    """Return what sets a role apart from any other: attributes, memberships, and what it owns."""
    row = await connection.fetchrow("SELECT * FROM pg_roles WHERE rolname = $1", role)
    given = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolcanlogin", "rolreplication", "rolbypassrls")
    member = await connection.fetch(
        "SELECT r.rolname FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid WHERE m.member = $1", row["oid"]
    )
    owns = await connection.fetch("SELECT relname FROM pg_class WHERE relowner = $1", row["oid"])
    said = [name.removeprefix("rol") for name in given if row[name]]
    return said + [f"member of {one['rolname']}" for one in member] + [f"owns {one['relname']}" for one in owns]


async def _named(connection: Any, role: str, rows: list[Any], kind: str, verbs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for row in rows:
        held = [
            verb
            for verb in verbs
            if await connection.fetchval(f"SELECT has_{kind}_privilege($1, $2::oid, $3)", role, row["oid"], verb)
        ]
        if held:
            found[row["name"]] = " ".join(held)
    return found


async def _of_table(connection: Any, role: str, row: Any) -> str:
    ask = "SELECT verb FROM unnest($3::text[]) verb WHERE has_table_privilege($1, $2::oid, verb)"
    version = connection.get_server_version().major
    known = [*VERBS, *(verb for verb, since in VERBS_SINCE.items() if version >= since)]
    whole = {one["verb"] for one in await connection.fetch(ask, role, row["oid"], known)}
    words = []
    for verb in known:
        if verb in whole:
            words.append(verb)
        elif verb in COLUMN_VERBS and (columns := await _columns(connection, role, row["oid"], verb)):
            words.append(f"{verb}({', '.join(columns)})")
    return " ".join(words)


async def _columns(connection: Any, role: str, table: int, verb: str) -> list[str]:
    ask = (
        "SELECT attname AS name FROM pg_attribute WHERE attrelid = $2 AND attnum > 0 AND NOT attisdropped"
        " AND has_column_privilege($1, $2, attnum, $3) ORDER BY attname"
    )
    return [row["name"] for row in await connection.fetch(ask, role, table, verb)]


def written() -> dict[str, Any]:
    """Return what the file says."""
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
    return loaded


async def _write() -> None:
    with temporary_folder() as folder:
        server = Postgres(folder, durable=False)
        await server.start()
        try:
            await server.ensure_database()
            await migrate(server.dsn())
            connection = await asyncpg.connect(server.dsn())
            found = await rights(connection)
            await connection.close()
        finally:
            await server.stop()
    FILE.write_text(HEAD + yaml.safe_dump(found, sort_keys=False, width=110), "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        sys.exit("usage: python -m tests.support.platform.postgres_rights write")
    asyncio.run(_write())

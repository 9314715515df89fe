"""`towpath upgrade check` asks a database what an upgrade would do, and changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.cli.printed_documents import printing
from tests.support.orchestrator.run_ids import NEW_RUN_ID

from towpath.cli.administration import upgrade_commands
from towpath.cli.administration.upgrade_commands import version_check
from towpath.cli.shared.options import OutputOptions
from towpath_fabric.postgres import migrations
from towpath_fabric.postgres.migrations import discover, migrate, release_of

Check = Callable[..., Any]

RUN = f"""
INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, user_message,
  created_at, updated_at)
VALUES ({NEW_RUN_ID}, 'default', 'network', 'n', 1, 'd', 'waiting', 0, 'c', 'm', now(), now())
"""
MIGRATION = """-- oldest: 9.1
-- migrate:up
CREATE TABLE tas.next (n integer);
-- migrate:down
DROP TABLE tas.next;
"""


@pytest.fixture
def check(database: DatabaseUrl, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs the command; returns its exit code and its checks by name."""

    async def ask(*, all_runs: bool = False) -> tuple[int, dict[str, Any]]:
        with printing("upgrade check"):
            code = await upgrade_commands.check(
                all_runs=all_runs, database_url=database(), printed=OutputOptions(output="json")
            )
        found = json.loads(capsys.readouterr().out)["checks"]
        return code, {one["check"]: one for one in found}

    return ask


async def run(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.prints("upgrade check")
async def test_a_database_of_this_version_needs_nothing(check: Check, database: DatabaseUrl) -> None:
    code, found = await check()
    assert code == 0
    assert found["migrations"]["detail"] == "none to apply"
    assert found["replay"]["detail"].startswith("0 of 0 runs give the same events")
    assert found["runs"]["detail"] == "none is under way"
    await run(database(), RUN)
    connection = await asyncpg.connect(database("tas"), server_settings={"application_name": "towpath_tas 99.0.0"})
    try:
        code, found = await check(all_runs=True)
    finally:
        await connection.close()
    assert code == 1, "the run has no log, and a version is far away"
    assert found["runs"]["detail"] == "under way: 1 waiting; they go on during the upgrade"
    assert found["versions"]["detail"].startswith("99.0.0: tas; this is ")
    assert found["replay"]["good"] is False and "0 of 1 runs" in found["replay"]["detail"]


async def test_what_is_missing_is_told_and_with_it_whom_it_shuts_out(
    check: Check, database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "9001_next.sql"
    file.write_text(MIGRATION)
    plain, added = migrations._files, {"towpath_tas": [file]}
    monkeypatch.setattr(migrations, "_files", lambda owner: [*plain(owner), *added.get(owner, ())])
    assert [one.oldest for one in discover() if one.oldest] == ["9.1"]
    code, found = await check()
    assert code == 0
    assert found["migrations"]["detail"] == (
        "1 to apply: towpath_tas/9001_next. Services of earlier versions refuse to start after towpath_tas/9001_next"
        " (from 9.1 on)"
    )
    assert "towpath db migrate" in found["migrations"]["remedy"]
    await migrate(database())
    monkeypatch.undo()
    code, found = await check()
    assert code == 1 and "runs" not in found
    assert found["migrations"]["detail"].startswith("version_too_old: towpath_tas/9001_next is applied")
    await run(database(), "UPDATE public.towpath_migration SET oldest = '0.0.9' WHERE version = '9001'")
    code, found = await check()
    assert (code, found["migrations"]["good"]) == (0, True)
    assert "the database is newer: towpath_tas/9001_next" in found["migrations"]["detail"]


@pytest.mark.parametrize(
    ("sessions", "good"),
    [
        ([], None),
        (["towpath_tas 0.1.0", "towpath_orchestrator 0.2.0"], True),
        (["towpath_tas 0.1.0", "towpath_orchestrator 0.3.0"], False),
        (["towpath_tas 1.1.0"], False),
        (["towpath-replay"], None),
    ],
)
def test_only_neighbours_work_side_by_side(
    sessions: list[str], good: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "0.1.5")
    found = version_check(sessions)
    assert found.good is good
    assert found.detail.endswith("Deciders, watchdogs and workers use no database, and are not seen here")


def test_the_numbers_of_a_version() -> None:
    assert release_of("0.3.0rc1") == (0, 3, 0) < release_of("0.10")
    assert release_of("x") == ()

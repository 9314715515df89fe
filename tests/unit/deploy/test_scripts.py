"""The scripts of deploy/: addresses of the database, the keys that sign, and no finding of a shell's reader."""

import base64
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.places import ROOT

from towpath_tas.adapters.keys import load_key

DEPLOY = ROOT / "deploy"
SCRIPTS = ("make-secrets", "kubernetes-secrets", "pin-images")


def made(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make-secrets in a copy of its folder."""
    for name in ("make-secrets", "authority.conf"):
        (folder / name).write_bytes((DEPLOY / name).read_bytes())
    command = ["bash", folder / "make-secrets", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def address(folder: Path, name: str) -> str:
    lines = (folder / "secrets" / f"{name}.env").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)["TOWPATH_DATABASE_URL"]


@pytest.mark.parametrize(
    ("database", "end"),
    [
        ((), "@postgres:5432/towpath"),
        (("--database", "db-1:5432"), "@db-1:5432/towpath"),
        (
            ("--database", "db-1:5432,db-2:5432"),
            "@db-1:5432,db-2:5432/towpath?target_session_attrs=read-write",
        ),
        (
            ("--database", "db-1:5432,db-2:5432?sslmode=verify-full"),
            "@db-1:5432,db-2:5432/towpath?sslmode=verify-full&target_session_attrs=read-write",
        ),
    ],
)  # fmt: skip
def test_every_service_with_tables_has_the_address_of_the_database(
    tmp_path: Path, database: tuple[str, ...], end: str
) -> None:
    assert made(tmp_path, *database).returncode == 0
    for user, name in [("towpath", "migrate"), ("towpath_tas", "tas"), ("towpath_log_writer", "log_writer")]:
        found = address(tmp_path, name)
        assert found.startswith(f"postgresql://{user}:p") and found.endswith(end)


@pytest.mark.parametrize("words", [("--database",), ("--hosts", "a"), ("--database", "a b"), ("--database", "$(id)")])
def test_what_is_no_database_makes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = made(tmp_path, *words)
    assert done.returncode == 2 and done.stderr
    assert not (tmp_path / "secrets").exists()


def test_the_keys_that_sign_are_read_by_the_service_and_by_nobody_else(tmp_path: Path) -> None:
    made(tmp_path)
    keys = [tmp_path / "secrets" / f"{name}.key" for name in ("ticket", "seal")]
    assert len({load_key(key).private_bytes_raw() for key in keys}) == 2
    assert all(len(base64.b64decode(key.read_bytes())) == 32 for key in keys)
    everything = [*(tmp_path / "secrets").iterdir()]
    assert {path.stat().st_mode & 0o777 for path in everything} == {0o600}


def test_secrets_that_are_not_there_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "kubernetes-secrets").write_bytes((DEPLOY / "kubernetes-secrets").read_bytes())
    done = subprocess.run(["bash", tmp_path / "kubernetes-secrets"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "deploy/make-secrets" in done.stderr


@pytest.mark.parametrize("name", ["ticket.key", "seal.key", "postgres.env"])
@pytest.mark.parametrize("empty", [True, False])
def test_no_secret_is_printed_where_a_file_of_them_is_missing(tmp_path: Path, name: str, empty: bool) -> None:
    made(tmp_path)
    (tmp_path / "kubernetes-secrets").write_bytes((DEPLOY / "kubernetes-secrets").read_bytes())
    file = tmp_path / "secrets" / name
    file.write_text("", "utf-8") if empty else file.unlink()
    done = subprocess.run(["bash", tmp_path / "kubernetes-secrets"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "") and f"deploy/secrets/{name}" in done.stderr


def test_no_command_line_of_roles_has_a_password(tmp_path: Path) -> None:
    """Whoever has a login of the machine can list what its processes were given."""
    made(tmp_path)
    lines = (tmp_path / "secrets" / "postgres.env").read_text("utf-8").split()
    shown = tmp_path / "psql"
    shown.write_text('#!/bin/sh\necho "$@"\ncat\n', "utf-8")
    shown.chmod(0o700)
    variables = dict(line.split("=", 1) for line in lines)
    owner = {"POSTGRES_USER": "postgres", "POSTGRES_DB": "postgres", "TOWPATH_OWNER": "towpath"}
    environment = {**variables, **owner, "PATH": f"{tmp_path}:{os.defpath}"}
    command = ["bash", DEPLOY / "roles.sh"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [password for password in variables.values() if password in done.stdout] == []
    assert all(f"\\getenv password {name}\n" in done.stdout for name in variables)


def test_whoever_has_a_clone_may_run_the_scripts() -> None:
    assert all(os.access(DEPLOY / name, os.X_OK) for name in SCRIPTS)

"""Secrets of a service may stand in files, and each has one place."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from towpath_fabric.settings import Settings

PASSWORD, DATABASE = "TOWPATH_NATS_PASSWORD", "TOWPATH_DATABASE_URL"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (PASSWORD, DATABASE, f"{PASSWORD}_FILE", f"{DATABASE}_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_a_secret_is_read_from_the_file_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ((PASSWORD, "hunter2"), (DATABASE, "postgresql://tas:hunter3@db/towpath")):
        (tmp_path / name).write_text(value + "\n")
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    settings = Settings.load()
    assert settings.nats_password is not None
    assert settings.nats_password.get_secret_value() == "hunter2"
    assert settings.dsn() == "postgresql://tas:hunter3@db/towpath"
    assert "hunter" not in repr(settings)


def test_two_places_for_one_secret_and_a_missing_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PASSWORD}_FILE", str(tmp_path / "missing"))
    with pytest.raises(ValidationError, match="nats_password_file"):
        Settings.load()
    (tmp_path / "missing").write_text("hunter2")
    monkeypatch.setenv(PASSWORD, "hunter3")
    with pytest.raises(ValidationError, match=f"{PASSWORD} and {PASSWORD}_FILE"):
        Settings.load()


def test_what_is_wrong_with_settings_is_told_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seed").touch()
    monkeypatch.setenv(PASSWORD, "hunter2")
    monkeypatch.setenv(DATABASE, "hunter3")
    for name in (f"{PASSWORD}_FILE", "TOWPATH_NATS_NKEY_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "seed"))
        with pytest.raises(ValidationError) as told:
            Settings.load()
        assert "hunter" not in str(told.value)
        monkeypatch.delenv(name)

"""What the platform writes is for its user alone; what can't be read or started is told."""

import os
import signal
from pathlib import Path

import pytest

from towpath_embedded.network_files.network_folder import _text
from towpath_embedded.processes.child_process import spawn


def test_what_a_process_makes_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        child = spawn(
            ["/bin/sh", "-c", "mkdir folder; : > file"],
            log=tmp_path / "log",
            environment={"PATH": os.environ["PATH"]},
            death_signal=signal.SIGKILL,
            directory=tmp_path,
        )
    finally:
        os.umask(before)
    assert child.wait(60) == 0
    assert {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("folder", "file")} == {
        "folder": 0o700,
        "file": 0o600,
    }


def test_a_file_of_four_mebibytes_may_be_a_network(tmp_path: Path) -> None:
    file = tmp_path / "network.yaml"
    file.touch()
    os.truncate(file, 4 * 1024 * 1024)
    assert len(_text(file)) == 4 * 1024 * 1024
    os.truncate(file, 4 * 1024 * 1024 + 1)
    with pytest.raises(ValueError, match="larger than 4194304 bytes"):
        _text(file)


def test_a_program_that_is_missing_is_told_by_whoever_starts_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spawn(["/nowhere/program"], log=tmp_path / "log", environment={}, death_signal=signal.SIGTERM)

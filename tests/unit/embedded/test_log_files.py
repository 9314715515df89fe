"""Logs are put aside when they grow too long, and nothing else is written or emptied in their place."""

import asyncio
import contextlib
import errno
import os
from pathlib import Path

import pytest

from towpath_embedded.processes import log_files
from towpath_embedded.processes.log_files import opened_log, trim_regularly

LOG_LIMIT_BYTES = 16 * 1024 * 1024
"""A process costs at most twice this on disk."""


def trim(log: Path) -> None:
    """Trim *log* as a process that starts does."""
    with contextlib.suppress(OSError), opened_log(log):  # a link is not opened
        pass


def write_long(path: Path) -> None:
    path.touch()
    os.truncate(path, LOG_LIMIT_BYTES + 1)


def test_a_log_that_grew_too_long_is_put_aside_under_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "tas.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * (LOG_LIMIT_BYTES + 1))
        trim(log)
        writer.write(b"and on\n")
    assert log.read_bytes() == b"and on\n"
    assert (tmp_path / "tas.log.1").stat().st_size == LOG_LIMIT_BYTES + 1
    assert (tmp_path / "tas.log.1").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tas.log", "tas.log.1"]


def test_a_link_in_the_place_of_an_older_log_is_replaced_and_not_written_to(tmp_path: Path) -> None:
    mine = tmp_path / "profile"
    mine.write_text("mine")
    write_long(tmp_path / "a.log")
    (tmp_path / "a.log.1").symlink_to(mine)
    trim(tmp_path / "a.log")
    assert mine.read_text() == "mine"
    assert not (tmp_path / "a.log.1").is_symlink()
    assert (tmp_path / "a.log").stat().st_size == 0


@pytest.mark.parametrize("kind", ["link", "other name"])
def test_no_file_that_a_log_only_leads_to_is_emptied(tmp_path: Path, kind: str) -> None:
    mine, log = tmp_path / "mine", tmp_path / "a.log"
    write_long(mine)
    if kind == "link":
        log.symlink_to(mine)
    else:
        log.hardlink_to(mine)
    trim(log)
    assert mine.stat().st_size == LOG_LIMIT_BYTES + 1
    assert not (tmp_path / "a.log.1").exists()


def test_a_log_that_can_not_be_put_aside_keeps_no_process_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log_files, "_copy", fail)
    write_long(tmp_path / "a.log")
    with opened_log(tmp_path / "a.log") as output:
        output.write(b"on")
    assert (tmp_path / "a.log").stat().st_size == LOG_LIMIT_BYTES + 3


def test_a_process_does_not_write_its_log_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"a\.log"), opened_log(tmp_path / "a.log"):
        pass
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("whose", ["folder", "file"])
def test_nothing_of_another_user_is_trimmed(tmp_path: Path, whose: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_long(tmp_path / "a.log")
    if os.geteuid() == 0:
        os.chown(tmp_path if whose == "folder" else tmp_path / "a.log", 4_242, 4_242)
    else:
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
    trim(tmp_path / "a.log")
    assert (tmp_path / "a.log").stat().st_size == LOG_LIMIT_BYTES + 1


async def test_a_folder_that_is_put_in_the_place_of_the_logs_is_not_trimmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "TRIM_S", 0.01)
    logs, put_there = tmp_path / "logs", tmp_path / "mine"
    for folder in (logs, put_there):
        folder.mkdir()
        write_long(folder / "a.log")
    task = asyncio.create_task(trim_regularly(logs))
    await asyncio.sleep(0)
    moved = logs.rename(tmp_path / "moved")
    put_there.rename(logs)
    async with asyncio.timeout(60):
        while (moved / "a.log").stat().st_size:  # noqa: ASYNC110 - a file tells nobody that it was emptied
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    assert (logs / "a.log").stat().st_size == LOG_LIMIT_BYTES + 1

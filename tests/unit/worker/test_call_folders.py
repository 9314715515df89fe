"""The folders of calls are removed whatever a program has left in them, also after the death of their worker."""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from towpath_contracts.tools.workspace import MAX_FILE_BYTES, MAX_WORKSPACE_BYTES
from towpath_worker.adapters.call_folders import PREFIX, CallFolders, remove_folder
from towpath_worker.adapters.run_files import FileChangesLostError, RunFiles, _plain_files

DEPTH = 3_000
DYING = """
import asyncio, logging, os, sys, tempfile
from towpath_worker.adapters.call_folders import CallFolders
async def call():
    async with CallFolders(logging.getLogger()).folder() as place:
        (place / "workspace").mkdir()
        (place / "workspace" / "large").write_bytes(bytes(1_000_000))
        print(place.parent, flush=True)
        if sys.argv[1] == "dies":
            os._exit(9)
        sys.stdin.read()
asyncio.run(call())
"""


def nested(folder: Path, depth: int = DEPTH) -> None:
    """Make folders inside each other, which no path can name."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a test that fails may leave what pytest could not remove."""
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path], check=True)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CallFolders:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return CallFolders(structlog.wrap_logger(logging.getLogger("worker"), wrapper_class=structlog.stdlib.BoundLogger))


def test_a_folder_goes_however_deep_it_is_and_whatever_rights_it_has(deep: Path) -> None:
    kept, place = deep / "kept", deep / "call"
    for folder in (kept, place, place / "closed" / "deep"):
        folder.mkdir(parents=True)
    (kept / "file").write_text("kept")
    (place / "closed" / "link").symlink_to(kept)
    (place / "closed" / "file").write_text("x")
    (place / "link").symlink_to(kept)
    os.mkfifo(place / "fifo")
    nested(place / "closed" / "deep")
    for closed in (place / "closed" / "deep", place / "closed"):
        closed.chmod(0)
    remove_folder(place)
    assert not place.exists()
    assert (kept / "file").read_text() == "kept"


async def test_each_call_has_a_folder_of_its_own_and_the_worker_leaves_none(
    folders: CallFolders, tmp_path: Path
) -> None:
    async with folders.folder() as one, folders.folder() as other:
        assert one != other and one.parent == other.parent
        nested(one, 10)
        one.chmod(0)  # a program may close what it was given
    assert list(one.parent.iterdir()) == []
    one.parent.rmdir()  # as cleaners of temporary folders do
    async with folders.folder() as again:
        assert again.is_dir()
    folders.close()
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_the_next_worker_removes_what_a_dead_one_has_left_and_nothing_else(
    folders: CallFolders, tmp_path: Path
) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-c", DYING]
    dead = subprocess.run([*words, "dies"], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    with subprocess.Popen([*words, "lives"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lives:
        assert lives.stdout is not None
        living = Path(lives.stdout.readline().decode().strip())
        others = tmp_path / "towpath-other"
        others.mkdir()
        (tmp_path / f"{PREFIX}link").symlink_to(others)
        left = Path(dead.stdout.strip())
        assert left.is_dir()
        folders.remove_left()
        assert not left.exists()
        assert living.is_dir() and others.is_dir()
        lives.communicate()
    assert not [*living.iterdir()], "a call that ended"


def test_what_belongs_to_another_user_is_left_alone(
    folders: CallFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / f"{PREFIX}other"
    place.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    folders.remove_left()
    assert place.is_dir()


def test_the_files_of_a_run_are_found_without_recursion_and_within_limits(tmp_path: Path) -> None:
    for name in ("b/c.txt", "b/a.txt", "a.txt", "b/d/e.txt", "z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "b" / "link").symlink_to(tmp_path / "a.txt")
    (tmp_path / "up").symlink_to(tmp_path)
    assert [*_plain_files(tmp_path)] == ["a.txt", "z", "b/a.txt", "b/c.txt", "b/d/e.txt"]
    nested(tmp_path / "b" / "d", 64 - 2)
    assert len([*_plain_files(tmp_path)]) == 6
    (tmp_path / "b" / "d" / "one-more").mkdir()
    nested(tmp_path / "b" / "d" / "one-more", 64 - 2)
    with pytest.raises(FileChangesLostError) as lost:
        [*_plain_files(tmp_path)]
    assert lost.value.lost.code == "workspace_unreadable"


def test_a_tree_of_too_many_entries_is_full(tmp_path: Path) -> None:
    for number in range(20_001):
        (tmp_path / str(number)).symlink_to("nothing")
    with pytest.raises(FileChangesLostError, match="workspace_full"):
        [*_plain_files(tmp_path)]


class NoBroker:
    """Nothing of a copy that the run would refuse is sent."""

    async def request(self, *_asked: object, **_more: object) -> object:
        raise AssertionError


async def test_of_a_copy_that_is_larger_than_a_workspace_nothing_is_gathered_or_sent(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    for number in range(MAX_WORKSPACE_BYTES // MAX_FILE_BYTES + 1):
        (folder / str(number)).write_bytes(b"x" * MAX_FILE_BYTES)
    files: Any = NoBroker()
    with pytest.raises(FileChangesLostError, match="workspace_full"):
        await RunFiles(files, files, tmp_path).changed()

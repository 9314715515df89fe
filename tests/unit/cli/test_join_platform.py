"""A worker started by hand finds the platform beside it, and expects its broker to be of that platform's user."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.forked_python import forked_python

JOIN = """
import os, sys
from towpath.cli.administration.process_commands import join_platform
join_platform("worker")
os.execv(sys.executable, [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"])
"""


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Path]:
    """The data folder of a platform that runs, whose state names another file with passwords: this process is it."""
    folder = tmp_path / ".towpath"
    (folder / "nats").mkdir(parents=True, mode=0o700)
    other = tmp_path / "elsewhere.json"
    texts = {
        folder / "nats" / "passwords.json": json.dumps({"worker": "secret"}),
        folder / "state.json": json.dumps(
            {"nats_url": "nats://127.0.0.1:4321", "nats_passwords": str(other), "pid": os.getpid()}
        ),
        folder / "lock": "",
        other: json.dumps({"worker": "of another platform"}),
    }
    for path, text in texts.items():
        path.write_text(text)
        path.chmod(0o600)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    with forked_python("towpath_worker") as program:
        yield program


Join = Callable[[Path], dict[str, str]]


@pytest.fixture
def join(python: str, tmp_path: Path) -> Join:
    (tmp_path / "joining.py").write_text(JOIN)
    return lambda folder: joined(python, folder)


def joined(python: str, folder: Path) -> dict[str, str]:
    """Return what a program that joins the platform on *folder* is told of its broker."""
    words = [python, "-m", "joining"]
    done = subprocess.run(words, cwd=folder.parent, capture_output=True, text=True, check=True)
    return {name: value for name, value in json.loads(done.stdout).items() if name.startswith("TOWPATH_NATS_")}


def test_who_joins_a_platform_is_told_its_broker_and_whose_process_that_is(planted: Path, join: Join) -> None:
    assert join(planted) == {
        "TOWPATH_NATS_URL": "nats://127.0.0.1:4321",
        "TOWPATH_NATS_USER": "worker",
        "TOWPATH_NATS_PASSWORD": "secret",
        "TOWPATH_NATS_OWNER": str(planted.stat().st_uid),
    }


@pytest.mark.parametrize("name", ["", "lock", "state.json", "nats", "nats/passwords.json"])
def test_nobody_joins_a_platform_that_another_user_planted(planted: Path, join: Join, name: str) -> None:
    """As root it really is another user's; elsewhere others may write it, which counts as much."""
    if os.geteuid() == 0:
        os.chown(planted / name, 65_534, 65_534)
    else:
        (planted / name).chmod(0o777)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        join(planted)
    assert "data_folder_shared" in refused.value.stderr or "nothing there is followed" in refused.value.stderr


def test_a_lock_that_is_held_without_a_process_of_this_user_is_no_platform(planted: Path, join: Join) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    (planted / "state.json").write_text(json.dumps({"nats_url": "nats://127.0.0.1:4321", "pid": ended.pid}))
    assert join(planted) == {}

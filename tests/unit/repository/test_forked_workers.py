"""The processes of tests are forks of one that has collected, and are otherwise workers as xdist has them."""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
CONFTEST = """
from pathlib import Path
import pytest
from tests.support import forked_workers

@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    forked_workers.offer(session.config, ROOT)
"""
MODULE = """
import os
import time
from pathlib import Path
import pytest

COLLECTED_BY = os.getpid()
CRASHED = Path(__file__).with_name("crashed")

@pytest.mark.parametrize("number", range(6))
def test_ok(number, tmp_path, worker_id):
    assert (COLLECTED_BY != os.getpid()) == FORKED
    assert os.environ["PYTEST_XDIST_WORKER"] == worker_id and f"popen-{worker_id}" in str(tmp_path)
    assert os.read(0, 1) == b""

@pytest.mark.parametrize("number", range(2))
def test_told(number):
    print("mine", number)
    os.write(2, f"by descriptor {number}\\n".encode())
    assert number > 1

def test_crash():
    if not CRASHED.exists():
        CRASHED.touch()
        os._exit(7)
"""


# Whoever ends a run by force ends the tests too.
KILLING = """
import os
import signal
import threading
import time

def wait():
    while not os.path.exists("begun") or not open("begun").read():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)

def pytest_xdist_setupnodes():
    threading.Thread(target=wait).start()
"""


def _run(folder: Path, module: str, *words: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST.replace("ROOT", repr(str(ROOT))))
    (folder / "test_some.py").write_text(module)
    command = [sys.executable, "-m", "pytest", "-n2", "-rf", "-p", "no:cacheprovider", "-p", "no:towpath", *words]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "libs", ROOT / "services")))
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    return ran.stdout + ran.stderr


def test_workers_are_forks_with_their_own_output_and_folders_and_one_that_crashes_is_replaced(tmp_path: Path) -> None:
    said = _run(tmp_path, MODULE.replace("FORKED", "True"))
    assert "3 failed, 6 passed" in said, said
    assert "crashed while running" in said and "replacing crashed worker" in said, said
    for number in range(2):
        (part,) = [part for part in said.split("____ test_told")[1:] if part.startswith(f"[{number}]")]
        assert f"mine {number}\n" in part and f"by descriptor {number}\n" in part, said
        assert f"mine {1 - number}" not in part.split("____")[0], said


def test_a_module_that_cannot_be_collected_is_told_by_the_workers(tmp_path: Path) -> None:
    said = _run(tmp_path, "import nothing_of_this_name\n")
    assert "No module named 'nothing_of_this_name'" in said, said
    assert "1 error" in said, said


def test_no_process_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    module = (
        "import os, time\n"
        "def test_long():\n"
        "    open('begun', 'w').write(f'{os.getpid()} {os.getppid()}')\n"
        "    time.sleep(600)\n"
    )
    (tmp_path / "killing.py").write_text(KILLING)
    _run(tmp_path, module, "-p", "killing")
    test, collecting = map(int, (tmp_path / "begun").read_text().split())
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in (test, collecting)):
        assert time.monotonic() < until
        time.sleep(0.05)

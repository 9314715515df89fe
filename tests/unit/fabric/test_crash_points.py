"""Crash points do nothing unless armed; an armed one kills one process, once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from towpath_fabric.crash_points import HITS

CODE = """
from towpath_fabric.crash_points import crash_point
for number in range(3):
    print(number, flush=True)
    crash_point("role.place")
"""


def passed(folder: Path | None) -> tuple[int, list[str]]:
    environment = {**os.environ, **({"TOWPATH_CRASH_POINTS": str(folder)} if folder else {})}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.split()


def test_an_unarmed_point_does_nothing(tmp_path: Path) -> None:
    assert passed(None) == (0, ["0", "1", "2"])
    assert passed(tmp_path) == (0, ["0", "1", "2"])


def test_an_armed_point_kills_once_at_the_passing_asked_for(tmp_path: Path) -> None:
    (tmp_path / "role.place").write_text("")
    assert passed(tmp_path) == (-signal.SIGKILL, ["0"])
    assert [left.name for left in tmp_path.iterdir()] == [HITS]
    assert (tmp_path / HITS).read_text().split()[0] == "role.place"
    assert passed(tmp_path) == (0, ["0", "1", "2"])
    (tmp_path / "role.place").write_text("3")
    assert passed(tmp_path) == (-signal.SIGKILL, ["0", "1", "2"])

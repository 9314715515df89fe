"""The crash points of the code: each can be listed, is unique, and belongs to the role whose code it stands in."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.chaos.crash_points import points as crash
from tests.chaos.crash_points.points import CrashPoint, list_points, naming_problems


def test_every_name_is_unique_and_of_its_own_role() -> None:
    found = list_points()
    assert naming_problems(found) == []
    assert {role: count >= 5 for role, count in Counter(point.role for point in found).items()} == dict.fromkeys(
        ("orchestrator", "tas", "worker", "decider", "log_writer"), True
    )


def test_a_name_used_twice_or_in_foreign_code_is_reported() -> None:
    here = CrashPoint(name="tas.x", role="tas", file=Path("a.py"), line=1, sent=False)
    there = CrashPoint(name="tas.x", role="worker", file=Path("b.py"), line=2, sent=True)
    assert naming_problems([here]) == []
    assert naming_problems([here, there]) == [
        "tas.x stands in 2 places",
        "tas.x stands in b.py:2, which runs as worker",
    ]


def test_a_name_that_is_no_literal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('def f(n):\n    crash_point("tas." + n)\n')
    with pytest.raises(ValueError, match=r"a\.py:2: a crash point's name is one literal"):
        list(crash._points_of(tmp_path / "a.py", "tas"))


def test_listing_imports_no_service() -> None:
    code = "import sys; from tests.chaos.crash_points.points import list_points; list_points(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    services = [package for package in crash.PACKAGES if package != "towpath"]
    assert [name for name in loaded if name.partition(".")[0] in services] == []


def test_an_armed_point_can_be_taken_back(tmp_path: Path) -> None:
    crash.arm(tmp_path, "tas.x", 2)
    assert crash.is_armed(tmp_path, "tas.x")
    assert (tmp_path / "tas.x").read_text() == "2"
    assert crash.disarm(tmp_path, "tas.x")
    assert not crash.is_armed(tmp_path, "tas.x")
    assert not crash.disarm(tmp_path, "tas.x")
    assert crash.hits(tmp_path) == ()
    (tmp_path / ".hits").write_text("tas.x 17\n")
    assert crash.hits(tmp_path) == (crash.CrashPointHit(name="tas.x", pid=17),)

"""The clocks of a process."""

import time
from datetime import timedelta
from pathlib import Path

from towpath_fabric import clock


def test_the_wall_time_is_that_of_the_files_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "now").touch()
    written = (tmp_path / "now").stat().st_mtime
    assert abs(clock.wall().timestamp() - written) < 60
    assert abs(clock.wall_ns() / 1e9 - written) < 60


def test_a_simulated_second_is_a_second_of_both_clocks() -> None:
    with clock.use_simulated_clock(lambda: 90.0, began_ns=0):
        assert clock.monotonic() == 90.0
        assert clock.wall().timestamp() == timedelta(minutes=1.5).total_seconds()
    assert abs(clock.monotonic() - time.monotonic()) < 60

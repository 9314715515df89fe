"""When a process began is what a person counts who started it."""

import subprocess
import sys
from time import monotonic

import pytest

from towpath_fabric import clock

SLEPT_S = 0.5
PROGRAM = f"import os, time; time.sleep({SLEPT_S}); os.execv({sys.executable!r}, [{sys.executable!r}, '-c', {{!r}}])"
TOLD = "from towpath_fabric.clock import monotonic, process_began; print(monotonic() - process_began())"


def test_a_process_counts_from_its_start_also_what_it_did_as_another_program() -> None:
    began = monotonic()
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(TOLD)], capture_output=True, text=True, check=True)
    least = SLEPT_S if sys.platform == "linux" else 0.0  # other systems don't say it
    assert least <= float(done.stdout) <= monotonic() - began + 0.1


def test_where_the_system_does_not_say_it_the_import_is_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(clock, "_OWN_STAT", tmp_path_factory.mktemp("proc") / "stat")
    assert clock.process_began() == clock._IMPORTED
    clock._OWN_STAT.write_text("1 (a) b c) S 0 0")
    assert clock.process_began() == clock._IMPORTED

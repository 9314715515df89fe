"""What is read of processes, on real ones."""

import os
import subprocess
import sys
import time

import pytest
from tests.support.places import ROOT

from processes import Memory, processor_seconds, role_of, thread_switches, tree

BURN = "import time\nwhile time.process_time() < 0.3: pass"
LITTLE = """
import os
from processes import processor_seconds
times = [processor_seconds(os.getpid())["client"] for _ in range(10)]
print(min(after - before for before, after in zip(times, times[1:])))
"""


@pytest.mark.parametrize(
    ("words", "role"),
    [
        ("python -m towpath_log_writer", "log_writer"),
        ("postgres: towpath_tas towpath [local] idle", "postgres"),
        ("/opt/nats-server -c nats.conf", "nats"),
        ("/cache/restate-server-linux-x64/bin/restate-server", "server"),
        ("python -m peers.restate --serve 1", "service"),
        ("sleep 1", "other"),
    ],
)
def test_a_process_is_named_by_its_command_line(words: str, role: str) -> None:
    assert role_of(words) == role


def test_a_forked_process_is_named_by_what_it_runs() -> None:
    words = "python -m towpath_embedded.processes.fork_server 5 towpath_tas towpath_worker"
    assert [role_of(words, name) for name in ("towpath_tas", "towpath_orchest", "python")] == [
        "tas",
        "orchestrator",
        "other",
    ]


def test_a_tree_has_what_is_below_its_roots() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert {os.getpid(), child.pid} <= tree(os.getpid()).keys()
            assert list(tree(child.pid)) == [child.pid]
        finally:
            child.kill()


def test_the_time_of_a_process_that_ended_counts_for_its_parent() -> None:
    before = processor_seconds(os.getpid())["client"]
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert processor_seconds(os.getpid())["client"] - before >= 0.25


def test_less_than_a_hundredth_of_a_second_counts_too() -> None:
    """In a process of its own, no thread of which has ended."""
    done = subprocess.run([sys.executable, "-c", LITTLE], cwd=ROOT / "bench", capture_output=True, check=True)
    assert float(done.stdout) > 0


def test_the_peak_of_memory_is_that_of_all_processes_at_one_time() -> None:
    memory = Memory()
    memory.sample()
    assert memory.peak_of_all == sum(memory.peak.values()) > 1024 * 1024
    assert memory.idle == memory.peak


def test_switches_of_threads_are_counted_by_name() -> None:
    before = thread_switches(os.getpid())["client"]
    for _ in range(20):
        time.sleep(0.001)
    assert thread_switches(os.getpid())["client"] >= before + 20

"""One platform with the sample for all tests of the command line, and how they ask it."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.places import ROOT
from tests.support.platform.sample_platform import ServedSample, served_sample

from towpath.cli import main

SAMPLE = ROOT / "examples" / "support"
MESSAGE = "Please refund order 8812, it arrived broken."
TOWPATH = Path(sys.executable).parent / "towpath"
Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="session")
def served() -> Iterator[ServedSample]:
    """A platform that serves the sample."""
    with served_sample() as sample:
        yield sample


@pytest.fixture
def server(served: ServedSample) -> str:
    """Its address."""
    return served.address


@pytest.fixture
def ask(server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run one command line with JSON output; gives the exit code and what was printed."""
    monkeypatch.setenv("TOWPATH_SERVER", server)

    def run(*words: str) -> tuple[int, Any]:
        code = main([*words, "-o", "json"])
        shown = capsys.readouterr()
        return code, json.loads(shown.out or shown.err)

    return run


def waiting_run(ask: Ask, *task: str) -> str:
    """Run the sample with *task* until it waits for a person; returns the run."""
    code, run = ask("run", "support", *task, "--wait", "1s")  # which is over only then: a gate ends no `--wait`
    assert code == 5
    until = time.monotonic() + 60
    while run["status"] != "waiting":  # a busy machine takes longer than a second to come to the gate
        assert time.monotonic() < until, run
        time.sleep(0.1)
        _, run = ask("runs", "show", run["run_id"])
    return str(run["run_id"])


def at_terminal(server: str, command: list[str], *answers: tuple[str, str], **more: str) -> tuple[int, str]:
    """Run *command* in a terminal, write each answer once its question is asked; returns exit code and all it said."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TOWPATH_SERVER": server, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "200", **more}
    process = subprocess.Popen([TOWPATH, *command], env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said, seen, left = "", 0, [*answers]
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                said += os.read(ours, 65_536).decode("utf-8", "replace")
            except OSError:  # the other side is closed
                break
        if left and left[0][0] in said[seen:]:
            seen = len(said)
            os.write(ours, f"{left.pop(0)[1]}\n".encode())
    os.close(ours)
    return process.wait(timeout=60), said


def script(tmp_path: Path, amount: float) -> str:
    """Return a script that refunds *amount* of order 8812 and answers."""
    decisions = json.loads((SAMPLE / "script.json").read_text("utf-8"))
    decisions[2]["action_details"]["tool_params"]["amount"] = amount
    path = tmp_path / "script.json"
    path.write_text(json.dumps(decisions), "utf-8")
    return str(path)

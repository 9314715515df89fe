"""`towpath up --attach`: another terminal shows what happens on the platform, and leaves it running."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.platform.up_in_process import Lines, status_after

from towpath_embedded.platform_state import read_state

NETWORK = """
kind: Network
name: shop
model: scripted:task
agents:
  - {key: clerk, is_default: true, allow_respond: true, prompt_template: Look.}
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "towpath.cli", *words]


class Attached:
    """`towpath up --attach` in a process of its own, as in another terminal."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(command("up", "--attach"), stdout=subprocess.PIPE, text=True)

    def wait_for(self, text: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not told")

    def status(self) -> int:
        """Return how it ended."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(30)


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    (folder / "shop.yaml").write_text(NETWORK)
    return folder


def test_it_tells_of_runs_and_processes_leaves_the_platform_running_and_ends_with_it(project: Path) -> None:
    ended: list[Attached] = []

    def look(told: Lines) -> None:
        told.wait_for("ready in")
        view = Attached()
        assert "Ctrl-C leaves it running" in view.wait_for("attached to the platform of pid")
        (project / "empty.json").write_text("[]")
        subprocess.run(
            command("run", "shop", "go", "--script", "empty.json", "-o", "json"), check=False, capture_output=True
        )
        assert "towpath runs show" in view.wait_for("✕ run ")
        state = read_state(Path(".towpath"))
        assert state is not None
        os.kill(state["processes"]["decider"]["pid"], signal.SIGKILL)
        assert "decider ended and was started again; why: towpath logs decider" in view.wait_for("decider ended")
        view.process.send_signal(signal.SIGINT)
        view.wait_for("detached; the platform goes on, until: towpath down")
        assert view.status() == 0
        assert read_state(Path(".towpath")) is not None
        last = Attached()
        last.wait_for("attached to")
        ended.append(last)

    assert status_after(look, "up", "--networks", "shop.yaml", "--port", "auto", "--nats-port", "auto") == 0
    ended[0].wait_for("the platform has ended")
    assert ended[0].status() == 0


def test_without_a_platform_and_beside_options_of_a_start_it_says_what_to_do(project: Path) -> None:
    found = subprocess.run(command("up", "--attach"), capture_output=True, text=True, check=False)
    assert found.returncode == 3
    assert "Start one: towpath up" in found.stderr
    found = subprocess.run(
        command("up", "--attach", "--json", "--networks", "shop.yaml"), capture_output=True, text=True, check=False
    )
    assert "it takes no --networks" in json.loads(found.stdout)["detail"]

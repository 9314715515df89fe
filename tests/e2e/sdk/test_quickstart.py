"""docs/quickstart.md from its first block to its last, as it stands: files, test, platform, and both clients.

It runs with `--port auto`, as beside another platform: nothing of the page is changed for that.
"""

import contextlib
import json
import os
import pty
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.docs_site.code_blocks import blocks_of
from tests.e2e.test_readme import BIN, environment
from tests.support.places import ROOT
from tests.support.platform.up_in_process import Lines, status_after

from towpath import SyncClient
from towpath.cli import main

BLOCKS = {block.name: block.text for block in blocks_of(ROOT / "docs" / "quickstart.md") if block.name}
FILES = [name for name in BLOCKS if name.endswith((".py", ".yaml", ".json"))]
PAID = "80 EUR are on their way."
TIMEOUT_S = 60.0


def commands(name: str) -> list[list[str]]:
    return [shlex.split(line) for line in BLOCKS[name].splitlines()]


def started(*words: str, terminal: int | None = None) -> subprocess.Popen[str]:
    """Start a command of the page, at *terminal* or with pipes."""
    place = subprocess.PIPE if terminal is None else terminal
    return subprocess.Popen(
        [BIN / words[0], *words[1:]], stdin=place, stdout=place, stderr=subprocess.STDOUT, text=True,
        env={**environment(), "COLUMNS": "100"},
    )  # fmt: skip


def read_until(terminal: int, text: str) -> str:
    """Return what comes at a terminal, until it has *text*."""
    said, end = "", time.monotonic() + TIMEOUT_S
    while text not in said:
        assert time.monotonic() < end and select.select([terminal], [], [], TIMEOUT_S)[0], said
        said += os.read(terminal, 4096).decode()
    return said


def approve_at_terminal(*words: str) -> str:
    """Run a command at a terminal whose person says yes once; return what it printed after that."""
    ours, theirs = pty.openpty()
    command = started(*words, terminal=theirs)
    os.close(theirs)
    read_until(ours, "approve?")
    os.write(ours, b"a\n")
    read_until(ours, "reason")
    os.write(ours, b"no scratch\n")
    said = read_until(ours, PAID)
    with contextlib.suppress(OSError):  # whose end is told so
        while os.read(ours, 4096):
            continue
    os.close(ours)
    assert command.wait(TIMEOUT_S) == 0, said
    return said


def approve_the_next(url: str) -> None:
    """Approve the next call that waits, as another terminal would."""
    end = time.monotonic() + TIMEOUT_S
    with SyncClient(url) as client:
        while not (waiting := client.gates.list()):
            assert time.monotonic() < end, "no gate opened"
            time.sleep(0.1)
        client.gates.approve(waiting[0].gate_id, reason="no scratch")


def test_the_page_leads_from_nothing_to_an_answer_in_both_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (_, *init), (_, folder) = commands("init")
    monkeypatch.chdir(tmp_path)
    assert main(init) == 0
    monkeypatch.chdir(folder)
    for name in FILES:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(BLOCKS[name], "utf-8")
    capfd.readouterr()
    ((_, *test),) = commands("test")
    assert main([*test, "-o", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["passed"] == 1

    def look(told: Lines) -> None:
        url = json.loads(told.wait_for("gateway_url"))["gateway_url"]
        question, refund = commands("ask")
        asked = started(*question)
        assert "Two bikes are free on Sunday." in asked.communicate(timeout=TIMEOUT_S)[0]
        approve_at_terminal(*refund)
        chat = started(Path(sys.executable).name, "chat.py")
        approve_the_next(url)
        assert chat.communicate(timeout=TIMEOUT_S)[0] == f"{PAID}\n"
        answer, _ = started(Path(sys.executable).name, "ask.py").communicate("y\n", timeout=TIMEOUT_S)
        assert "Tool: deposits.pay_back" in answer and answer.endswith(f"approve? y or n: {PAID}\n")
        runs, audit = (started(*words).communicate(timeout=TIMEOUT_S)[0] for words in commands("look"))
        assert runs.count('"completed"') == 4
        assert audit.count("pay-deposits-back") >= 3

    ((_, *up),) = commands("up")
    assert status_after(look, *up, "--port", "auto", "--nats-port", "auto", "--json") == 0

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
from towpath.testing import execute_tool, harness, respond, script

BLOCKS = {block.name: block.text for block in blocks_of(ROOT / "docs" / "quickstart.md") if block.name}
BY_HAND = ("tools/bikes.py", "chat.py", "ask.py")
WRITTEN = [name for name in BLOCKS if "." in name and name not in (*BY_HAND, "small-amounts.yaml")]
"""What the page shows of the files that `towpath new network` writes."""
DOUBT = "euros: stands in the task, but so short a number may mean something else there"
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
    """Run a command at a terminal whose person says yes once; return what it printed before that."""
    ours, theirs = pty.openpty()
    command = started(*words, terminal=theirs)
    os.close(theirs)
    told = read_until(ours, "approve?")
    os.write(ours, b"a\n")
    read_until(ours, "reason")
    os.write(ours, b"no scratch\n")
    said = read_until(ours, "Done.")
    with contextlib.suppress(OSError):  # whose end is told so
        while os.read(ours, 4096):
            continue
    os.close(ours)
    assert command.wait(TIMEOUT_S) == 0, said
    return told


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
    for name in BY_HAND:
        Path(name).write_text(BLOCKS[name], "utf-8")
    ((_, *network),) = commands("network")
    assert main(network) == 0
    assert {name: Path(name).read_text("utf-8") for name in WRITTEN} == {name: BLOCKS[name] for name in WRITTEN}
    capfd.readouterr()
    ((_, *test),) = commands("test")
    assert main([*test, "-o", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["passed"] == 2
    small_amounts_need_nobody()

    def look(told: Lines) -> None:
        url = json.loads(told.wait_for("gateway_url"))["gateway_url"]
        ((command, *words),) = commands("ask")
        assert DOUBT in " ".join(approve_at_terminal(command, *words).split())
        ((_, *words),) = commands("chat")
        chat = started(Path(sys.executable).name, *words)
        approve_the_next(url)
        said = chat.communicate(timeout=TIMEOUT_S)[0].splitlines()
        assert (said[0][:25], said[1:]) == ("asked; a call that waits ", ["Done."])
        ((_, *words),) = commands("mcp")
        answer, _ = started(Path(sys.executable).name, *words).communicate("approve\ny\n", timeout=TIMEOUT_S)
        assert "Tool: deposits.pay_back" in answer and answer.endswith("approve? y or n: Done.\n")
        runs, audit = (started(*words).communicate(timeout=TIMEOUT_S)[0] for words in commands("look"))
        assert runs.count('"completed"') == 3
        assert audit.count("rentals-deposits.pay_back") >= 3

    ((_, *up),) = commands("up")
    assert status_after(look, *up, "--port", "auto", "--nats-port", "auto", "--json") == 0


def small_amounts_need_nobody() -> None:
    """Hold the pair of rules of the page: up to their border nobody is asked, above it somebody is."""
    policy = BLOCKS["small-amounts.yaml"]
    for euros, asked in ((50, False), (51, True)):
        model = script([execute_tool("deposits.pay_back", rental="R-17", euros=euros), respond("Done.")])
        network = Path("networks/rentals.yaml")
        with harness(network, policy=policy, tools=["tools/bikes.py"], model=model) as h:
            run = h.run("R-17 is back.")
            if asked:
                assert h.next_gate().rule == "large-deposits"
                continue
            assert [call.tool for call in run.result().tool_calls()] == ["deposits.pay_back"]

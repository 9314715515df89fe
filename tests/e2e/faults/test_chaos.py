"""`towpath chaos` on a user's own network, as a user runs it: by the command line, judged by what it prints."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from towpath_embedded.chaos.faults import KILLS
from towpath_embedded.chaos.outside import read_marks
from towpath_embedded.servers.postgres_identity import temporary_folder

TOWPATH = Path(sys.executable).parent / "towpath"
KILLS_WANTED = 9

NETWORK = """
name: bakery
model: gemini:gemini-2.5-flash
agents:
  - key: counter
    is_default: true
    model: gemini:gemini-2.5-pro
    equipped_tools: [stock.count, oven.bake, till.charge]
    allow_respond: true
    prompt_template: Sell bread.
"""
TOOLS = '''
from towpath import tool

@tool(name="stock.count", effect_class="pure", toolset="stock")
def count(loaf: str) -> int:
    """Count loaves."""
    raise AssertionError("chaos never calls a tool of the user's")

@tool(name="oven.bake", effect_class="idempotent", toolset="oven", timeout="10m")
def bake(loaf: str, pieces: int) -> int:
    """Bake."""
    raise AssertionError("chaos never calls a tool of the user's")
'''
CALLS = [
    {"tool_name": "stock.count", "tool_params": {"loaf": "rye"}},
    {"tool_name": "oven.bake", "tool_params": {"loaf": "rye", "pieces": 2}},
    {"tool_name": "till.charge", "tool_params": {"amount": 8}},
]
DECISIONS = [
    *({"action": "USE_TOOL", "action_reasoning": "x", "action_details": call} for call in CALLS),
    {"action": "USE_TOOL", "action_reasoning": "x", "action_details": {"calls": CALLS}},
    {"action": "RESPOND", "action_reasoning": "x", "action_details": {"payload": {"message": "sold"}}},
]


@pytest.fixture(scope="module")
def files() -> Iterator[Path]:
    """A folder with a user's network, tools and decisions."""
    with temporary_folder() as folder:
        (folder / "network.yaml").write_text(NETWORK)
        (folder / "tools.py").write_text(TOOLS)
        (folder / "decisions.json").write_text(json.dumps(DECISIONS))
        yield folder


def chaos(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [TOWPATH, "chaos", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_kills_during_a_users_own_network_lose_and_repeat_nothing(files: Path) -> None:
    done = chaos(
        files,
        *("--network", "network.yaml", "--decisions", "decisions.json", "--tools", "tools.py"),
        *("--faults", "kill", "--kills", str(KILLS_WANTED), "--seed", "5", "--data", "kept", "--json"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["seed"], found["kills"], found["networks"]) == (5, KILLS_WANTED, ["bakery"])
    assert set(found["by_fault"]) == set(KILLS)
    assert found["completed"] == found["runs"] > KILLS_WANTED
    zero = ("lost", "duplicates", "audit_holes", "orphans", "double", "diff", "late", "differing", "replay_mismatches")
    assert {name: found[name] for name in zero} == dict.fromkeys(zero, 0)
    assert found["problems"] == []
    assert all(unknown["verdicts"] for unknown in found["unknown"])
    assert f"{KILLS_WANTED} of {KILLS_WANTED} strikes" in done.stderr
    marks = read_marks(files / "kept" / "outside.txt")
    # What a person found not to have happened is not begun again: its decisions have no answer to that.
    undone = sum("did_not_happen" in unknown["verdicts"] for unknown in found["unknown"])
    assert found["effects"] == len(marks) >= 6 * found["runs"] - undone
    # What the module declares, and the strictest for what it does not.
    assert {mark.tool: mark.effect_class for mark in marks} == {
        "stock.count": "pure",
        "oven.bake": "idempotent",
        "till.charge": "irreversible",
    }
    assert {mark.key for mark in marks} == {mark.execution_id for mark in marks}


def test_an_invalid_order_is_refused_with_every_problem_and_nothing_starts(files: Path) -> None:
    done = chaos(
        files, "--network", "no.yaml", "--faults", "flood,kill", "--kills", "0", "--data", "not-made", "--json"
    )
    assert done.returncode == 2
    problem = json.loads(done.stderr)
    assert problem["code"] == "request_invalid"
    assert [entry["pointer"] for entry in problem["errors"]] == ["/decisions", "/network", "/kills", "/faults"]
    assert not (files / "not-made").exists()


def test_decisions_that_do_not_bring_an_undisturbed_run_to_its_end_are_refused(files: Path) -> None:
    (files / "short.json").write_text(json.dumps(DECISIONS[:1]))
    done = chaos(files, "--network", "network.yaml", "--decisions", "short.json", "--kills", "1", "--json")
    assert done.returncode == 2
    problem = json.loads(done.stderr.splitlines()[-1])
    assert problem["code"] == "request_invalid"
    assert "script_exhausted" in problem["detail"]

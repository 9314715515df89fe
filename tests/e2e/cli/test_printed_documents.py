"""Commands print what `towpath schema cli` says of them, each on a platform with the sample.

The fixture `printed_documents` validates every document; here are commands whose documents no other test looks at.
"""

import json
from pathlib import Path

import pytest
from tests.e2e.cli.conftest import Ask
from tests.support.cli.printed_documents import PrintedDocuments

from towpath.cli import main

MESSAGE = "Refund order 8812"


@pytest.fixture
def run_id(ask: Ask) -> str:
    """A run that waits for a person."""
    code, run = ask("run", "support", MESSAGE, "--model", "scripted:support", "--wait", "60s")
    assert (code, run["status"]) == (5, "waiting")
    return str(run["run_id"])


@pytest.mark.prints(
    *("runs history", "runs log", "runs tree", "runs diff", "runs gate", "runs bulk", "doctor trace"),
    *("workspace ls", "workspace diff", "gates watch", "gates notices"),
)
def test_a_run_is_looked_at_from_all_sides(ask: Ask, run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = (
        *(("runs", name, run_id) for name in ("history", "log", "tree")),
        *(("workspace", "ls", run_id), ("workspace", "diff", run_id), ("gates", "notices")),
        *(("runs", "diff", run_id, run_id), ("runs", "gate", run_id, "--reason", "is this right?")),
        ("runs", "bulk", "label", "--network", "support", "--set", "case=4711"),
    )
    assert {words: ask(*words)[0] for words in commands} == dict.fromkeys(commands, 0)
    found = ask("doctor", "trace", run_id)[1]
    assert found["run_id"] == run_id and [call["tool"] for step in found["steps"] for call in step["calls"]]
    assert main(["gates", "watch", "--until-s", "0", "-o", "json"]) in {0, None}
    seen = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ("opened", run_id) in {(one["event"], one["run_id"]) for one in seen}


@pytest.mark.prints("runs export")
def test_each_line_of_a_record_is_as_published(
    run_id: str, server: str, capsys: pytest.CaptureFixture[str], printed_documents: PrintedDocuments,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("TOWPATH_SERVER", server)
    capsys.readouterr()
    assert main(["runs", "export", run_id]) in {0, None}
    lines = capsys.readouterr().out.splitlines()
    for line in lines:
        printed_documents.see("runs export", json.loads(line))
    assert len(lines) > 3


@pytest.mark.prints("networks list", "networks graph", "networks prompt", "grants from-network", "a2a card")
def test_a_network_is_looked_at(ask: Ask) -> None:
    commands = (
        *(("networks", "list"), ("networks", "graph", "support"), ("networks", "prompt", "support")),
        *(("grants", "from-network", "support"), ("a2a", "card"), ("a2a", "card", "support")),
    )
    assert {words: ask(*words)[0] for words in commands} == dict.fromkeys(commands, 0)


@pytest.mark.prints(
    *("budgets set", "budgets show", "budgets lift", "costs", "switches pause", "switches list", "switches resume"),
    *("tools proposals", "workers list"),
)
def test_what_limits_and_serves_the_project_is_looked_at(ask: Ask) -> None:
    commands = (
        ("budgets", "set", "caller", "ann", "--usd", "20", "--reason", "a trial"),
        *(("budgets", "show"), ("budgets", "lift", "caller", "ann", "--reason", "it is over")),
        *(("costs",), ("costs", "--by", "day"), ("switches", "pause", "tool", "crm.none", "--reason", "a trial")),
        *(("switches", "list"), ("switches", "resume", "tool", "crm.none", "--reason", "it is over")),
        *(("tools", "proposals"), ("workers", "list")),
    )
    assert {words: ask(*words)[0] for words in commands} == dict.fromkeys(commands, 0)


@pytest.mark.prints("init", "new agent", "new network", "new tool", "new policy", "chaos")
def test_commands_that_ask_no_platform_print_what_is_published_too(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ask("init", "shop")[0] == 0
    monkeypatch.chdir(tmp_path / "shop")
    named = (("agent", "clerk"), ("network", "desk"), ("tool", "stock"), ("policy", "closed"))
    assert {words: ask("new", *words)[0] for words in named} == dict.fromkeys(named, 0)
    assert main(["chaos", "--list", "--json"]) == 0
    assert "kill.worker" in capsys.readouterr().out

"""Lines that are no table's, on a terminal of 80 columns: no word is broken but by the terminal itself."""

import re
import uuid
from typing import Any

import pytest
from rich.console import Console

from towpath.cli.runs.runs_commands import _show_node
from towpath.cli.shared.output import Column, OutputPrinter
from towpath_contracts.runs.tree import RunTreeNode
from towpath_embedded.console import UpConsole

WIDTH = 80
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
TEXT = "Somebody looks at large refunds before they are made, on working days alone, and never on a holiday."


def printer(width: int = WIDTH) -> OutputPrinter:
    out = OutputPrinter("table")
    out.__dict__["console"] = Console(width=width, markup=False, highlight=False)
    return out


def test_a_value_is_folded_beside_its_title_and_one_word_without_room_stands_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = (Column("published", "at"), Column("digest", "digest"), Column("note", "note"), Column("none", "none"))
    printer().record({"at": "today", "digest": DIGEST, "note": TEXT}, columns)
    assert capsys.readouterr().out.splitlines() == [
        "published  today",
        "digest",
        f"  {DIGEST}",
        "note       Somebody looks at large refunds before they are made, on working days",
        "           alone, and never on a holiday.",
    ]
    printer(82).record({"digest": DIGEST, "at": "today"}, columns)
    assert f"digest     {DIGEST}" in capsys.readouterr().out


def test_runs_of_a_tree_are_folded_further_in_than_their_children_begin(capsys: pytest.CaptureFixture[str]) -> None:
    run_id, child = uuid.uuid4(), uuid.uuid4()
    common: dict[str, Any] = {
        "kind": "network",
        "network": "desk",
        "status": "waiting",
        "step": 1,
        "agent_key": "clerk",
        "reason": "",
    }
    below = RunTreeNode.model_validate({**common, "run_id": child, "user_message": TEXT})
    top = RunTreeNode.model_validate({**common, "run_id": run_id, "user_message": TEXT, "children": [below]})
    _show_node(printer(), top, "", {child: [f"◐ gate {uuid.uuid4()} approval: {TEXT[:60]}"]})
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= WIDTH and len(lines) == 6
    begins = [len(line) - len(line.lstrip()) for line in lines]
    assert begins == [0, 6, 2, 8, 4, 8]


def test_notices_of_up_are_folded_on_a_terminal_and_whole_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    UpConsole(as_json=False).notice(f"{TEXT}  two")
    assert capsys.readouterr().out.endswith(f"{TEXT}  two\n")
    for name, said in (("COLUMNS", "80"), ("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, said)
    screen = UpConsole(as_json=False)
    screen.notice(TEXT)
    screen.refused("policies.yaml", [TEXT])
    screen.keys({"r": "reload", "o": "open the console", "d": "have the doctor look at it all", "q": "stop"})
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, shown)) <= WIDTH
    assert shown[1].startswith(" " * 12) and " ".join(" ".join(shown[:2]).split()[1:]) == TEXT
    link = f"http://127.0.0.1:8787/sign-in?token={'t' * 60}"
    screen.notice(f"open {link}")
    assert link in capsys.readouterr().out, "what is to be copied is left to the terminal"

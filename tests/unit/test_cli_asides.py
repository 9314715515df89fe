"""What the command line says on stderr beside its work: entries of scripts and links of mounts that do nothing."""

import json
from pathlib import Path

import pytest

from towpath.cli.files import read_script
from towpath.cli.objectives import ObjectiveOptions

RESPOND = {"action": "RESPOND", "action_reasoning": "", "action_details": {"payload": {}}}


def test_an_unknown_word_of_a_script_s_entry_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps([{**RESPOND, "agent": "a"}, {**RESPOND, "agent_key": "a"}, "no decision", {"raw": "x"}])
    )
    assert len(read_script(script)) == 4
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "entry 1 has agent_key" in said[0] and " agent, " in said[0]


def test_links_that_a_mount_leaves_out_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.md").write_text("a")
    (tmp_path / "b.md").symlink_to(tmp_path / "a.md")
    (tmp_path / "c.md").symlink_to(tmp_path / "a.md")
    mounts = ObjectiveOptions(mount=(str(tmp_path),)).options()["mounts"]
    assert [file["path"] for file in mounts[0]["files"]] == ["a.md"]
    assert "2 symbolic link(s) are not mounted, the first is b.md" in capsys.readouterr().err

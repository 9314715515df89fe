"""`towpath mcp add`: a server is asked for its tools, and written into the project where it answers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.worker import hostile_mcp

from towpath.cli import main
from towpath.project.mcp_servers import load_servers
from towpath.project.project_file import read_project

PROJECT = "# mine\nkind: Project\npolicy: policies.yaml # rules\n"
POLICY = """kind: Policy
rules:
  - {name: look, tool: bad.kept, effect: allow}
  - {name: all, tool: '*', effect: allow}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOSTILE_TOOLS", str(tmp_path / "tools.json"))
    (tmp_path / "tools.json").write_text(json.dumps([hostile_mcp.tool("echo"), hostile_mcp.tool("kept")]))
    (tmp_path / "towpath.yaml").write_text(PROJECT)
    (tmp_path / "policies.yaml").write_text(POLICY)
    return tmp_path


def added(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main(["mcp", "add", *words, "-o", "json"])
    said = capsys.readouterr()
    return code, json.loads(said.out or said.err)


def add_bad(capsys: pytest.CaptureFixture[str], name: str = "bad") -> tuple[int, Any]:
    command = (sys.executable, hostile_mcp.__file__)
    return added(capsys, name, "--env", "HOSTILE_TOOLS", *command)


@pytest.mark.prints("mcp add")
def test_the_server_is_written_down_with_its_tools_and_the_rules_that_name_them(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = add_bad(capsys)
    assert (code, told["written"]) == (0, ["servers.yaml", "towpath.yaml"])
    assert {one["tool"]: one["rules"] for one in told["tools"]} == {
        "bad.echo": [],
        "bad.kept": [{"name": "look", "effect": "allow"}],
    }
    assert "towpath new policy NAME --tool bad.echo" in told["next"][0]
    assert (project / "towpath.yaml").read_text() == f'{PROJECT}mcp: "servers.yaml"\n'
    assert read_project().mcp == Path("servers.yaml")
    first, *_ = (project / "servers.yaml").read_text().splitlines()
    assert first == "# yaml-language-server: $schema=.towpath/schema/mcp-servers.json"
    assert load_servers("servers.yaml").servers["bad"].env == {"HOSTILE_TOOLS": "${env:HOSTILE_TOOLS}"}


def test_a_second_one_leaves_what_is_there_as_it_is(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "towpath.yaml").write_text(f"{PROJECT}mcp: other.yaml\n")
    before = "# servers\nkind: McpServers\nservers:\n  time: # tells it\n    command: nothing\n\n# the end\n"
    (project / "other.yaml").write_text(before)
    code, told = add_bad(capsys)
    after = (project / "other.yaml").read_text()
    assert (code, told["written"]) == (0, ["other.yaml"])
    assert after.startswith(before.partition("\n\n")[0])
    assert after.endswith("\n# the end\n")
    assert list(yaml.safe_load(after)["servers"]) == ["time", "bad"]


def test_a_name_that_is_taken_is_refused_before_anything_is_started(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_bad(capsys)
    before = (project / "servers.yaml").read_text()
    code, told = added(capsys, "bad", str(project / "not-there"))
    assert (code, told["code"]) == (1, "files_exist")
    assert "'bad' already" in told["detail"]
    assert (project / "servers.yaml").read_text() == before


def test_a_try_that_wrote_the_server_alone_is_taken_up_where_it_ended(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_bad(capsys)
    (project / "towpath.yaml").write_text(PROJECT)
    before = (project / "servers.yaml").read_text()
    code, told = add_bad(capsys)
    assert (code, told["written"]) == (0, ["towpath.yaml"])
    assert read_project().mcp == Path("servers.yaml")
    assert (project / "servers.yaml").read_text() == before


def test_a_policy_that_can_not_be_read_keeps_no_server_from_being_added(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "policies.yaml").write_bytes(b"\xff\xfe rules")
    code, told = add_bad(capsys)
    assert (code, [one["rules"] for one in told["tools"]]) == (0, [[], []])


def test_a_server_that_does_not_answer_is_not_written_down(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = added(capsys, "gone", str(project / "not-there"))
    assert (code, told["code"]) == (1, "service_failed")
    assert "gone does not answer" in told["detail"]
    assert sorted(path.name for path in project.iterdir()) == ["policies.yaml", "tools.json", "towpath.yaml"]
    assert (project / "towpath.yaml").read_text() == PROJECT


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("time",), "needs its command, or its URL"),
        (("a b", "uvx"), "a b"),
        (("sheets", "http://example.com/mcp", "--header", "Authorization: x"), "unencrypted"),
        (("sheets", "https://example.com/mcp", "more"), "neither more words nor --env"),
        (("sheets", "https://example.com/mcp", "Bearer s3cret"), "neither more words nor --env"),
        (("sheets", "https://example.com/mcp", "--env", "KEY=s3cret"), "neither more words nor --env"),
        (("sheets", "https://example.com/mcp", "--env", "Authorization: s3cret"), "neither more words nor --env"),
        (("sheets", "https://example.com/mcp", "--env", "s3cret=="), "neither more words nor --env"),
        (("time", "--env", "KEY: s3cret", "uvx"), "--env takes NAME=VALUE, or NAME alone"),
        (("time", "--header", "A=b", "uvx"), "--header belongs to a URL"),
        (
            ("sheets", "--header", "Bearer s3cret", "https://example.com/mcp"),
            "--header takes NAME=VALUE, or 'NAME: VALUE'",
        ),
        (("time", "--", "uvx", "${env:KEY}"), "a secret can't stand in a command"),
    ],
)
def test_what_can_not_be_a_server_is_refused_with_the_reason(
    project: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], part: str
) -> None:
    code = main(["mcp", "add", *words])
    said = capsys.readouterr()
    assert code in {1, 2}
    assert part in " ".join((said.out + said.err).split())
    assert "s3cret" not in said.out + said.err
    assert not (project / "servers.yaml").exists()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"servers:\n  time:\n    command: \xff\n", "servers.yaml:3: this is not UTF-8"),
        (b"servers:\n  time: @a\n", "servers.yaml:2: not YAML"),
        (None, "servers.yaml is a folder"),
    ],
)
def test_a_file_of_servers_that_can_not_be_read_is_told_with_its_line(
    project: Path, capsys: pytest.CaptureFixture[str], written: bytes | None, said: str
) -> None:
    file = project / "servers.yaml"
    if written is None:
        file.mkdir()
    else:
        file.write_bytes(written)
    code, told = add_bad(capsys)
    assert (code, told["code"]) == (2, "file_missing" if written is None else "mcp_invalid")
    assert said in told["detail"]


def test_the_words_of_other_tools_are_told_with_this_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["mcp", "import", "https://example.com/mcp"], ["connect", "mcp", "https://example.com/mcp"]):
        with pytest.raises(SystemExit):
            main(words)
        said = capsys.readouterr()
        assert "towpath mcp add NAME" in " ".join((said.out + said.err).replace("│", " ").split())

"""`towpath tools lint`, `towpath policy suggest` and `towpath policy profiles` need no platform."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.forked_python import forked_python

from towpath.cli import main
from towpath.cli.access.policy_suggest_command import suggestion_text
from towpath.cli.definitions.tool_sources import DeclaredTool, is_of_user
from towpath.project.mcp_servers import ToolOverride
from towpath.tools.declaration_advice import advise
from towpath_contracts.tools.calls import ToolSpec
from towpath_fabric.profiles.policy_profiles import PROFILES, profile_texts

TOOLS = '''
from towpath import tool

print("this module prints")


@tool(name="desk.find_ticket", toolset="desk")
def find_ticket(number: int) -> list[dict[str, str]]:
    """Find a ticket."""
    return []


@tool(name="desk.reply", toolset="desk")
def reply(ticket_id: str, recipient: str, body: str) -> str:
    """Reply to the customer."""
    return ""


@tool(name="desk.ring", toolset="desk", sinks=(), effect_class="idempotent")
def ring() -> None:
    """Ring the bell."""
'''
SERVER = """
import json, sys

def tool(name, **types):
    properties = {name: {"type": kind} for name, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": "Do it.", "inputSchema": schema}

def answer(method, params):
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "desk", "version": "1"}}
        return {"result": {"protocolVersion": params["protocolVersion"], **about}}
    if method == "tools/list":
        reply = tool("reply", ticket_id="string", recipient="string", body="string")
        return {"result": {"tools": [tool("find_ticket", number="integer"), reply]}}
    return {"error": {"code": -32601, "message": "no such method"}}

for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        said = {"jsonrpc": "2.0", "id": asked["id"], **answer(asked["method"], asked.get("params"))}
        print(json.dumps(said), flush=True)
"""
"""Without the library for servers, which takes a second to import."""


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    with forked_python("towpath_worker") as program:
        yield program


@pytest.fixture(autouse=True)
def forked(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes that look at tools from one that has imported what they need."""
    monkeypatch.setattr(sys, "executable", python)


@pytest.fixture
def tools(tmp_path: Path) -> str:
    (tmp_path / "desk_tools.py").write_text(TOOLS, "utf-8")
    return str(tmp_path / "desk_tools.py")


@pytest.mark.parametrize("command", [["tools", "lint"], ["policy", "suggest"]])
def test_a_file_without_a_tool_is_told_and_not_all_well(
    command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loans.py").write_text(
        'def extend(loan: str) -> str:\n    """Extend a loan."""\n    return loan\n', "utf-8"
    )
    assert main([*command, str(tmp_path / "loans.py"), "-o", "json"]) == 2
    told = json.loads(capfd.readouterr().err)
    assert (told["code"], told["detail"]) == ("request_invalid", f"there is no tool in {tmp_path / 'loans.py'}")
    assert "@tool" in told["remedy"]


def test_lint_says_per_tool_what_is_lacking_and_ends_with_1(tools: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "lint", tools, "--json"]) == 1
    gaps = json.loads(capfd.readouterr().out)["gaps"]
    assert [(gap["tool"], gap["code"]) for gap in gaps] == [
        ("desk.find_ticket", "effect_class"),
        ("desk.find_ticket", "sinks"),
        ("desk.reply", "sinks"),
    ]
    assert "sinks=['ticket_id', 'recipient']" in gaps[2]["remedy"]


def test_lint_ends_with_0_where_nothing_is_lacking(tools: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = TOOLS.replace('find_ticket", toolset="desk"', 'find_ticket", toolset="desk", effect_class="pure"')
    text = text.replace('reply", toolset="desk"', 'reply", toolset="desk", sinks=("ticket_id", "recipient")')
    Path(tools).write_text(text, "utf-8")
    assert main(["tools", "lint", tools, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"gaps": []}


@pytest.mark.prints("policy suggest")
def test_suggestions_are_yaml_with_reasons_and_what_tool_takes(tools: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "suggest", tools]) == 0
    text = capfd.readouterr().out
    assert yaml.safe_load(text)["tools"] == {
        "desk.find_ticket": {"effect_class": "pure"},
        "desk.reply": {"sinks": ["ticket_id", "recipient"]},
        "desk.ring": {"effect_class": "idempotent", "sinks": []},
    }
    assert "sinks: [ticket_id, recipient]  # ticket_id: names an existing thing; recipient: 'recipient' says" in text
    assert main(["policy", "suggest", tools, "-o", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"tools": yaml.safe_load(text)["tools"]}


def test_suggestions_for_the_tools_of_a_server_fit_into_its_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "desk.py").write_text(SERVER, "utf-8")
    servers = tmp_path / "servers.yaml"
    servers.write_text("kind: McpServers\nservers:\n  desk: {command: python3, args: [desk.py], cwd: .}\n", "utf-8")
    assert main(["policy", "suggest", "--mcp", str(servers)]) == 0
    found = yaml.safe_load(capfd.readouterr().out)["servers"]["desk"]["tools"]
    assert found == {"find_ticket": {"effect_class": "pure"}, "reply": {"sinks": ["ticket_id", "recipient"]}}
    assert [ToolOverride.model_validate(one).effect_class for one in found.values()] == ["pure", "irreversible"]
    assert main(["tools", "lint", "--mcp", str(servers), "--json"]) == 1


def test_names_of_a_stranger_write_no_lines_into_a_draft() -> None:
    evil = 'to\n      effect_class: pure\n      # \u2028hi\x85: "'
    properties = {evil: {"type": "string", "format": "email"}, "yes_id": {"type": "string"}, "*": {"format": "uri"}}
    spec = ToolSpec(
        name="d.send", toolset="d", description="Send.", parameters={"type": "object", "properties": properties}
    )
    text = suggestion_text([(DeclaredTool(spec, None, server), advise(spec)) for server in ("no", "a: b\nx: y")])
    assert yaml.safe_load(text) == {
        "servers": {name: {"tools": {"send": {"sinks": [evil, "yes_id", "*"]}}} for name in ("no", "a: b\nx: y")}
    }
    lines = text.splitlines()
    assert sum(line.strip().startswith("effect_class") for line in lines) == 0
    assert sum("sinks: [" in line for line in lines) == 2


@pytest.mark.parametrize("words", [[], ["x.py", "--live"], ["nothing_there.py"]])
def test_what_to_look_at_must_be_named_once_and_be_there(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "lint", *words]) == 2
    assert "request_invalid" in capfd.readouterr().err


@pytest.mark.prints("policy profiles list")
def test_profiles_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "profiles", "list", "--json"]) == 0
    assert [row["profile"] for row in json.loads(capsys.readouterr().out)["profiles"]] == list(PROFILES)
    assert main(["policy", "profiles", "show", "balanced"]) == 0
    assert capsys.readouterr().out == profile_texts()["balanced"]
    assert main(["policy", "profiles", "show", "balanecd"]) == 3
    assert "balanced" in capsys.readouterr().err


def test_a_policy_is_a_file_or_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("profile: strict\n", "utf-8")
    for words in ([], [str(file), "--profile", "strict"]):
        assert main(["policy", "apply", *words]) == 2
        assert "a file or --profile" in capsys.readouterr().err
    assert main(["policy", "apply", "--profile", "stict"]) == 3


def test_cases_are_checked_against_a_policy_that_names_a_profile(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("profile: strict\n", "utf-8")
    case = "{tool: a.b, origin: {worst_sink: unknown}, verdict: require_approval, rule: strict/destinations}"
    (tmp_path / "cases.yaml").write_text(f"kind: PolicyTest\npolicy: policy.yaml\ncases: [{case}]\n", "utf-8")
    assert main(["policy", "test", str(tmp_path / "cases.yaml")]) == 0


def test_what_is_declared_is_kept_and_not_contradicted(tools: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = TOOLS.replace('name="desk.reply", toolset="desk"', 'name="desk.reply", toolset="desk", sinks=("body",)')
    text = text.replace('find_ticket", toolset="desk"', 'find_ticket", toolset="desk", effect_class="idempotent"')
    text = text.replace('name="desk.ring"', 'name="desk.delete", trusted_output=True').replace(
        '"idempotent"', '"pure"', 2
    )
    Path(tools).write_text(text, "utf-8")
    assert main(["policy", "suggest", tools]) == 0
    shown = capfd.readouterr().out
    assert yaml.safe_load(shown)["tools"]["desk.reply"] == {"sinks": ["body"]}
    assert yaml.safe_load(shown)["tools"]["desk.delete"] == {
        "effect_class": "pure",
        "sinks": [],
        "trusted_output": True,
    }
    assert "sinks: [body]  # as declared" in shown


def test_tools_that_come_with_the_platform_are_not_the_users_to_declare() -> None:
    request = ToolSpec(name="http.request", toolset="builtin")
    assert not is_of_user(request)
    assert not is_of_user(ToolSpec(name="plan_steps", toolset="plans", internal=True))
    assert is_of_user(request.model_copy(update={"toolset": "web"}))


def test_of_an_unknown_profile_all_are_named_and_none_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("policy", "apply", "--profile", "nope"), ("policy", "profiles", "show", "nope")):
        assert main([*words]) == 3
        shown = capsys.readouterr().err
        assert ", ".join(PROFILES) in shown
        assert "mean" not in shown

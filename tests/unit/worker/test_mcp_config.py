"""The file of MCP servers: every problem at once with its line, secrets only where nobody else sees them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import mcp_types
import pytest

from towpath.errors import RefusedError
from towpath.project.mcp_servers import load_servers
from towpath_contracts.tools.readers import OutputReaders
from towpath_fabric.redaction import REDACTED
from towpath_worker.adapters.mcp.connection import ListingRefusedError, ServerConnection
from towpath_worker.adapters.mcp.secrets import SecretResolver, ServerSecretMissingError

GOOD = """
kind: McpServers
servers:
  notes:
    command: notes-server
    args: [--fast]
    env: {TOKEN: "${env:NOTES_TOKEN}", KEY: "${file:key.txt}"}
    timeout: 5s
    allow: ["read_*", add]
    deny: [read_secret]
    tools:
      read_all:
        {effect_class: pure, operation: read, trusted_output: true, timeout: 500ms, readers: {fields: shared_with}}
      add: {hazards: [spend], sinks: [to]}
  sheets:
    url: https://sheets.example.com/mcp
    headers: {Authorization: "Bearer ${env:SHEETS_TOKEN}"}
    toolset: tables
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "servers.yaml"
    file.write_text(text)
    return file


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(RefusedError) as refused:
        load_servers(write(folder, text))
    assert refused.value.code == "mcp_invalid"
    return [one.detail for one in refused.value.problem.errors] or [refused.value.problem.detail]


def test_a_file_says_what_its_tools_count_as_and_the_rest_is_the_strictest(tmp_path: Path) -> None:
    read = load_servers(write(tmp_path, GOOD))
    notes = read.servers["notes"]
    assert read.folder == tmp_path
    assert notes.timeout == 5.0
    assert [name for name in ("read_all", "read_secret", "add", "drop") if notes.takes(name)] == ["read_all", "add"]
    assert (notes.override("read_all").effect_class, notes.override("read_all").timeout) == ("pure", 0.5)
    assert (notes.override("add").effect_class, notes.override("add").trusted_output) == ("irreversible", False)
    assert notes.override("read_all").readers == (OutputReaders(fields=("shared_with",)),)
    assert notes.override("add").readers == ()
    assert notes.override("never named") == notes.override("add").model_copy(update={"hazards": (), "sinks": None})


@pytest.mark.parametrize(
    ("server", "word"),
    [
        ("{command: a, url: 'http://localhost/mcp'}", "either a command or a url"),
        ("{args: [x]}", "either a command or a url"),
        ("{command: a, tools: {x: {readers: everybody}}}", "does not say who may know the output"),
        ("{command: a, tools: {x: {readers: {from: to}}}}", "readers have no from"),
        ("{url: 'http://localhost/mcp', env: {A: b}}", "env does not belong"),
        ("{command: a, headers: {A: b}}", "headers does not belong"),
        ("{command: a, args: ['--token=${env:TOKEN}']}", "where others see it"),
        ("{url: 'https://x/mcp?key=${env:KEY}'}", "where others see it"),
        ("{command: a, env: {A: '${env:TOWPATH_NATS_PASSWORD}'}}", "the platform's own"),
        ("{command: a, env: {A: '${env:towpath_ticket}'}}", "the platform's own"),
        ("{command: a, env: {A: '${vault:x}'}}", "a reference is"),
        ("{command: a, env: {A: '${env:A B}'}}", "no name of an environment variable"),
        ("{url: 'ftp://x/mcp'}", "begins with http"),
        ("{url: 'https://user:secret@x/mcp'}", "no user or password"),
        ("{url: 'http://x.example/mcp', headers: {A: b}}", "unencrypted"),
        ("{command: a, tools: {x: {effect_class: reconcilable}}}", "irreversible"),
        ("{command: a, allow: [y], tools: {x: {}}}", "leave x out"),
        ("{command: a, trusted: true}", "there is no field 'trusted'"),
        ("{command: a, timeout: 2h}", "3600"),
    ],
)
def test_what_would_leak_or_mislead_is_refused_with_its_place(tmp_path: Path, server: str, word: str) -> None:
    (found,) = problems(tmp_path, f"servers:\n  s: {server}\n")
    assert word in found
    assert "servers.yaml:2" in found


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    text = "servers:\n  a: {command: x, nonsense: 1}\n  b: {timeout: 0, command: y}\n"
    assert len(problems(tmp_path, text)) == 2


def test_two_servers_can_not_share_a_toolset(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "servers:\n  a: {command: x}\n  b: {command: y, toolset: a}\n")
    assert "share the toolset a" in found


def test_references_are_resolved_late_and_their_values_hidden_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_TOKEN", 'to"ken-123')
    (tmp_path / "key.txt").write_text("first-line\nsecond-line\n")
    secrets = SecretResolver(tmp_path)
    assert secrets.resolve({"A": "Bearer ${env:NOTES_TOKEN}"}) == {"A": 'Bearer to"ken-123'}
    assert secrets.resolve({"K": "${file:key.txt}"}) == {"K": "first-line\nsecond-line"}
    shown = secrets.hide_in({'to"ken-123': ['see to"ken-123', 'in JSON: to\\"ken-123', "second-line", 5, None]})
    assert "ken-123" not in str(shown)
    assert "second-line" not in str(shown)
    for missing in ("${env:NOT_THERE}", "${file:not-there}"):
        with pytest.raises(ServerSecretMissingError, match=r"NOT_THERE|not-there"):
            secrets.resolve({"A": missing})


def test_a_secret_of_a_server_has_at_most_64_kib_and_is_hidden_from_six_characters_on(tmp_path: Path) -> None:
    """Shorter values would be found everywhere, and hiding them would only destroy output."""
    key, secrets = tmp_path / "key", SecretResolver(tmp_path)
    for value, shown in (("abcde", "abcde"), ("q1w2e3", REDACTED)):
        key.write_text(value)
        secrets.resolve({"A": "${file:key}"})
        assert secrets.hide(f"<{value}>") == f"<{shown}>"
    key.write_bytes(b"s" * 65_536)
    assert len(secrets.resolve({"A": "${file:key}"})["A"]) == 65_536
    key.write_bytes(b"s" * 65_537)
    with pytest.raises(ServerSecretMissingError, match="larger than 65536 bytes"):
        secrets.resolve({"A": "${file:key}"})


@pytest.mark.parametrize(("pages", "ends"), [(16, True), (17, False)])
async def test_a_list_of_tools_has_at_most_sixteen_pages(pages: int, ends: bool) -> None:
    left = iter(range(pages - 1, -1, -1))

    async def list_tools(**_: Any) -> Any:
        return mcp_types.ListToolsResult(tools=[], next_cursor=f"{number}" if (number := next(left)) else None)

    server = SimpleNamespace(client=SimpleNamespace(session=SimpleNamespace(list_tools=list_tools)))
    if ends:
        assert await ServerConnection.list_tools(cast("ServerConnection", server)) == []
        return
    with pytest.raises(ListingRefusedError, match="does not end"):
        await ServerConnection.list_tools(cast("ServerConnection", server))

"""`towpath up` while the file of MCP servers is written and saved: it serves what is there, without a new start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.platform.up_in_process import Lines, status_after
from tests.support.worker import hostile_mcp

from towpath_fabric.addresses.port_owners import STATE_FILE

POLICY = "kind: Policy\nrules:\n  - {name: look, tool: bad.kept, effect: allow}\n"


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOSTILE_TOOLS", str(folder / "tools.json"))
    (folder / "tools.json").write_text(json.dumps([hostile_mcp.tool("echo"), hostile_mcp.tool("kept")]))
    (folder / "towpath.yaml").write_text("kind: Project\npolicy: policies.yaml\n")
    (folder / "policies.yaml").write_text(POLICY)
    return folder


def towpath(*words: str) -> str:
    """Return what a command prints, in a process of its own: this one runs the platform."""
    found = subprocess.run(
        [sys.executable, "-m", "towpath.cli", *words, "-o", "json"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_a_server_that_is_added_is_served_at_once_and_a_broken_file_leaves_it_as_it_was(project: Path) -> None:
    command = (sys.executable, hostile_mcp.__file__)

    def look(told: Lines) -> None:
        told.wait_for("ready in")
        towpath("mcp", "add", "bad", "--env", "HOSTILE_TOOLS", "--", *command)
        assert told.wait_for(".yaml").endswith("servers.yaml: worker restarted, MCP servers of bad")
        wait_for_tool("bad.kept")
        towpath("mcp", "add", "more", "--env", "HOSTILE_TOOLS", "--", *command)
        told.wait_for("servers.yaml: worker restarted, MCP servers of bad, more")
        wait_for_tool("more.echo")
        written = (project / "servers.yaml").read_text()
        (project / "servers.yaml").write_text(written.replace("command", "comand"))
        assert "servers.yaml was refused, and the worker goes on with what it has" in told.wait_for("was refused")
        told.wait_for("comand")
        (project / "servers.yaml").write_text(written)
        told.wait_for("servers.yaml: worker restarted, MCP servers of bad, more")
        (project / "other.yaml").write_text(written.replace("more:", "other:"))
        named = (project / "towpath.yaml").read_text()
        (project / "towpath.yaml").write_text(named.replace("servers.yaml", "other.yaml"))
        told.wait_for("other.yaml: worker restarted, MCP servers of bad, other")
        (project / "towpath.yaml").write_text("kind: Project\npolicy: policies.yaml\n")
        told.wait_for("towpath.yaml names no MCP servers any more; start towpath up again")
        (project / "towpath.yaml").write_text("kind: Project\nmcp: other.yaml\n")
        told.wait_for("towpath.yaml changed; start towpath up again")
        state = json.loads((project / ".towpath" / STATE_FILE).read_text())
        assert [name for name in state["processes"] if name.startswith("worker")] == ["worker", "worker-2"]

    def wait_for_tool(tool: str) -> None:
        for _ in range(60):
            if tool in towpath("tools", "list"):
                return
        raise AssertionError(f"{tool} did not come")

    assert status_after(look, "up", "--port", "auto", "--nats-port", "auto") == 0

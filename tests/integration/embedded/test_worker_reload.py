"""`towpath up` while files with tools are saved: the next call has the new function, and no call is lost."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.support.platform.up_in_process import Lines, status_after

from towpath.cli.shared.exit_codes import DENIED
from towpath_fabric.addresses.port_owners import PortOwner, port_owner

TOOLS = """
import time
from pathlib import Path

from towpath import tool


@tool(name="orders.find", effect_class="pure")
def find() -> str:
    with Path("calls").open("a") as calls:
        calls.write("first\\n")
    return "first"


@tool(name="orders.wait", effect_class="irreversible")
def wait() -> str:
    Path("waiting").touch()
    while not Path("go").exists():
        time.sleep(0.05)
    with Path("calls").open("a") as calls:
        calls.write("waited\\n")
    return "waited"
"""
MAIL = """
from towpath import tool


@tool(name="mail.send", toolset="mail", effect_class="pure")
def send() -> str:
    with open("calls", "a") as calls:
        calls.write("sent\\n")
    return "sent"
"""
NETWORK = """
kind: Network
name: shop
model: scripted:task
agents:
  - {key: clerk, is_default: true, allow_respond: true, prompt_template: Look., equipped_tools: [%s]}
"""
FINDS = "orders.find, orders.wait"


class Shop:
    """A project in *folder*, and the platform that `up` serves it with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools" / "orders.py"
        self.tools.parent.mkdir()
        self.tools.write_text(TOOLS)
        self.network = folder / "shop.yaml"
        self.network.write_text(NETWORK % FINDS)
        (folder / "policy.yaml").write_text("kind: Policy\nrules:\n  - {name: all, tool: '*', effect: allow}\n")
        lines = ("kind: Project", "tools: [tools]", "networks: shop.yaml", "policy: policy.yaml", "single_person: true")
        (folder / "towpath.yaml").write_text("\n".join(lines))

    def run(self, tool: str) -> str:
        """Have *tool* called by a run, and return how that ended."""
        state = json.loads((self.folder / ".towpath" / "state.json").read_text())
        return asyncio.run(self._run(state, tool))

    def _authorization(self) -> tuple[str, str, str]:
        return (self.folder / ".towpath" / "authorization").read_text().strip().partition(": ")

    async def _run(self, state: Any, tool: str) -> str:
        name, _, token = await asyncio.to_thread(self._authorization)
        decisions = [
            {"action": "USE_TOOL", "action_details": {"tool_name": tool, "tool_params": {}}},
            {"action": "RESPOND", "action_details": {"payload": "done"}},
        ]
        body = {"network": "shop", "user_message": "go", "model": "scripted:task", "script": decisions}
        async with httpx2.AsyncClient(
            base_url=state["gateway_url"], headers={name: token}, verify=False, timeout=90
        ) as client:
            run: Any = (await client.post("/v1/runs", json=body)).json()
            while run.get("status") not in {"completed", "failed", "escalated", "abandoned"}:
                await asyncio.sleep(0.1)
                run = (await client.get(f"/v1/runs/{run['run_id']}")).json()
        return str(run["status"])

    def state(self) -> Any:
        return json.loads((self.folder / ".towpath" / "state.json").read_text())

    def refused_elsewhere(self) -> str:
        """Start a worker for this platform's broker in another folder, and return what it says at its end."""
        environment = {**os.environ, "TOWPATH_NATS_URL": self.state()["nats_url"]}
        with tempfile.TemporaryDirectory() as other:
            command = [Path(sys.executable).parent / "towpath", "worker", str(self.tools)]
            ended = subprocess.run(
                command, check=False, cwd=other, env=environment, capture_output=True, text=True, timeout=120
            )
        assert ended.returncode == DENIED
        return ended.stdout + ended.stderr

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(folder)
    return Shop(folder)


def test_a_saved_tool_is_served_at_once_and_calls_under_way_are_finished_by_the_worker_that_has_them(
    shop: Shop,
) -> None:
    def look(told: Lines) -> None:
        told.wait_for("ready in")
        ends: list[str] = []
        waiting = threading.Thread(target=lambda: ends.append(shop.run("orders.wait")))
        waiting.start()
        while not (shop.folder / "waiting").exists():
            told.ended.wait(0.05)
        assert shop.run("orders.find") == "completed"
        shop.tools.write_text(TOOLS.replace("first", "second").replace("waited", "waited anew"))
        assert told.wait_for("worker restarted").endswith("tools/orders.py: worker restarted, 2 tools")
        assert shop.run("orders.find") == "completed"
        assert shop.calls() == ["first", "second"]
        (shop.folder / "go").touch()
        waiting.join(90)
        assert (ends, shop.calls()) == (["completed"], ["first", "second", "waited"])

    assert status_after(look, "up", "--port", "auto", "--nats-port", "auto") == 0


def test_a_worker_at_a_terminal_says_what_it_serves_and_ends_once_it_is_drained(shop: Shop) -> None:
    def look(told: Lines) -> None:
        told.wait_for("ready in")
        state = json.loads((shop.folder / ".towpath" / "state.json").read_text())
        (shop.folder / "mail.py").write_text(MAIL)
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as shown, os.fdopen(theirs) as terminal:
            worker = subprocess.Popen(
                [sys.executable, "-m", "towpath.cli", "worker", "mail.py"],
                stdin=terminal, stdout=terminal, stderr=terminal,
            )  # fmt: skip
            text = b""
            while b"Ctrl-C ends it" not in text:
                text += shown.read(4096)
            worker.send_signal(signal.SIGUSR1)
            assert worker.wait(60) == 0
        assert f"  serving mail.send (toolset mail) for {state['gateway_url']}; Ctrl-C ends it" in text.decode()
        assert "Uvicorn" not in text.decode() and "Application startup" not in text.decode()

    assert status_after(look, "up", "--port", "auto", "--nats-port", "auto") == 0


def test_a_broken_save_is_told_with_its_line_and_a_new_file_is_served_and_has_its_network_published(
    shop: Shop,
) -> None:
    def look(told: Lines) -> None:
        told.wait_for("ready in")
        state = json.loads((shop.folder / ".towpath" / "state.json").read_text())
        for address in (state["gateway_url"], state["nats_url"]):
            owner = port_owner(urlsplit(address).port or 0)
            assert owner == PortOwner(f"the Towpath of {shop.folder} (pid {state['pid']})", shop.folder / ".towpath")
        said = shop.refused_elsewhere()
        assert f"The broker is that of the Towpath of {shop.folder}: start the worker there: cd {shop.folder}" in said
        assert "and unset TOWPATH_NATS_URL." in said
        shop.tools.write_text(TOOLS.replace("def find()", "def find("))
        assert "tools/orders.py was refused, and the worker goes on with what it has" in told.wait_for("was refused")
        assert "tools/orders.py:9: not Python" in told.wait_for("not Python")
        assert shop.run("orders.find") == "completed"
        (shop.tools.parent / "stock.py").write_text("def count(")
        shop.tools.write_text(TOOLS)
        told.wait_for("tools/stock.py was refused")
        told.wait_for("tools/stock.py:1: not Python")
        while [*shop.state()["refused_files"]] != ["tools/stock.py"]:
            told.ended.wait(0.05)
        (shop.tools.parent / "stock.py").unlink()
        shop.tools.write_text(TOOLS.replace('"first\\n"', '"mended\\n"'))
        told.wait_for("tools/orders.py, tools/stock.py (gone): worker restarted, 2 tools")
        assert shop.run("orders.find") == "completed"
        shop.network.write_text(NETWORK % f"{FINDS}, mail.send")
        told.wait_for("mail.send, which nobody registered")
        (shop.folder / "tools" / "mail.py").write_text(MAIL)
        missing = {"tools/mail.py: worker restarted, 1 tool", "network shop version 2"}
        while missing:  # the network may be published as soon as the tool is registered
            line = told.wait_for("")
            missing = {one for one in missing if one not in line}
        assert shop.run("mail.send") == "completed"
        assert shop.calls() == ["first", "mended", "sent"]

    assert status_after(look, "up", "--port", "auto", "--nats-port", "auto") == 0


def test_files_that_cannot_be_served_for_another_reason_are_served_once_that_is_over(shop: Shop) -> None:
    def look(told: Lines) -> None:
        told.wait_for("ready in")
        (answers := shop.folder / ".towpath" / "nats" / "worker.served").mkdir()
        shop.tools.write_text(TOOLS.replace("first", "second"))
        assert "Is a directory" in told.wait_for("the worker goes on with what it has, for now: ")
        assert shop.run("orders.find") == "completed"
        answers.rmdir()
        told.wait_for("tools/orders.py: worker restarted, 2 tools")
        assert shop.run("orders.find") == "completed"
        assert shop.calls() == ["first", "second"]

    assert status_after(look, "up", "--port", "auto", "--nats-port", "auto") == 0

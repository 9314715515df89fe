"""What a worker says at a terminal: what it serves, and for which platform."""

import json
from pathlib import Path

import pytest

from towpath.toolbox import WorkerTools
from towpath.tools.declaration import tool
from towpath_worker.wiring import platform_address, serving_line


@tool(name="orders.find", effect_class="pure")
def find() -> str:
    """Find an order."""
    return ""


@tool(name="orders.refund", effect_class="irreversible")
def refund() -> str:
    """Refund an order."""
    return ""


@tool(name="mail.send", toolset="mail", effect_class="irreversible")
def send() -> str:
    """Send a mail."""
    return ""


def test_the_line_names_the_tools_of_each_toolset_and_the_platform() -> None:
    tools = WorkerTools([find, refund, send])
    tools.offer("servers", ())
    assert serving_line(tools, "http://127.0.0.1:8787") == (
        "serving what its servers offer (toolset servers); orders.find, orders.refund (toolset default); "
        "mail.send (toolset mail) for http://127.0.0.1:8787; Ctrl-C ends it"
    )


def test_the_platform_is_named_by_its_state_or_else_by_its_broker_without_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOWPATH_STATE_FILE", raising=False)
    assert platform_address("nats://worker:secret@broker:4222,nats://other") == "nats://broker:4222, nats://other:4222"
    state = tmp_path / "state.json"
    monkeypatch.setenv("TOWPATH_STATE_FILE", str(state))
    assert platform_address("nats://broker") == "nats://broker:4222"
    state.write_text(json.dumps({"gateway_url": "http://127.0.0.1:8787"}))
    assert platform_address("nats://broker") == "http://127.0.0.1:8787"

"""`towpath mcp serve` and `config`: what a bridge does without a platform, and what editors are told to start."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from towpath.cli import main
from towpath.cli.definitions import mcp_bridge, mcp_commands
from towpath.cli.definitions.mcp_bridge import McpBridge
from towpath.client.client import Client

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


async def lines(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


async def served(*messages: bytes, server: str = "") -> list[dict[str, Any]]:
    written: list[str] = []
    with socket.socket() as taken:  # nobody listens there, and nobody else begins to
        taken.bind(("127.0.0.1", 0))
        address = server or f"http://127.0.0.1:{taken.getsockname()[1]}"
        bridge = McpBridge(lambda: Client(address, api_key="twp_none.none"), written.append)
        await bridge.serve(lines(*messages))
    return [json.loads(text) for text in written]


async def test_a_platform_that_is_away_is_an_error_of_each_request_and_of_no_notification() -> None:
    request = b'{"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {}}\n'
    told = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
    (answer,) = await served(request, told, b"\n")
    assert (answer["id"], answer["error"]["code"]) == ("a", mcp_bridge.INTERNAL)
    assert answer["error"]["message"].startswith("server_unreachable: ")
    assert answer["error"]["data"]["remedy"].startswith("Start it: towpath up")
    (elsewhere,) = await served(request, server="nats://127.0.0.1:4222")
    assert "is no address of a gateway" in elsewhere["error"]["message"]


async def test_a_line_that_is_no_message_is_refused_and_the_next_is_served() -> None:
    found = await served(b"{\n", b"[]\n", b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    assert [(one["id"], one["error"]["code"]) for one in found] == [
        (None, mcp_bridge.UNREADABLE),
        (None, mcp_bridge.INVALID),
        (1, mcp_bridge.INTERNAL),
    ]


async def test_a_server_that_never_answers_is_waited_for_only_so_long_once_the_client_is_gone() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client goes
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        began = asyncio.get_running_loop().time()
        request = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
        assert await served(request, server=f"http://{host}:{port}") == []
        assert mcp_bridge.DRAIN_S == 2 and 2 <= asyncio.get_running_loop().time() - began < 20
        given_up = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}\n'
        began = asyncio.get_running_loop().time()
        assert await served(request, given_up, server=f"http://{host}:{port}") == []
        assert asyncio.get_running_loop().time() - began < 2, "a call that is given up is waited for no longer"
        await asyncio.sleep(0.1)  # the server hears that its clients have gone


def test_what_a_request_says_of_itself_stands_in_its_headers() -> None:
    bridge = McpBridge(lambda: Client("http://127.0.0.1:1"), print)
    call = {"method": "tools/call", "params": {"name": "support", "_meta": MODERN}}
    headers = bridge._headers(call)
    assert (headers["MCP-Protocol-Version"], headers["Mcp-Method"]) == ("2026-07-28", "tools/call")
    assert headers["Mcp-Name"] == "support"
    call["params"] = {"name": "Hilfe ü", "_meta": MODERN}
    assert bridge._headers(call)["Mcp-Name"] == "=?base64?SGlsZmUgw7w=?="
    task = {"method": "tasks/get", "params": {"taskId": "7", "_meta": MODERN}}
    assert bridge._headers(task)["Mcp-Name"] == "7"
    assert "MCP-Protocol-Version" not in bridge._headers({"method": "tools/list", "params": {}})


def config(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["mcp", "config", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_editors_are_told_what_to_start_and_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOWPATH_SERVER", raising=False)
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_secret")
    server = config(capsys)["mcpServers"]["towpath"]
    assert Path(server["command"]).is_absolute() and server["args"][-2:] == ["mcp", "serve"]
    assert server["env"] == {"TOWPATH_SERVER": "http://127.0.0.1:8787"}
    named = config(capsys, "--editor", "vscode", "--server", "https://towpath.example")["servers"]["towpath"]
    assert (named["type"], named["env"]) == ("stdio", {"TOWPATH_SERVER": "https://towpath.example"})
    by_http = config(capsys, "--http", "--server", "https://towpath.example/")["mcpServers"]["towpath"]
    assert by_http == {
        "type": "http",
        "url": "https://towpath.example/mcp",
        "headers": {"Authorization": "Bearer ${TOWPATH_API_KEY}"},
    }
    assert "type" not in config(capsys, "--http", "--editor", "cursor")["mcpServers"]["towpath"]
    monkeypatch.setattr("towpath.client.settings.running_server_url", lambda *_: "http://127.0.0.1:9000")
    running = config(capsys)["mcpServers"]["towpath"]
    assert running["args"][-2:] == ["--folder", str(tmp_path)] and "env" not in running
    assert mcp_commands.MAX_LINE_BYTES == 2 * 1024 * 1024

"""`towpath mcp serve` and `config`: what a bridge does without a platform, and what editors are told to start."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway.web import Asked, Web, response, web

from towpath.cli import main
from towpath.cli.definitions import mcp_bridge
from towpath.cli.definitions.mcp_bridge import McpBridge, read_lines
from towpath.cli.definitions.mcp_commands import served_target
from towpath.cli.shared.options import ConnectionOptions
from towpath.client.client import Client
from towpath.client.contexts import ContextFile, PlatformContext
from towpath_contracts.problems.registry import ProblemError, problem

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
TOLD = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


DRAIN_S = mcp_bridge.DRAIN_S


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for answers however long a busy machine takes; how long the program does is one test's matter."""
    monkeypatch.setattr(mcp_bridge, "DRAIN_S", 60.0)


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
    (answer,) = await served(request, TOLD, b"\n")
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


async def test_a_server_that_never_answers_is_waited_for_only_so_long_once_the_client_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client goes
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        monkeypatch.setattr(mcp_bridge, "DRAIN_S", DRAIN_S)
        began = asyncio.get_running_loop().time()
        request = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
        assert await served(request, server=f"http://{host}:{port}") == []
        assert DRAIN_S == 2 and 2 <= asyncio.get_running_loop().time() - began < 20
        monkeypatch.setattr(mcp_bridge, "DRAIN_S", 60.0)
        given_up = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}\n'
        began = asyncio.get_running_loop().time()
        assert await served(request, given_up, server=f"http://{host}:{port}") == []
        assert asyncio.get_running_loop().time() - began < 20, "a call that is given up is waited for no longer"
        await asyncio.sleep(0.1)  # the server hears that its clients have gone


async def test_a_request_is_answered_whatever_keeps_it_from_the_platform() -> None:
    unknown = ProblemError(problem("not_found", "there is no context staging"))
    for error, code in ((unknown, "not_found: "), (ValueError("odd"), "internal: ValueError: odd")):
        written: list[str] = []
        await McpBridge(lambda error=error: raised(error), written.append).serve(lines(PING, TOLD))
        (answer,) = map(json.loads, written)
        assert answer["id"] == 1 and answer["error"]["message"].startswith(code)


def raised(error: Exception) -> Client:
    raise error


async def test_neither_parameters_that_are_a_list_nor_a_line_that_is_too_long_end_the_bridge() -> None:
    given_up = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]}\n'
    by_place = b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": [1]}\n'
    found = await served(given_up, by_place, b"[" * (mcp_bridge.MAX_LINE_BYTES + 1), PING)
    assert sorted((str(one["id"]), one["error"]["code"]) for one in found) == [
        ("1", mcp_bridge.INTERNAL),
        ("2", mcp_bridge.INTERNAL),
        ("None", mcp_bridge.INVALID),
    ]


async def test_of_a_line_that_is_too_long_only_its_beginning_is_kept() -> None:
    longest = mcp_bridge.MAX_LINE_BYTES
    assert longest == 2 * 1024 * 1024
    reader = asyncio.StreamReader()
    reader.feed_data(b"a\n" + b"b" * longest + b"\n\n" + b"c" * (longest + 50_000) + b"\nd")
    reader.feed_eof()
    found = [line async for line in read_lines(reader)]
    assert [(line[:1], len(line)) for line in found] == [
        *((b"a", 1), (b"b", longest), (b"", 0)),
        *((b"c", longest + 1), (b"d", 1)),
    ]


@pytest.mark.parametrize("fault", ["unauthorized", "broken"])
async def test_a_connection_that_is_given_up_is_closed_by_the_last_request_that_goes_over_it(fault: str) -> None:
    """A stream of one request outlives that another request is refused, or breaks off, beside it."""
    others_ended, clients, written = asyncio.Event(), list[Client](), asyncio.Queue[str]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b": ")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
        asked = json.loads(await reader.readexactly(length))
        if asked["id"] == "slow":
            await others_ended.wait()
        if asked["id"] != "other":
            result = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
            writer.write(response(200, json.dumps(result).encode(), content_type="application/json"))
        elif fault == "unauthorized":
            writer.write(response(401, b"{}", content_type="application/json"))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()

        def connect() -> Client:
            clients.append(Client(f"http://{host}:{port}", api_key="twp_none.none"))
            return clients[-1]

        async def asked() -> AsyncIterator[bytes]:
            for name in ("slow", "other"):
                yield json.dumps({"jsonrpc": "2.0", "id": name, "method": "ping"}).encode()
            answers.append(json.loads(await written.get()))
            yield PING
            answers.append(json.loads(await written.get()))
            assert [one._transport._http.is_closed for one in clients] == [False, False]  # type: ignore[attr-defined]
            others_ended.set()

        answers: list[dict[str, Any]] = []
        await McpBridge(connect, written.put_nowait).serve(asked())
    answers.append(json.loads(written.get_nowait()))
    assert [(one["id"], "result" in one) for one in answers] == [("other", False), (1, True), ("slow", True)]
    assert [one._transport._http.is_closed for one in clients] == [True, True]  # type: ignore[attr-defined]


DONE = b'data: {"jsonrpc": "2.0", "id": 1, "result": {}}\n\n'
NOTICE = b'data: {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}\n\n'
QUESTION = b'data: {"jsonrpc": "2.0", "id": 1, "method": "ping"}\n\n'


@pytest.mark.parametrize(
    ("frames", "breaks", "answered"),
    [
        (NOTICE + DONE, True, "result"),
        (NOTICE + DONE, False, "result"),
        (NOTICE, True, "server_unreachable"),
        (NOTICE, False, "unavailable: the gateway ended its answer"),
        (QUESTION, False, "unavailable: the gateway ended its answer"),
    ],
)
async def test_a_request_is_answered_once_however_its_stream_ends(frames: bytes, breaks: bool, answered: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n" % (len(frames), frames) + (b"" if breaks else b"0\r\n\r\n"))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        found = await served(PING, server=f"http://{host}:{port}")
    (only,) = [one for one in found if "method" not in one]
    assert only["id"] == 1 and answered in ("result" if "result" in only else only["error"]["message"])


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


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContextFile:
    """A file of contexts with none selected, and a key in the environment that is meant for no one of them."""
    for name in ("TOWPATH_SERVER", "TOWPATH_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_secret")
    monkeypatch.setenv("TOWPATH_CONTEXTS_FILE", "config/contexts.json")
    monkeypatch.chdir(tmp_path)
    return ContextFile(tmp_path / "config" / "contexts.json")


def site_address(site: Web) -> str:
    return site.url(host="127.0.0.1").rstrip("/")


async def test_the_platform_of_a_context_is_sent_its_own_key_or_none(
    contexts: ContextFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> bytes:
        result = {"jsonrpc": "2.0", "id": json.loads(asked.body)["id"], "result": {}}
        return response(200, json.dumps(result).encode(), content_type="application/json")

    (tmp_path / "said").write_bytes(PING)
    async with web(answer) as site:
        contexts.add(PlatformContext(name="staging", server=site_address(site)))
        contexts.add(PlatformContext(name="keyed", server=site_address(site), api_key="twp_of_context"))
        for context in ("staging", "keyed"):
            with (tmp_path / "said").open() as said:
                monkeypatch.setattr(sys, "stdin", said)
                assert await asyncio.to_thread(main, ["mcp", "serve", "--context", context]) == 0
    assert [asked.headers.get("authorization") for asked in site.asked] == [None, "Bearer twp_of_context"]


def test_a_folder_that_is_given_means_the_platform_on_it_and_no_key_but_its_own(
    contexts: ContextFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts.add(PlatformContext(name="prod", server="https://prod.example", api_key="twp_of_context"))
    nothing, folder = ConnectionOptions(), Path()
    with pytest.raises(ProblemError, match="no platform of yours runs on this folder"):
        served_target(nothing, folder)
    monkeypatch.setattr("towpath.client.settings.running_server_url", lambda *_: "http://127.0.0.1:9000")
    monkeypatch.setenv("TOWPATH_SERVER", "https://env.example")
    found = served_target(nothing, folder)
    assert (found.server, found.api_key) == ("http://127.0.0.1:9000", None)
    assert served_target(ConnectionOptions(api_key="twp_given"), folder).api_key == "twp_given"
    assert served_target(ConnectionOptions(server="http://x"), folder).server == "http://x"
    assert served_target(ConnectionOptions(context="prod"), folder).api_key == "twp_of_context"
    assert served_target(nothing, None).server == "https://env.example"


@pytest.mark.prints("mcp config")
def test_editors_are_told_the_context_and_no_password(
    contexts: ContextFile, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "https://ann:pass-word@prod.example"
    contexts.add(PlatformContext(name="prod", server=address, api_key="twp_of_context"))
    file = {"TOWPATH_CONTEXTS_FILE": str(contexts.path)}
    selected = config(capsys)["mcpServers"]["towpath"]
    assert selected["env"] == {**file, "TOWPATH_CONTEXT": "prod"}
    given = config(capsys, "--context", "prod")["mcpServers"]["towpath"]
    assert (given["args"][-2:], given["env"]) == (["--context", "prod"], file)
    monkeypatch.delenv("TOWPATH_CONTEXTS_FILE")
    monkeypatch.setenv("HOME", "/nowhere")
    for options in (("--server", address), ("--http", "--server", address)):
        assert main(["mcp", "config", *options]) == 2
        said = capsys.readouterr()
        assert "***@prod.example" in said.err and "pass-word" not in f"{said}"


def test_a_broker_is_no_server_of_editors(contexts: ContextFile, capsys: pytest.CaptureFixture[str]) -> None:
    broker = "nats://ann:pass-word@127.0.0.1:4222"
    contexts.add(PlatformContext(name="broker", server=broker))
    for options in ((), ("--http",)):
        for named in (("--server", broker), ("--context", "broker")):
            assert main(["mcp", "config", *options, *named]) == 2
            said = capsys.readouterr()
            assert "is no address of a gateway" in said.err and "--server http://127.0.0.1:8787" in said.err
            assert "pass-word" not in f"{said}" and not said.out


def config(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["mcp", "config", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_editors_are_told_what_to_start_and_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, contexts: ContextFile, tmp_path: Path
) -> None:
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

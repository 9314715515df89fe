"""What `towpath up` asks its own gateway goes there, with the token, and through no proxy of the environment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from towpath_embedded.network_folder import NetworkFolderPublisher
from towpath_embedded.up import count_unfinished_runs

NETWORK = "kind: Network\nname: desk\nmodel: scripted:task\nagents: []\n"
ANSWER = b'{"name": "desk", "version": 1, "runs": []}'


@asynccontextmanager
async def listening(heard: list[bytes]) -> AsyncIterator[int]:
    """Answer every request at a port, and note its head."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_no_proxy_is_sent_the_token_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "desk.yaml").write_text(NETWORK)
    seen: list[bytes] = []
    asked: list[bytes] = []
    async with listening(seen) as proxy, listening(asked) as gateway:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        told: list[str] = []
        address = f"http://local:t0ken@127.0.0.1:{gateway}"
        await NetworkFolderPublisher(tmp_path, address, told.append).publish_changed()
        await count_unfinished_runs(address)
    assert seen == []
    assert told == ["desk.yaml: network desk version 1"]
    assert {head.split(b" ", 2)[1].partition(b"?")[0] for head in asked} == {b"/v1/networks", b"/v1/runs"}
    assert all(b"\r\nAuthorization: Basic " in head for head in asked)

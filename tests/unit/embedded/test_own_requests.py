"""What `towpath up` asks its own gateway goes there, with the token, and through no proxy of the environment."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.up import count_unfinished_runs

NETWORK = "kind: Network\nname: desk\nmodel: scripted:task\nagents: []\n"
ANSWER = b'{"name": "desk", "version": 1, "runs": []}'
MOVED = b'{"code": "network_moved", "detail": "version 2 is current, not 1"}'


@asynccontextmanager
async def listening(heard: list[bytes], bodies: list[dict[str, Any]] | None = None) -> AsyncIterator[int]:
    """Answer every request at a port, and note its head, and where *bodies* is given its JSON.

    A network is published as its version 1; where another version is wanted to be current, it is refused.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        said = ANSWER
        if bodies is not None:
            length = int(re.search(rb"content-length: (\d+)", heard[-1].lower())[1])
            bodies.append(json.loads(await reader.readexactly(length)))
            said = MOVED if "if_version" in bodies[-1] else ANSWER
        status = b"409 Conflict" if said is MOVED else b"200 OK"
        head = b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
        writer.write(head % (status, len(said), said))
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


async def test_a_version_that_was_published_elsewhere_stays_until_its_file_changes(tmp_path: Path) -> None:
    file, memory = tmp_path / "desk.yaml", tmp_path / "memory.json"
    file.write_text(NETWORK)
    bodies: list[dict[str, Any]] = []
    async with listening([], bodies) as gateway:

        async def starts() -> list[str]:
            told: list[str] = []
            address = f"http://local:t0ken@127.0.0.1:{gateway}"
            await NetworkFolderPublisher(file, address, told.append, memory=memory).publish_changed()
            return told

        assert await starts() == ["desk.yaml: network desk version 1"]
        assert await starts() == [
            "desk.yaml: not published again: version 2 is current, not 1. Save the file to publish it over that."
        ]
        file.write_text(NETWORK + "max_steps: 3\n")
        assert await starts() == ["desk.yaml: network desk version 1"]
        memory.write_text("{")
        assert await starts() == ["desk.yaml: network desk version 1"]
    assert [one.get("if_version") for one in bodies] == [None, 1, None, None]


async def test_a_file_that_is_saved_as_it_was_is_published_over_what_others_published(tmp_path: Path) -> None:
    file, memory = tmp_path / "desk.yaml", tmp_path / "memory.json"
    file.write_text(NETWORK)
    bodies: list[dict[str, Any]] = []
    told: list[str] = []
    async with listening([], bodies) as gateway:
        address = f"http://local:t0ken@127.0.0.1:{gateway}"
        await NetworkFolderPublisher(file, address, told.append, memory=memory).publish_changed()
        again = NetworkFolderPublisher(file, address, told.append, memory=memory)
        await again.publish_changed()
        assert told[-1].endswith("Save the file to publish it over that.")
        os.utime(file, ns=(0, 0))
        await again.publish_changed()
    assert told[-1] == "desk.yaml: network desk version 1"
    assert [one.get("if_version") for one in bodies] == [None, 1, None]

"""What programs in a sandbox may and may not reach: servers of this machine, names, and ports of a platform."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway.web import chunks

LARGE_BYTES = 20 << 20
SECOND_S = 0.3
"""How long the server waits for a request behind the last one."""

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
METADATA = "169.254.169.254"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as many requests as come in one connection, also behind a "close": a proxy must not let them through.

    Of two lengths of a body it believes the first kind alone, as some servers do.
    """
    wait_s: float | None = None
    try:
        while True:
            async with asyncio.timeout(wait_s):
                head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
            if b"content-length" in fields:
                await reader.readexactly(int(fields[b"content-length"]))
            elif b"transfer-encoding" in fields:
                await chunks(reader)
            path = head.partition(b" HTTP/")[0].rpartition(b"/")[2]
            body = bytes(LARGE_BYTES if path in {b"large", b"endless"} else 0) or b"asked for " + fields.get(
                b"host", b""
            )
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            if fields.get(b"connection") == b"close":
                wait_s = SECOND_S
            if path == b"large":
                return
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    finally:
        writer.close()


def saying(word: bytes) -> Any:
    async def say(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        writer.close()

    return say


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


@asynccontextmanager
async def egress_servers() -> AsyncIterator[dict[str, int]]:
    """Serve what may be granted, and a pair at one port of two addresses; give their ports."""
    async with AsyncExitStack() as stack:

        async def started(handler: Any, host: str, port: int = 0) -> int:
            server = await asyncio.start_server(handler, host, port)
            stack.push_async_callback(server.wait_closed)
            stack.callback(server.close)
            return port_of(server)

        rebound = await started(saying(b"secret"), "127.0.0.1")
        yield {
            "granted": await started(serve, "0.0.0.0"),
            "gateway": await started(serve, "127.0.0.1"),
            "rebound": await started(saying(b"granted"), "127.0.0.2", rebound),
        }


def name_places(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have this process resolve names of tests: `rebound.test` leads elsewhere from the second time on.

    Return the list of the names that were looked up, which grows.
    """
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, *others: Any, **options: Any) -> Any:
        asked.append(str(host))
        moved = "127.0.0.1" if asked.count("rebound.test") > 1 else "127.0.0.2"
        places = {"metadata.test": METADATA, "loopback.test": "127.0.0.1", "rebound.test": moved}
        return real(places.get(str(host), host), *others, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


def platform_at(folder: Path, monkeypatch: pytest.MonkeyPatch, *, broker: int, gateway: int) -> None:
    """Tell this process that a platform of this machine has these ports."""
    state = folder / "state.json"
    state.write_text(json.dumps({"gateway_url": f"http://127.0.0.1:{gateway}", "processes": {}}))
    monkeypatch.setenv("TOWPATH_STATE_FILE", str(state))
    monkeypatch.setenv("TOWPATH_NATS_URL", f"nats://127.0.0.1:{broker}")

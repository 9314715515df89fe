"""A small HTTP/1.1 server that says what it was asked and answers what the test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Web:
    """The server; `answer` maps a request to raw bytes."""

    answer: Callable[[Asked], bytes]
    port: int = 0
    asked: list[Asked] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "localhost") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            chunked = "transfer-encoding" in headers
            body = await (chunks(reader) if chunked else reader.readexactly(int(headers.get("content-length", "0"))))
            asked = Asked(method, path, headers, body)
            self.asked.append(asked)
            data = self.answer(asked)
            writer.write(data)
            if data:
                await writer.drain()
            else:
                await reader.read()  # never answers; waits until the client goes away
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def chunks(reader: asyncio.StreamReader) -> bytes:
    """Read a body that comes in chunks."""
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def response(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Return a whole response; header names are written with underscores."""
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def web(answer: Callable[[Asked], bytes]) -> AsyncIterator[Web]:
    """Serve on a free port of both loopback addresses' names until the block ends."""
    served = Web(answer)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        await server.wait_closed()

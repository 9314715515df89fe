"""Reads server-sent events the way a browser does."""

import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2


@dataclass
class Frame:
    """One event of a stream; `comment` for lines that a browser ignores."""

    event: str = "message"
    data: str = ""
    id: str | None = None
    retry: int | None = None
    comment: str | None = None


async def frames(response: httpx2.Response) -> AsyncIterator[Frame]:
    """Yield the frames of *response* until it ends."""
    lines: list[str] = []
    async for line in response.aiter_lines():
        if line:
            lines.append(line)
        elif lines:
            yield _frame(lines)
            lines = []


def _frame(lines: list[str]) -> Frame:
    frame = Frame()
    data: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name:
            frame.comment = value
        elif name == "data":
            data.append(value)
        elif name == "event":
            frame.event = value
        elif name == "id":
            frame.id = value
        elif name == "retry":
            frame.retry = int(value)
    frame.data = "\n".join(data)
    return frame


def raw_request(url: str, path: str) -> socket.socket:
    """Ask for a stream on a socket with little room, and do not read it."""
    parts = urlsplit(url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.settimeout(120)
    made.connect((parts.hostname, parts.port))
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode())
    return made


def read_whole(made: socket.socket) -> bytes:
    """Read to the end of an answer that comes in chunks."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    data = bytearray()
    while not data.endswith(b"0\r\n\r\n"):
        piece = made.recv(1 << 20)
        assert piece, "the stream was cut"
        data += piece
    return bytes(data)

"""A listener that writes down every message that the broker passes on in the services' account, and when.

It is a thread that reads one socket and keeps what it read with the time, so that it takes next to nothing from the
services that it watches; the protocol is read afterwards. Of a message in a stream it sees the publication, each
delivery (whose reply subject is that of its acknowledgement, with the time at which the broker stored it) and each
acknowledgement.
"""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from towpath_contracts.authority import NatsUserRights

USER = "timeline"
RIGHTS = NatsUserRights(publish=(">",), subscribe=(">",))
CHUNK = 256 * 1024
_MESSAGE = re.compile(rb"(?:MSG (\S+) \d+ (?:(\S+) )?|HMSG (\S+) \d+ (?:(\S+) )?(\d+) )(\d+)\r\n")
_OTHER = re.compile(rb"(PING|PONG|\+OK|INFO [^\r]*|-ERR [^\r]*)\r\n")


class SeenMessage(NamedTuple):
    """A message as the broker passed it on, `at_s` in seconds since 1970, as the broker dates what it stores."""

    at_s: float
    subject: str
    reply: str
    body: bytes


class Tap:
    """Listens to everything from `start` to `stop`, which returns the messages in their order."""

    def __init__(self, url: str) -> None:
        """*url* has the user and the password of somebody with the rights of RIGHTS."""
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 0
        self._login = {"user": unquote(parts.username or ""), "pass": unquote(parts.password or "")}
        self._chunks: list[tuple[float, bytes]] = []
        self._listening = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._listen, name="tap", daemon=True)

    def start(self) -> None:
        """Return once the broker sends everything; raises TimeoutError where it does not."""
        self._socket = socket.create_connection(self._address, timeout=5)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connect = {"verbose": False, "headers": True, "no_responders": True, "lang": "python", "version": "1"}
        hello = f"CONNECT {json.dumps({**connect, **self._login})}\r\nSUB > 1\r\nPING\r\n"
        self._socket.sendall(hello.encode())
        self._socket.settimeout(None)
        self._thread.start()
        if not self._listening.wait(5):
            raise TimeoutError("the broker did not answer the listener")

    def _listen(self) -> None:
        assert self._socket is not None
        while chunk := self._received():
            self._chunks.append((time.time(), chunk))
            if b"PONG\r\n" in chunk:
                self._listening.set()
            if b"PING\r\n" in chunk:
                self._socket.sendall(b"PONG\r\n")

    def _received(self) -> bytes:
        assert self._socket is not None
        try:
            return self._socket.recv(CHUNK)
        except OSError:  # closed by `stop`
            return b""

    def stop(self) -> list[SeenMessage]:
        """Hang up and return what was heard; raises ValueError where it is not NATS's protocol."""
        assert self._socket is not None
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        return list(messages(self._chunks))


def messages(chunks: list[tuple[float, bytes]]) -> Iterator[SeenMessage]:
    """Read the protocol of *chunks*; a message has the time of the chunk in which it ends. Raises ValueError."""
    rest = b""
    for at_s, chunk in chunks:
        rest += chunk
        place = 0
        while found := _MESSAGE.match(rest, place) or _OTHER.match(rest, place):
            if found.re is _OTHER:
                place = found.end()
                continue
            plain, plain_reply, headed, headed_reply, of_headers, size = found.groups()
            end = found.end() + int(size)
            if len(rest) < end + 2:
                break
            body = rest[found.end() + int(of_headers or 0) : end]
            yield SeenMessage(at_s, (plain or headed).decode(), (plain_reply or headed_reply or b"").decode(), body)
            place = end + 2
        rest = rest[place:]
        if b"\r\n" in rest and not rest.startswith((b"MSG ", b"HMSG ")):
            raise ValueError(f"not what a broker sends: {rest[:80]!r}")

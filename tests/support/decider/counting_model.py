"""A local model server that counts how many calls it has at once, and what it used; it speaks OpenAI's API.

A call whose client is gone counts no more, as at a provider that sees the connection end.
"""

import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOOK_S = 0.02


class CountingModel:
    """Answers every call with *text* after *takes_s*; each uses *tokens*."""

    def __init__(self, text: str, *, takes_s: float, tokens: int) -> None:
        self.text, self.takes_s, self.tokens = text, takes_s, tokens
        self.now = self.most = self.calls = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self) -> bytes:
        half = self.tokens // 2
        usage = {"prompt_tokens": half, "completion_tokens": self.tokens - half, "total_tokens": self.tokens}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": self.text}}
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return json.dumps({**body, "usage": usage}).encode()

    def _entered(self) -> None:
        with self._lock:
            self.calls += 1
            self.now += 1
            self.most = max(self.most, self.now)

    def _left(self) -> None:
        with self._lock:
            self.now -= 1

    def _is_gone(self, connection: socket.socket) -> bool:
        readable, _, _ = select.select([connection], [], [], LOOK_S)
        return bool(readable) and not connection.recv(1, socket.MSG_PEEK)

    def _handler(owner) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                return

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                owner._entered()
                gone = False
                for _ in range(int(owner.takes_s / LOOK_S)):
                    gone = gone or owner._stopped.is_set() or owner._is_gone(self.connection)
                    if gone:
                        break
                owner._left()
                self.close_connection = gone
                if not gone:
                    self._say(owner.answer())

            def _say(self, data: bytes) -> None:
                try:
                    self.send_response(200)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        return Handler


@contextmanager
def counting(text: str, *, takes_s: float, tokens: int) -> Iterator[CountingModel]:
    """Run a server for the time of a `with` block."""
    server = CountingModel(text, takes_s=takes_s, tokens=tokens)
    try:
        yield server
    finally:
        server.close()

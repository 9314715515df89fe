"""A local server that speaks the Gemini API's `generateContent`: what a model says is written beforehand.

It stands for the other side of the wire, not for a part of Towpath: the real google-genai talks HTTP to it.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INPUT_TOKENS, OUTPUT_TOKENS, THOUGHT_TOKENS = 1_000, 100, 10
TOO_LONG = "The input token count (3475108) exceeds the maximum number of tokens allowed (1048576)."


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer of the API. `cut` ends the connection in the middle of the body; `delay_s` waits before it.

    So many `interim` answers (HTTP 100) come first.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut: bool = False
    interim: int = 0


def says(text: str, *, finish: str = "STOP", cached: int = 0) -> Answer:
    """The model says *text*; so many of the prompt's tokens were *cached*."""
    usage = {
        **({"cachedContentTokenCount": cached} if cached else {}),
        "promptTokenCount": INPUT_TOKENS,
        "candidatesTokenCount": OUTPUT_TOKENS,
        "thoughtsTokenCount": THOUGHT_TOKENS,
        "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS + THOUGHT_TOKENS,
    }
    candidate: dict[str, Any] = {"finishReason": finish, "index": 0}
    if text:
        candidate["content"] = {"role": "model", "parts": [{"text": text}]}
    return Answer(
        body={"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash", "responseId": "g1"}
    )


def fails(status: int, message: str = "no", *, headers: Mapping[str, str] | None = None, **error: Any) -> Answer:
    """The API refuses."""
    body = {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT", **error}}
    return Answer(status=status, body=body, headers=headers or {})


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any

    def header(self, name: str) -> str:
        """Return a header, however its name was written."""
        return {key.lower(): value for key, value in self.headers.items()}.get(name, "")


class GeminiServer:
    """Plays its answers in order; the last one is repeated."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.seen: list[RecordedRequest] = []
        self.arrived = threading.Event()  # set once something was asked
        self.released = threading.Event()  # ends delays when the server stops
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def play(self, *answers: Answer) -> None:
        """Begin anew, with other answers."""
        self.answers, self.seen = list(answers), []
        self.arrived.clear()

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(owner) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                return

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                owner.seen.append(RecordedRequest(path=self.path, headers=dict(self.headers), body=body))
                owner.arrived.set()
                answer = owner.next_answer()
                if answer.delay_s:
                    owner.released.wait(answer.delay_s)
                try:
                    self._send(answer)
                except (BrokenPipeError, ConnectionResetError):  # the client no longer waits
                    self.close_connection = True

            def _send(self, answer: Answer) -> None:
                data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                if answer.interim:
                    self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * answer.interim)
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if answer.cut else data)
                if answer.cut:
                    self.close_connection = True

        return Handler


@contextmanager
def gemini(*answers: Answer) -> Iterator[GeminiServer]:
    """Run a server for the time of a `with` block."""
    server = GeminiServer(*answers)
    try:
        yield server
    finally:
        server.close()

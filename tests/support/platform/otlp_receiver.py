"""A receiver of OTLP over HTTP: decodes spans, and on demand refuses, hangs or is not there."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass
class ReceivedSpan:
    """A span as it was received."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    kind: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    links: list[tuple[str, str]]
    error: str | None


@dataclass
class Receiver:
    """What came in, and how the receiver behaves: `answer`, `refuse` or `hang`."""

    url: str
    spans: list[ReceivedSpan] = field(default_factory=list)
    behaviour: str = "answer"
    requests: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def named(self, name: str) -> ReceivedSpan:
        """Return the one span with *name*."""
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, [span.name for span in self.spans]
        return found[0]


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    """Start a receiver on a free port."""
    receiver = Receiver(url="")

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def do_POST(self) -> None:
            receiver.requests += 1
            body = self.rfile.read(int(self.headers["content-length"]))
            if receiver.behaviour == "hang":
                receiver.released.wait(60)
                return
            if receiver.behaviour == "refuse":
                self.send_response(503)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            assert self.path == "/v1/traces"
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.spans += _decode(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _decode(request: ExportTraceServiceRequest) -> list[ReceivedSpan]:
    return [
        ReceivedSpan(
            service=_attributes(resource.resource.attributes)["service.name"],
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            kind=span.kind,
            attributes=_attributes(span.attributes),
            events=[(event.name, _attributes(event.attributes)) for event in span.events],
            links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
            error=span.status.message if span.status.code == 2 else None,
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    if value.HasField("array_value"):
        return [_value(one) for one in value.array_value.values]
    return getattr(value, value.WhichOneof("value"))

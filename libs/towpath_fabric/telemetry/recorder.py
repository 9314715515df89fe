"""Records spans: cheap, bounded, and without effect on the caller.

Nothing here raises, blocks or waits. Without a receiver nothing is recorded. While it is down or hangs, spans are
dropped and counted.
"""

import asyncio
import importlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Any, Protocol
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter

from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_fabric.settings import Settings
from towpath_readings.spans import Span

FLUSH_S = 2.0
"""How long a stopping process waits for its last spans."""


class SpanSink(Protocol):
    """Takes finished spans."""

    def emit(self, run_id: UUID, span: Span) -> None:
        """Queue a span; returns at once."""

    def inside(self, run_id: UUID, key: str, trace: UUID | None) -> AbstractContextManager[None]:
        """Let what is traced in the block stand below the span with *key*."""

    def close(self, done: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        """Send what is left from another thread, and set *done* on *loop*."""

    def abandon(self) -> None:
        """Drop what is left."""


class RequestTracing(Protocol):
    """Records requests over HTTP and NATS as parts of traces; `LibraryInstrumentation` documents each method."""

    middleware: Any

    def instrument_app(self, app: Any) -> None:
        """Record the requests that *app* answers."""

    def current_span(self) -> RemoteSpan | None:
        """Return the span that this code runs in."""

    def headers(self) -> dict[str, str]:
        """Return what a request carries."""

    def answering(self, subject: str, headers: Mapping[str, str] | None) -> AbstractContextManager[None]:
        """Record the answer to a request."""


_NOWHERE: AbstractContextManager[None] = nullcontext()


def _has_instrumentation() -> bool:
    """Return whether the extra `telemetry` is installed, whole: other programs install parts of it."""
    package = "opentelemetry.instrumentation"
    return find_spec(package) is not None and all(
        find_spec(f"{package}.{library}") is not None for library in ("asyncpg", "fastapi", "httpx")
    )


class SpanRecorder:
    """Records the spans of one process. Where `enabled` is False, callers need not build spans."""

    def __init__(self, role: str, settings: Settings, registry: CollectorRegistry | None = None) -> None:
        self._sink: SpanSink | None = None
        self.spans = Counter("towpath_spans_total", "Spans by outcome", ["outcome"], registry=registry)
        self.requests: RequestTracing | None = None
        """Records what the libraries of this process do; None where only spans of runs are recorded, or nothing."""
        if settings.traces_url:
            # The SDK takes a third of a second to import: only processes that use it import it.
            otlp = importlib.import_module("towpath_fabric.telemetry.otlp")
            self._sink = otlp.OtlpSpanSink(role, settings, self.spans)
            if settings.otel.traces_url and _has_instrumentation():
                instrumentation = importlib.import_module("towpath_fabric.telemetry.instrumentation")
                propagates = settings.otel.reads_traceparent
                self.requests = instrumentation.LibraryInstrumentation(self._sink, propagates=propagates)

    @property
    def enabled(self) -> bool:
        """Whether spans go anywhere."""
        return self._sink is not None

    def record(self, run_id: UUID, *spans: Span) -> None:
        """Record finished spans of a run."""
        if self._sink is not None:
            for span in spans:
                self._sink.emit(run_id, span)

    def record_all(self, run_id: UUID, spans: Iterable[Span]) -> None:
        """Record many; the iterable is not consumed where spans go nowhere."""
        if self._sink is not None:
            self.record(run_id, *spans)

    def inside(self, run_id: UUID, key: str, trace: UUID | None = None) -> AbstractContextManager[None]:
        """Let what libraries and user code trace in the block stand below the span with *key*."""
        return _NOWHERE if self._sink is None else self._sink.inside(run_id, key, trace)

    async def flush(self, within_s: float = FLUSH_S) -> None:
        """Send what is left, for at most *within_s*; nothing can be recorded afterwards."""
        sink, self._sink = self._sink, None
        if sink is None:
            return
        done = asyncio.Event()
        sink.close(done, asyncio.get_running_loop())
        try:
            await asyncio.wait_for(done.wait(), within_s)
        except TimeoutError:
            sink.abandon()

"""Sends spans to an OTLP/HTTP receiver through OpenTelemetry's SDK.

A span is put into a bounded queue on the caller's thread; the SDK sends it on its own thread, so its errors and delays
never reach the caller.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from uuid import UUID

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, use_span
from prometheus_client import Counter

from towpath_contracts import ids
from towpath_fabric.settings import Settings
from towpath_readings.spans import Attribute, Attributes, Span, openinference_attributes, span_id

QUEUE_SPANS = 8_192
"""About 16 MB and ten seconds of full load; while the receiver is away longer, spans are dropped."""

BATCH_SPANS = 512
DELAY_MS = 1_000
EXPORT_S = 3.0
"""How long one batch may take, retries included."""

_KINDS = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
_SCOPE = InstrumentationScope("towpath")
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)

_log = logging.getLogger("towpath.telemetry")


class _CountingExporter(SpanExporter):
    """Counts sent and lost spans, and logs once when the receiver goes away and once when it is back."""

    def __init__(self, exporter: OTLPSpanExporter, counter: Counter) -> None:
        self._exporter = exporter
        self._counter = counter
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        self._counter.labels("lost" if failed else "sent").inc(len(spans))
        if failed != self._failing:
            self._failing = failed
            _log.warning("the telemetry receiver is unreachable" if failed else "the telemetry receiver is back")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves it untyped


class OtlpSpanSink:
    """Sends spans to `settings.otlp_endpoint`, the base address of a receiver."""

    def __init__(self, role: str, settings: Settings, counter: Counter) -> None:
        assert settings.traces_url is not None
        for noisy in ("opentelemetry.exporter", "opentelemetry.sdk"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL)  # each lost batch would be a line, or a traceback
        self._exporter = OTLPSpanExporter(endpoint=settings.traces_url, timeout=EXPORT_S, compression=Compression.Gzip)
        self.processor = BatchSpanProcessor(
            _CountingExporter(self._exporter, counter),
            max_queue_size=QUEUE_SPANS,
            schedule_delay_millis=DELAY_MS,
            max_export_batch_size=BATCH_SPANS,
        )
        self._counter = counter
        self._openinference = settings.otlp_openinference
        self.resource = Resource.create(  # with what OTEL_RESOURCE_ATTRIBUTES adds
            {
                "service.name": f"towpath-{role.replace('_', '-')}",
                "service.namespace": "towpath",
                "service.instance.id": settings.instance,
            }
        )

    def emit(self, run_id: UUID, span: Span) -> None:
        """Put a finished span into the queue; a full queue drops its oldest."""
        self._counter.labels("recorded").inc()
        trace = ids.trace_id(span.trace or run_id)
        above = None if span.parent is None else _context(trace, span_id(span.parent_run or run_id, span.parent))
        if span.caller is not None:
            above = _context(trace, span.caller.span_id)
        attributes = _attributes(span.attributes)
        if self._openinference:
            attributes |= _attributes(openinference_attributes(span.name, span.attributes))
        self.processor.on_end(
            ReadableSpan(
                name=span.name,
                context=_context(trace, span_id(run_id, span.key)),
                parent=above,
                resource=self.resource,
                attributes=attributes,
                events=[Event(event.name, _attributes(event.attributes), event.at_ns) for event in span.events],
                links=[Link(_context(link.trace_id, link.span_id)) for link in span.links],
                kind=_KINDS[span.kind],
                status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
                start_time=span.start_ns,
                end_time=span.end_ns,
                instrumentation_scope=_SCOPE,
            )
        )

    @contextlib.contextmanager
    def inside(self, run_id: UUID, key: str, trace: UUID | None) -> Iterator[None]:
        """Let what is traced in this block stand below the span with *key*, which is recorded at its end."""
        context = SpanContext(
            ids.trace_id(trace or run_id), span_id(run_id, key), is_remote=False, trace_flags=_SAMPLED
        )
        with use_span(NonRecordingSpan(context), record_exception=False, set_status_on_exception=False):
            yield

    def close(self, done: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        """Flush on a daemon thread, so that a receiver that hangs can't delay the end of the process."""

        def flush() -> None:
            self.processor.force_flush()
            self.processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves it untyped
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=flush, name="last-spans", daemon=True).start()

    def abandon(self) -> None:
        """Abort running exports."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves it untyped


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=_SAMPLED)


def _attributes(attributes: Attributes) -> dict[str, Attribute]:
    return {name: _utf8(value) for name, value in attributes.items() if value is not None}


def _utf8(value: Attribute) -> Attribute:
    """Return *value* as valid UTF-8: one lone surrogate would lose the whole batch."""
    if isinstance(value, tuple):
        return tuple(text.encode("utf-8", "replace").decode() for text in value)
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value

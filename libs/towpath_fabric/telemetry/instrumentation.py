"""OpenTelemetry's instrumentation of what services use: FastAPI, asyncpg, httpx2, and NATS by FastStream's own.

Only a request over HTTP begins a trace, sampled as `OTEL_TRACES_SAMPLER` says. Everything else is recorded where it
belongs to a request or to a run, so that the loops of a service don't leave traces of one span. A process imports this
only where the extra `telemetry` is installed and `OTEL_EXPORTER_OTLP_ENDPOINT` names a receiver.
"""

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

from faststream.nats.opentelemetry import NatsTelemetryMiddleware
from opentelemetry import trace
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, Status
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_fabric.telemetry.otlp import OtlpSpanSink

ADDRESSES = ("http.url", "url.full", "http.target")
"""Attributes that hold an address with its query, by the older and newer names of the conventions."""


REPLY = "_INBOX"
"""How the subject of a reply begins. FastStream makes a span of sending it, whose name would be another each time."""


class _WithoutPayloads(SpanProcessor):
    """Takes out of a span what may quote payloads or secrets: queries of addresses, and texts of errors."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor

    def on_end(self, span: ReadableSpan) -> None:
        if span.name.startswith(REPLY):
            return
        self._processor.on_end(
            ReadableSpan(
                name=span.name,
                context=span.get_span_context(),
                parent=span.parent,
                resource=span.resource,
                attributes={name: _bare(name, value) for name, value in (span.attributes or {}).items()},
                events=[Event(event.name, _type_alone(event), event.timestamp) for event in span.events],
                links=span.links,
                kind=span.kind,
                status=Status(span.status.status_code),
                start_time=span.start_time,
                end_time=span.end_time,
                instrumentation_scope=span.instrumentation_scope,
            )
        )


def _bare(name: str, value: AttributeValue) -> AttributeValue:
    if name == "url.query":
        return ""
    return value.partition("?")[0] if name in ADDRESSES and isinstance(value, str) else value


def _type_alone(event: Event) -> dict[str, AttributeValue]:
    attributes = event.attributes or {}
    return {name: value for name, value in attributes.items() if name == "exception.type"}


class LibraryInstrumentation:
    """Records what the libraries of one process do, through *sink*. Patches asyncpg and httpx2 for good."""

    def __init__(self, sink: OtlpSpanSink, *, propagates: bool) -> None:
        """With *propagates*, requests over NATS say whose part they are."""
        self._propagator = TraceContextTextMapPropagator() if propagates else None
        self._requests = TracerProvider(resource=sink.resource, shutdown_on_exit=False)
        self._parts = TracerProvider(sampler=ParentBased(ALWAYS_OFF), resource=sink.resource, shutdown_on_exit=False)
        for provider in (self._requests, self._parts):
            provider.add_span_processor(_WithoutPayloads(sink.processor))
        self._tracer = self._parts.get_tracer("towpath")
        self.middleware = NatsTelemetryMiddleware(tracer_provider=self._parts, include_messages_counters=False)
        """FastStream's, for the requests that its subscribers answer."""
        if importlib.util.find_spec("asyncpg") is not None:
            asyncpg = importlib.import_module("opentelemetry.instrumentation.asyncpg")
            asyncpg.AsyncPGInstrumentor().instrument(tracer_provider=self._parts)
        if importlib.util.find_spec("httpx2") is not None:
            httpx = importlib.import_module("opentelemetry.instrumentation.httpx")
            httpx.HTTPX2ClientInstrumentor().instrument(tracer_provider=self._parts)

    def instrument_app(self, app: Any) -> None:
        """Record the requests that a FastAPI application answers."""
        fastapi = importlib.import_module("opentelemetry.instrumentation.fastapi")
        fastapi.FastAPIInstrumentor.instrument_app(
            app, tracer_provider=self._requests, exclude_spans=["receive", "send"]
        )

    def current_span(self) -> RemoteSpan | None:
        """Return the span that this code runs in."""
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        return RemoteSpan(trace_id=context.trace_id, span_id=context.span_id, sampled=context.trace_flags.sampled)

    def headers(self) -> dict[str, str]:
        """Return what a request carries so that its answer is recorded below the current span."""
        found: dict[str, str] = {}
        if self._propagator is not None:
            self._propagator.inject(found)
        return found

    @contextlib.contextmanager
    def answering(self, subject: str, headers: Mapping[str, str] | None) -> Iterator[None]:
        """Record the answer to a request that FastStream doesn't see, below the span that its headers name."""
        with self._tracer.start_as_current_span(
            f"{subject} process",
            context=None if self._propagator is None else self._propagator.extract(headers or {}),
            kind=SpanKind.CONSUMER,
            attributes={"messaging.system": "nats", "messaging.destination.name": subject},
        ):
            yield

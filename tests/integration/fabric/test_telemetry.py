"""Spans sent to a receiver that answers, refuses, hangs, or is unreachable."""

import asyncio
import os
import subprocess
import sys
import time
import uuid

import pytest
from prometheus_client import CollectorRegistry
from tests.support.places import ROOT
from tests.support.platform.otlp_receiver import otlp_receiver
from tests.support.waiting import eventually

from towpath_contracts import ids
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_embedded.processes.ports import free_port
from towpath_embedded.servers.nats import Nats
from towpath_fabric.service import Service
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_readings.spans import RUN, Span, SpanEvent, step_key

RUN_ID = uuid.UUID("01936b0e-8f5a-7c3d-9b2a-1f4e6d8c0a12")


def telemetry(role: str, endpoint: str | None, registry: CollectorRegistry | None = None) -> SpanRecorder:
    return SpanRecorder(role, Settings(otlp_endpoint=endpoint, instance="test-1"), registry)


def span(key: str = "step:1", parent: str | None = RUN, **more: object) -> Span:
    return Span(key=key, name=key, parent=parent, start_ns=1_000, end_ns=2_000, **more)


async def test_spans_of_two_processes_form_one_tree() -> None:
    with otlp_receiver() as receiver:
        orchestrator, decider = telemetry("orchestrator", receiver.url), telemetry("decider", receiver.url + "/")
        orchestrator.record(RUN_ID, span(RUN, parent=None), span(step_key(1)))
        decider.record(RUN_ID, span("chat", parent=step_key(1), kind="client", error="timeout"))
        await asyncio.gather(orchestrator.flush(), decider.flush())
        root, step, chat = (receiver.named(name) for name in (RUN, "step:1", "chat"))
        assert {received.trace_id for received in receiver.spans} == {RUN_ID.hex}
        assert (root.parent_id, step.parent_id, chat.parent_id) == ("", root.span_id, step.span_id)
        assert root.span_id == f"{ids.span_id(RUN_ID, RUN):016x}"
        assert (chat.service, chat.kind, chat.error) == ("towpath-decider", 3, "timeout")
        assert (step.service, step.error) == ("towpath-orchestrator", None)
        assert (step.start_ns, step.end_ns) == (1_000, 2_000)


async def test_attributes_events_and_links_arrive() -> None:
    with otlp_receiver() as receiver:
        recorder = telemetry("gateway", receiver.url)
        recorder.record(
            RUN_ID,
            span(
                attributes={"s": "ü\ud800", "i": 1, "f": 0.5, "b": True, "none": None},
                events=(SpanEvent(name="e", at_ns=1_500, attributes={"x": "y"}),),
                links=(RemoteSpan(trace_id=0xAB, span_id=0xCD),),
            ),
        )
        await recorder.flush()
        received = receiver.named("step:1")
        assert received.attributes == {"s": "ü?", "i": 1, "f": 0.5, "b": True}
        assert received.events == [("e", {"x": "y"})]
        assert received.links == [(f"{0xAB:032x}", f"{0xCD:016x}")]


async def test_spans_are_sent_without_being_asked() -> None:
    with otlp_receiver() as receiver:
        recorder = telemetry("gateway", receiver.url)
        recorder.record(RUN_ID, span())
        await eventually(lambda: bool(receiver.spans))
        await recorder.flush()


async def test_a14_a_service_that_stops_sends_its_last_spans_first(nats_server: Nats) -> None:
    """Row A14: flush at the end, before the second is over after which spans go by themselves."""
    with otlp_receiver() as receiver:
        service = Service("gateway", Settings(otlp_endpoint=receiver.url, nats_url=nats_server.url()))

        async def work() -> None:
            service.telemetry.record(RUN_ID, span())

        service.on_stop(work)
        async with service._lifespan():
            assert receiver.spans == []
        assert [one.name for one in receiver.spans] == ["step:1"]


async def test_without_a_receiver_nothing_is_made() -> None:
    recorder = telemetry("gateway", None)
    assert not recorder.enabled
    recorder.record(RUN_ID, span())

    def never() -> object:
        raise AssertionError("the spans were made")
        yield

    recorder.record_all(RUN_ID, never())
    await recorder.flush()


@pytest.mark.parametrize("behaviour", ["hang", "refuse", "away"])
async def test_a_broken_receiver_holds_up_nobody(behaviour: str) -> None:
    with otlp_receiver() as receiver:
        receiver.behaviour = behaviour
        endpoint = f"http://127.0.0.1:{free_port()}" if behaviour == "away" else receiver.url
        recorder = telemetry("gateway", endpoint)
        begun = time.monotonic()
        for _ in range(20_000):  # more than the queue holds
            recorder.record(RUN_ID, span())
        assert time.monotonic() - begun < 30
        begun = time.monotonic()
        await asyncio.sleep(0)
        await recorder.flush(within_s=0.5)
        assert time.monotonic() - begun < 5
        recorder.record(RUN_ID, span())  # too late, and harmless


async def test_a_receiver_that_comes_back_is_used_again() -> None:
    with otlp_receiver() as receiver:
        registry = CollectorRegistry()
        receiver.behaviour = "refuse"
        recorder = telemetry("gateway", receiver.url, registry)
        recorder.record(RUN_ID, span())
        await eventually(lambda: registry.get_sample_value("towpath_spans_total", {"outcome": "lost"}) == 1)
        receiver.behaviour = "answer"
        recorder.record(RUN_ID, span("step:2"))
        await eventually(lambda: bool(receiver.spans))
        assert registry.get_sample_value("towpath_spans_total", {"outcome": "recorded"}) == 2
        await recorder.flush()


@pytest.mark.parametrize(
    ("environment", "runs", "requests"),
    [
        ({}, None, None),
        ({"TOWPATH_OTLP_ENDPOINT": "http://a"}, "http://a/v1/traces", None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b/"}, "http://b/v1/traces", "http://b/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/spans"}, "http://c/spans", "http://c/spans"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b", "OTEL_TRACES_EXPORTER": "none"}, None, None),
        ({"TOWPATH_OTLP_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "True"}, None, None),
    ],
)
def test_the_usual_variables_say_where_spans_go_and_whether_libraries_are_recorded(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], runs: str | None, requests: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = Settings.load()
    assert (settings.traces_url, settings.otel.traces_url) == (runs, requests)
    assert settings.otel.reads_traceparent


def test_callers_traces_are_left_alone_where_no_propagator_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    assert not Settings.load().otel.reads_traceparent


LIBRARIES = """
import asyncio, sys
import httpx2
from towpath_embedded.servers.nats import Nats
from towpath_fabric.service import Service
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.recorder import SpanRecorder
import uuid

async def main():
    recorder = SpanRecorder("worker", Settings.load(instance="test-1"))
    run = uuid.UUID(int=7)
    async with httpx2.AsyncClient(base_url=sys.argv[1], verify=False) as client:
        await client.get("/outside?token=SECRET")
        with recorder.inside(run, "tool:1:1", uuid.UUID(int=9)):
            await client.get("/inside?token=SECRET")
    with recorder.requests.answering("task.submit.ann", {"traceparent": f"00-{5:032x}-{6:016x}-01"}):
        sent = recorder.requests.headers()
    try:
        with recorder.requests.answering("task.submit.bob", {"traceparent": f"00-{5:032x}-{6:016x}-01"}):
            raise ValueError("SECRET")
    except ValueError:
        pass
    await recorder.flush()
    print(sent["traceparent"])

asyncio.run(main())
"""


def test_libraries_are_recorded_within_traces_and_without_queries_and_texts_of_errors() -> None:
    """In a process of its own: libraries are instrumented for good."""
    with otlp_receiver() as receiver:
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "PYTHONPATH": "libs"}
        ran = subprocess.run(
            [sys.executable, "-c", LIBRARIES, receiver.url],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        sent = receiver.named("GET")
        assert (sent.trace_id, sent.parent_id) == (f"{9:032x}", f"{ids.span_id(uuid.UUID(int=7), 'tool:1:1'):016x}")
        assert sent.attributes["http.url"] == f"{receiver.url}/inside", "what stands in no trace begins none"
        answered = receiver.named("task.submit.ann process")
        assert (answered.trace_id, answered.parent_id) == (f"{5:032x}", f"{6:016x}")
        assert ran.stdout.strip() == f"00-{5:032x}-{answered.span_id}-01", "further requests stand below it"
        failed = receiver.named("task.submit.bob process")
        assert (failed.error, failed.events) == ("", [("exception", {"exception.type": "ValueError"})])
        assert "SECRET" not in repr(receiver.spans)


@pytest.mark.parametrize("asked", [False, True])
async def test_openinferences_names_are_added_where_they_are_asked_for(asked: bool) -> None:
    with otlp_receiver() as receiver:
        settings = Settings(otlp_endpoint=receiver.url, otlp_openinference=asked, instance="test-1")
        recorder = SpanRecorder("decider", settings)
        recorder.record(RUN_ID, span(attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}))
        await recorder.flush()
        added = {"openinference.span.kind": "LLM", "llm.model_name": "m"} if asked else {}
        written = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        assert receiver.named("step:1").attributes == {**written, **added}

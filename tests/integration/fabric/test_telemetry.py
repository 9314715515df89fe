"""Spans sent to a receiver that answers, refuses, hangs, or is unreachable."""

import asyncio
import time
import uuid

import pytest
from prometheus_client import CollectorRegistry
from tests.support.platform.otlp_receiver import otlp_receiver
from tests.support.waiting import eventually

from towpath_contracts import ids
from towpath_embedded.processes.ports import free_port
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_readings.spans import RUN, Span, SpanEvent, SpanLink, step_key

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
                links=(SpanLink(trace_id=0xAB, span_id=0xCD),),
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

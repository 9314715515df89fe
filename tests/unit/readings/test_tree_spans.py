"""Row E10: a run and everything below it is one trace, whoever records a span of it."""

from typing import Any
from uuid import UUID

from tests.support.engine.machine import RUN
from tests.support.engine.plan_machine import PlanRun, ask, block, step
from tests.support.engine.team_machine import TeamLeadRun, asks

from towpath_contracts import facts
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_contracts.ids import span_id, traceparent
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_engine.advance import advance
from towpath_engine.handlers.children import new_child_run
from towpath_engine.replay import create
from towpath_readings.run_spans import run_spans
from towpath_readings.spans import RUN as ROOT
from towpath_readings.spans import Span, child_key, decision_span, plan_step_key

CALLER = RemoteSpan(trace_id=int("4bf92f3577b34da6a3ce929d0e0e4736", 16), span_id=int("00f067aa0ba902b7", 16))


def by_key(spans: tuple[Span, ...]) -> dict[str, Span]:
    return {span.key: span for span in spans}


def born(run: PlanRun, place: int = 0) -> tuple[UUID, Any, Any]:
    """Return the id, the state and the first event of a child."""
    birth = new_child_run(run.state, run.children[place])
    return birth.child_id, *create(birth.child_id, run.state.snapshot, birth.task, run.now)


def test_e10_steps_of_a_plan_are_spans_with_their_agents_below() -> None:
    """Row E10: telemetry per step — step_id, agent_key, exec_id, latency, status."""
    run = PlanRun(step("ann", id="first"), block(ask("bob"), ask("cid"), id="fan"))
    run.end(after=2)
    run.end(1, status="failed", reason="loop_detected", after=1)
    run.end(0, after=1)
    spans = by_key(run_spans(RUN, run.entries))
    first, fan = spans[plan_step_key(0)], spans[plan_step_key(1)]
    assert (first.name, first.parent, first.end_ns - first.start_ns) == ("plan_step", ROOT, 2 * 10**9)
    assert first.attributes["towpath.plan.step_id"] == "first" and first.attributes["gen_ai.agent.name"] == "ann"
    assert first.attributes["towpath.child.run_id"] == str(run.children[0].child_id) and first.error is None
    assert (fan.attributes["towpath.plan.status"], fan.error) == ("partial", "loop_detected")
    below = [spans[child_key(one.child_id)] for one in run.children]
    assert [(one.name, one.parent, one.error) for one in below] == [
        ("invoke_agent ann", plan_step_key(0), None),
        ("invoke_agent bob", plan_step_key(1), None),
        ("invoke_agent cid", plan_step_key(1), "loop_detected"),
    ]
    assert below[2].attributes["towpath.plan.step_id"] == "fan[1]"
    moved = [one.attributes["towpath.state"] for one in spans[ROOT].events if one.name == "towpath.plan.moved"]
    assert moved == run.path[1:]
    assert all(span.parent in spans for span in spans.values() if span.parent is not None)
    assert not any(key.startswith("step:") for key in spans), "a step of a plan has one span"


def test_e10_a_child_stands_below_its_parents_step_in_the_trace_of_its_root() -> None:
    """Row E10: one trace for a tree: every span of a child is in the trace of the run that a caller submitted."""
    run = PlanRun(step("ann", id="first"))
    child_id, state, first = born(run)
    entries, effects, _after = advance(state, facts.RunAdmittedFact(run_id=child_id), run.now)
    spans = by_key(run_spans(child_id, [first, *entries]))
    assert {span.trace for span in spans.values()} == {RUN}
    root = spans[ROOT]
    assert (root.parent_run, root.parent) == (RUN, child_key(child_id))
    assert root.parent in by_key(run_spans(RUN, run.entries))
    assert root.end_ns >= root.start_ns and spans["step:1"].parent_run is None
    (request,) = (one.message for one in effects if isinstance(one.message, DecisionRequest))
    asked = decision_span(request, start_ns=1, end_ns=2, usage=Usage(), cost=Cost(), prompt_digest="", raw_digest="")
    assert (asked.trace, asked.parent) == (RUN, "step:1")
    assert traceparent(child_id, ROOT, trace=RUN) == f"00-{RUN.int:032x}-{span_id(child_id, ROOT):016x}-01"


def test_a14_a_run_and_its_children_stand_below_the_span_of_the_caller() -> None:
    """Row A14: the trace of a caller that names its span has the whole tree, and that span is its root's parent."""
    run = PlanRun(step("ann", id="first"), traceparent=f"00-{CALLER.trace_id:032x}-{CALLER.span_id:016x}-01")
    child_id, _state, first = born(run)
    spans, below = (by_key(run_spans(*log)) for log in ((RUN, run.entries), (child_id, [first])))
    assert {span.trace for span in (*spans.values(), *below.values())} == {CALLER.trace}
    assert (spans[ROOT].caller, spans[ROOT].parent) == (CALLER, None)
    assert below[ROOT].caller is None and below[ROOT].parent in spans, "a child stands below its parent"


def test_e10_a_run_without_a_parent_says_nothing_of_a_trace() -> None:
    run = PlanRun(step("ann"))
    assert {span.trace for span in run_spans(RUN, run.entries)} == {None}


def test_e10_a_delegate_stands_below_the_call_that_it_answers() -> None:
    lead = TeamLeadRun()
    lead.decide(asks("ann"))
    lead.permit()
    (child,) = lead.children
    span = by_key(run_spans(RUN, lead.entries))[child_key(child.child_id)]
    assert span.parent == f"call:{child.task.execution_id}"
    assert (span.attributes["towpath.child.purpose"], span.attributes["towpath.plan.step_id"]) == ("delegate", None)

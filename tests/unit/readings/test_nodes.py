"""A run's state, its node per model call, and its conversation, read from the log."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.support.decider.decisions import RESPOND, USE_TOOL
from tests.support.engine.machine import Machine
from tests.support.orchestrator.run_history import (
    BEGIN,
    USAGE,
    asked,
    calls,
    created,
    decided,
    denied,
    ended,
    failed,
    finished,
)

from towpath_contracts.decisions.request import Usage
from towpath_contracts.events import log as ev
from towpath_contracts.ids import request_id
from towpath_contracts.tools.calls import ToolFailure
from towpath_readings.nodes import RunNodesView, merge_usage, project_nodes
from towpath_readings.transcript import (
    ChatMessage,
    ChatToolCall,
    MessageRole,
    RunMessages,
    build_messages,
    dangling_calls,
    last_tool_calls,
    project_messages,
)

RUN = UUID("0192f0c1-2f00-7000-8000-000000000001")
SAID = ChatMessage(role=MessageRole.ASSISTANT, tool_calls=(ChatToolCall(call_id="1", tool="t", arguments={}),))
RESULT = ChatMessage(role=MessageRole.TOOL, call_id="1", content="ok")
NEXT = ChatMessage(role=MessageRole.USER, content="and now?")


def entries(*events: ev.AnyEvent) -> list[ev.LogEntry]:
    """Write a log in which an event happens every second."""
    return [
        ev.LogEntry(seq=place + 1, at=BEGIN + timedelta(seconds=place), event=event)
        for place, event in enumerate(events)
    ]


def nodes(*events: ev.AnyEvent) -> RunNodesView:
    return project_nodes(RUN, entries(*events))


def talk(*events: ev.AnyEvent) -> RunMessages:
    return project_messages(RUN, entries(*events))


def missed(step: int, code: str) -> ev.DecisionRequestFailed:
    wanted = request_id(RUN, step, "decide", step - 1)
    return ev.DecisionRequestFailed(
        request_id=wanted, step=step, epoch=0, agent_key="triage", code=code, message="no", usage=USAGE
    )


def test_b3_a_node_per_model_call_goes_from_init_to_its_end() -> None:
    """Row B3: INIT → RUNNING → SUCCESS, created / started / ended / duration, usage per node and summed."""
    begun = [created(), ev.RunStarted(), asked(RUN, 1)]
    assert nodes(created()).status == "init"
    pending = nodes(*begun)
    assert (pending.status, pending.nodes[0].status, pending.iterations) == ("running", "running", 1)
    assert pending.nodes[0].created_at == pending.nodes[0].started_at == BEGIN + timedelta(seconds=2)
    assert (pending.nodes[0].ended_at, pending.nodes[0].duration_ms, pending.duration_ms) == (None, None, None)
    whole = nodes(
        *begun,
        decided(RUN, 1, USE_TOOL),
        calls(RUN, 1),
        finished(RUN, 1),
        asked(RUN, 2),
        decided(RUN, 2, RESPOND),
        ended(2),
    )
    assert [(node.status, node.duration_ms, node.usage) for node in whole.nodes] == [("success", 1_000, USAGE)] * 2
    assert whole.usage == Usage(input_tokens=200, output_tokens=20, total_tokens=220, model_calls=2)
    assert whole.cost.usd == pytest.approx(0.001)
    assert (whole.status, whole.iterations, whole.duration_ms) == ("success", 2, 7_000)
    assert whole.nodes[0].tool_signature.startswith("sha256:")
    assert whole.nodes[1].tool_signature == ""


@pytest.mark.parametrize(
    ("code", "status"), [("model_timeout", "timeout"), ("model_unavailable", "failed"), ("invalid_output", "failed")]
)
def test_b3_a_missed_call_is_failed_or_timed_out_and_says_why(code: str, status: str) -> None:
    """Row B3: FAILED / TIMEOUT; usage of failed attempts counts."""
    (node,) = nodes(created(), ev.RunStarted(), asked(RUN, 1), missed(1, code)).nodes
    assert (node.status, node.error, node.usage, node.duration_ms) == (status, f"{code}: no", USAGE, 1_000)


@pytest.mark.parametrize(
    ("final", "run", "node"),
    [("timed_out", "timeout", "timeout"), ("cancelled", "failed", "failed"), ("escalated", "failed", "failed")],
)
def test_b3_a_run_that_ends_ends_the_node_that_was_open(final: str, run: str, node: str) -> None:
    """Row B3: every node of a run that has ended has ended."""
    found = nodes(created(), ev.RunStarted(), asked(RUN, 1), ended(1, status=final, reason="why"))
    assert (found.status, found.error, found.nodes[0].status) == (run, "why", node)
    assert found.nodes[0].duration_ms == 1_000


def test_b3_a_node_that_waits_out_a_back_off_is_init_until_it_is_sent() -> None:
    """Row B3: INIT → RUNNING; created and started are two moments."""
    waits = ev.BackedOff(step=1, attempt=2, until=BEGIN + timedelta(seconds=4))
    begun = [created(), ev.RunStarted(), waits, asked(RUN, 1)]
    (node,) = nodes(*begun).nodes
    assert (node.status, node.started_at) == ("init", None)
    sent = ev.EffectResent(effect_id=node.node_id, attempt=1, resend_at=BEGIN)
    (node,) = nodes(*begun, sent, sent, decided(RUN, 1, RESPOND)).nodes
    assert (node.created_at, node.started_at) == (BEGIN + timedelta(seconds=3), BEGIN + timedelta(seconds=4))
    assert node.duration_ms == 2_000


def test_b3_a_model_call_that_a_pause_gave_up_has_failed_and_says_why() -> None:
    machine = Machine()
    machine.steer("pause", text="wait")
    machine.resume()
    first, second = project_nodes(machine.state.run_id, machine.entries).nodes
    assert (first.status, first.error) == ("failed", "not waited for: ann paused the run: wait")
    assert second.status == "running"


def test_recorded_calls_of_providers_are_shown_with_their_node() -> None:
    log = entries(created(), ev.RunStarted(), asked(RUN, 1), decided(RUN, 1, RESPOND))
    mine: dict[str, Any] = {"request_id": str(request_id(RUN, 1, "decide", 0)), "duration_ms": 5}
    rows = [
        {**mine, "call": 2, "started_at": "2026-11-01T12:00:03+00:00", "error": None},
        {**mine, "call": 1, "started_at": "2026-11-01T12:00:02+00:00", "error": "model_unavailable: 503"},
        {**mine, "request_id": str(RUN), "call": 1, "started_at": "2026-11-01T12:00:02+00:00"},
        mine,
    ]
    (node,) = project_nodes(RUN, log, rows).nodes
    assert [(call.call, call.error) for call in node.calls] == [(1, "model_unavailable: 503"), (2, "")]


class CountedCall(dict[str, Any]):
    """A recorded call that counts how often it is asked whose it is."""

    asked = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.asked += name == "request_id"
        return super().get(name, default)


def test_recorded_calls_are_not_looked_through_for_each_node() -> None:
    steps = range(1, 21)
    log = entries(created(), ev.RunStarted(), *(asked(RUN, step) for step in steps))
    rows = [
        CountedCall(request_id=str(node.node_id), started_at="2026-11-01T12:00:02+00:00")
        for node in project_nodes(RUN, log).nodes
    ]
    nodes = project_nodes(RUN, log, rows).nodes
    assert [len(node.calls) for node in nodes] == [1] * len(steps)
    assert {row.asked for row in rows} == {1}


def test_b4_messages_are_system_history_user() -> None:
    """Row B4: message order [system, …history, user]; instructions that say nothing are skipped."""
    history = (ChatMessage(role=MessageRole.USER, content="hi"), SAID, RESULT)
    assert [one.role for one in build_messages("Be kind.", history, "go")] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
    ]
    assert build_messages(" ", history, "go")[0] == history[0]
    assert build_messages("Be kind.", (), "go")[-1].content == "go"


def test_b4_usage_is_summed_over_the_attempts_that_failed_too() -> None:
    """Row B4: usage merged; what a provider took for an answer that never came was paid as well."""
    log = [created(), ev.RunStarted(), asked(RUN, 1), missed(1, "model_unavailable"), decided(RUN, 1, RESPOND)]
    assert talk(*log).usage == merge_usage([USAGE, USAGE])


def test_b4_dangling_calls_are_found_and_the_last_calls_extracted() -> None:
    """Row B4: dangling tool calls detected; last assistant tool calls extracted, up to a user message."""
    assert dangling_calls([SAID]) == ("1",)
    assert dangling_calls([SAID, RESULT]) == ()
    assert dangling_calls([RESULT, SAID]) == ("1",)  # a result before its call answers nothing
    assert last_tool_calls([NEXT, SAID]) == SAID.tool_calls
    assert last_tool_calls([SAID, RESULT]) == SAID.tool_calls
    assert last_tool_calls([SAID, RESULT, NEXT]) == ()
    assert last_tool_calls([]) == ()


def test_b4_the_history_of_a_run_contains_its_current_turn() -> None:
    """Row B4: history contains the current turn; usage merged; results in the order of the calls."""
    begun = [created(), ev.RunStarted(), asked(RUN, 1), decided(RUN, 1, USE_TOOL), calls(RUN, 1, 3)]
    half = talk(*begun, finished(RUN, 1, 1))
    assert [one.role for one in half.messages] == ["user", "assistant", "tool"]
    assert [call.arguments["n"] for call in half.waiting] == [0, 2]
    assert half.dangling == tuple(call.call_id for call in half.waiting)
    whole = talk(
        *begun,
        finished(RUN, 1, 1),
        denied(RUN, 1, 2),
        failed(RUN, 1),
        asked(RUN, 2),
        decided(RUN, 2, RESPOND),
        ended(2),
    )
    assert [(one.role, one.status) for one in whole.messages] == [
        ("user", ""),
        ("assistant", ""),
        ("tool", "failed"),
        ("tool", "succeeded"),
        ("tool", "denied"),
        ("assistant", ""),
    ]
    assert whole.messages[0].content == "Refund my order."
    assert whole.messages[1].content == USE_TOOL["action_reasoning"]
    assert "no such customer" in whole.messages[2].content
    assert whole.messages[-1].content == "hello"
    assert (whole.dangling, whole.waiting) == ((), ())
    assert whole.usage == merge_usage([USAGE, USAGE])


def test_feedback_is_the_platforms_and_assessments_are_no_part_of_the_talk() -> None:
    judge = asked(RUN, 1).model_copy(update={"kind": "validate", "request_id": RUN})
    refused = ev.DecisionRefused(step=1, epoch=0, agent_key="triage", code="route_not_allowed", feedback="no route")
    found = talk(
        created(),
        judge,
        decided(RUN, 1, {"valid": True}, request_id=RUN),
        asked(RUN, 1),
        decided(RUN, 1, {"action": "X"}),
        refused,
    )
    assert [(one.role, one.content) for one in found.messages[1:]] == [
        ("assistant", '{"action":"X"}'),
        ("platform", "no route"),
    ]
    assert found.usage.model_calls == 2


def test_b4_the_place_at_which_a_tool_raised_is_for_people_and_no_part_of_what_a_model_reads() -> None:
    """Row B4: what a model reads of a failure is its class and its text."""
    raised = ToolFailure(code="tool_exception", message="no customer", place="orders.py:14")
    call = failed(RUN, 1).model_copy(update={"failure": raised})
    told = talk(created(), ev.RunStarted(), asked(RUN, 1), decided(RUN, 1, USE_TOOL), calls(RUN, 1, 1), call)
    assert "no customer" in told.messages[-1].content
    assert "orders.py" not in told.messages[-1].content

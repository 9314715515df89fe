"""The spans of a run: one tree, the right names, and nothing in them that should not leave the platform."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from towpath_contracts import ids
from towpath_contracts.decisions.decision import CallToolsInstruction, FinishInstruction, ToolCall
from towpath_contracts.decisions.request import Cost, DecisionRequest, PromptContext, Usage
from towpath_contracts.events.log import (
    DecisionReceived,
    DecisionRequested,
    GateClosed,
    GateOpened,
    InstructionIssued,
    LogEntry,
    RunCreated,
    RunFinished,
    RunStarted,
    ToolCallDenied,
    ToolCallFinished,
)
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.tools.calls import Denial, EffectClass, ToolFailure, ToolInvocation, ToolOutcome, ToolRequest
from towpath_readings.model_responses import model_response
from towpath_readings.run_spans import run_spans
from towpath_readings.spans import (
    RUN,
    Span,
    authorization_span,
    decision_span,
    nanoseconds,
    span_id,
    tool_span,
)

RUN_ID = uuid.UUID("01936b0e-8f5a-7c3d-9b2a-1f4e6d8c0a12")
BEGIN = datetime(2026, 11, 1, 12, tzinfo=UTC)
SECRET = "correct horse battery staple"


def log(*events: Any) -> list[LogEntry]:
    """Return *events* as a log, one each second."""
    return [LogEntry(seq=n + 1, at=BEGIN + timedelta(seconds=n), event=event) for n, event in enumerate(events)]


def created() -> RunCreated:
    return RunCreated(
        project="shop",
        caller="alice",
        network="support",
        version=3,
        snapshot_digest="sha256:1",
        agent_key="main",
        user_message=SECRET,
        system_params={"token": SECRET},
        max_steps=10,
        max_tool_errors=8,
        timeout_ms=1,
        step_timeout_ms=1,
        context_limit=1,
    )


def place(step: int) -> dict[str, Any]:
    return {"step": step, "epoch": 0, "agent_key": "main"}


def call(step: int, index: int, tool: str) -> ToolCall:
    return ToolCall(
        execution_id=ids.execution_id(RUN_ID, step, index),
        call_index=index,
        tool=tool,
        args={"account": SECRET, "order_id": "8812", "text": "x" * 60 + SECRET},
        system_params=("account",),
    )


def whole_run() -> list[LogEntry]:
    """A run of two steps: two calls, one of them denied, then an answer."""
    find, refund = call(1, 0, "orders.find"), call(1, 1, "orders.refund")
    asked = [uuid.uuid4(), uuid.uuid4()]
    decision = {"action": "USE_TOOL", "action_reasoning": "r" * 200, "action_details": {"text": "y" * 130 + SECRET}}
    return log(
        created(),
        RunStarted(),
        DecisionRequested(request_id=asked[0], model="gemini:flash", **place(1)),
        DecisionReceived(request_id=asked[0], decision=decision, **place(1)),
        InstructionIssued(instruction=CallToolsInstruction(calls=(find, refund)), **place(1)),
        ToolCallFinished(
            execution_id=find.execution_id,
            call_index=0,
            tool=find.tool,
            status="succeeded",
            result={"rows": "z" * 110 + SECRET},
            policy_version=4,
            **place(1),
        ),
        ToolCallDenied(
            execution_id=refund.execution_id,
            call_index=1,
            tool=refund.tool,
            denial=Denial(violation_type="permission_denied", reason="no rule"),
            **place(1),
        ),
        DecisionRequested(request_id=asked[1], model="gemini:flash", **place(2)),
        InstructionIssued(instruction=FinishInstruction(payload={"message": SECRET}), **place(2)),
        RunFinished(
            status="completed",
            reason="responded",
            final={"message": SECRET},
            steps=2,
            fence=1,
            usage=Usage(input_tokens=10, output_tokens=4, total_tokens=14, model_calls=2),
            cost=Cost(usd=0.25, price_known=True),
        ),
    )


def by_key(spans: tuple[Span, ...]) -> dict[str, Span]:
    return {span.key: span for span in spans}


def test_a_run_is_one_tree() -> None:
    spans = by_key(run_spans(RUN_ID, whole_run()))
    find, refund = (f"call:{ids.execution_id(RUN_ID, 1, index)}" for index in (0, 1))
    assert {key: span.parent for key, span in spans.items()} == {
        "run": None,
        "step:1": "run",
        "step:2": "run",
        find: "step:1",
        refund: "step:1",
    }
    assert [span.name for span in spans.values()] == [
        "invoke_workflow support",
        "step main",
        "tool_call orders.find",
        "tool_call orders.refund",
        "step main",
    ]
    assert {span.kind for span in spans.values()} == {"internal"}, "requests to others have spans of their own"


def test_spans_last_as_long_as_what_they_stand_for() -> None:
    spans = by_key(run_spans(RUN_ID, whole_run()))
    seconds = {
        key: ((s.start_ns - nanoseconds(BEGIN)) / 1e9, (s.end_ns - nanoseconds(BEGIN)) / 1e9)
        for key, s in spans.items()
    }
    assert seconds["run"] == (0, 9)
    assert seconds["step:1"] == (2, 6)
    assert seconds["step:2"] == (7, 8)
    assert seconds[f"call:{ids.execution_id(RUN_ID, 1, 0)}"] == (4, 5)


def test_the_root_says_what_became_of_the_run() -> None:
    root = by_key(run_spans(RUN_ID, whole_run()))[RUN]
    assert root.attributes["towpath.run.status"] == "completed"
    assert root.attributes["gen_ai.usage.input_tokens"] == 10
    assert root.attributes["towpath.cost.usd"] == 0.25
    assert root.attributes["gen_ai.conversation.id"] == str(RUN_ID)
    assert root.error is None
    step = by_key(run_spans(RUN_ID, whole_run()))["step:1"]
    assert (step.attributes["gen_ai.agent.id"], step.attributes["gen_ai.agent.version"]) == ("support/main", "3")
    failed = log(created(), RunFinished(status="failed", reason="max_steps_exceeded", final={}, steps=1, fence=1))
    assert by_key(run_spans(RUN_ID, failed))[RUN].error == "max_steps_exceeded"


def test_a_refusal_is_no_error_and_a_failure_is() -> None:
    spans = by_key(run_spans(RUN_ID, whole_run()))
    denied = spans[f"call:{ids.execution_id(RUN_ID, 1, 1)}"]
    assert (denied.error, denied.attributes["towpath.denial"]) == (None, "permission_denied")
    only = call(1, 0, "orders.find")
    entries = log(
        created(),
        InstructionIssued(instruction=CallToolsInstruction(calls=(only,)), **place(1)),
        ToolCallFinished(
            execution_id=only.execution_id,
            call_index=0,
            tool=only.tool,
            status="failed",
            failure=ToolFailure(code="tool_timeout", message="30 s"),
            **place(1),
        ),
    )
    assert by_key(run_spans(RUN_ID, entries))[f"call:{only.execution_id}"].error == "tool_timeout"


def test_prompts_messages_and_payloads_stay_inside() -> None:
    for span in run_spans(RUN_ID, whole_run()):
        assert SECRET not in repr(span)
    step = by_key(run_spans(RUN_ID, whole_run()))["step:1"]
    assert step.events[0].name == "towpath.decision"
    assert len(str(step.events[0].attributes["towpath.action.reasoning"])) == 120


def test_gates_are_reported_without_their_texts() -> None:
    gate = uuid.uuid4()
    entries = log(
        created(),
        GateOpened(gate_id=gate, gate_type="permission", reason=SECRET, detail={"args": SECRET}, expires_at=BEGIN),
        GateClosed(gate_id=gate, verdict="denied", reason=SECRET, by="alice"),
    )
    root = by_key(run_spans(RUN_ID, entries))[RUN]
    assert [event.name for event in root.events] == ["towpath.gate.opened", "towpath.gate.closed"]
    assert SECRET not in repr(root)


@given(st.data())
def test_any_part_of_a_log_gives_spans_that_do_not_end_before_they_start(data: st.DataObject) -> None:
    entries = whole_run()
    kept = [entry for entry in entries if data.draw(st.booleans())]
    for span in run_spans(RUN_ID, kept):
        assert span.start_ns <= span.end_ns


def recorded_at_once() -> tuple[Span, Span, Span]:
    """Return the spans of a model call, of a decision about a call and of the call."""
    request = DecisionRequest(
        request_id=uuid.uuid4(),
        run_id=RUN_ID,
        project="shop",
        attempt=2,
        fence=1,
        step=1,
        epoch=0,
        model="gemini:gemini-2.5-flash",
        settings=ModelSettings(temperature=0.5),
        context=PromptContext(agent_key="main", user_message=SECRET),
    )
    chat = decision_span(
        request,
        start_ns=1,
        end_ns=2,
        usage=Usage(input_tokens=3),
        cost=Cost(),
        prompt_digest="d",
        raw_digest="",
        response=model_response(model="gemini-2.5-flash-001", response_id="r1", finish_reason="MAX_TOKENS"),
    )
    execution_id = ids.execution_id(RUN_ID, 1, 0)
    asked = ToolRequest(
        execution_id=execution_id,
        run_id=RUN_ID,
        project="shop",
        network="support",
        snapshot_digest="d",
        agent_key="main",
        step=1,
        call_index=0,
        tool="orders.find",
        toolset="orders",
        args={"secret": SECRET},
        fence=1,
        deadline=BEGIN,
    )
    authorized = authorization_span(
        asked, start_ns=1, end_ns=2, verdict="allow", rule="r", policy_version=3, args_digest="a"
    )
    invocation = ToolInvocation(
        execution_id=execution_id,
        attempt=1,
        run_id=RUN_ID,
        project="shop",
        toolset="orders",
        tool="orders.find",
        args={"secret": SECRET},
        effect_class=EffectClass.PURE,
        timeout_ms=1,
        ticket=SECRET,
    )
    outcome = ToolOutcome(
        execution_id=execution_id, run_id=RUN_ID, attempt=1, tool="orders.find", status="succeeded", result=SECRET
    )
    executed = tool_span(invocation, outcome, start_ns=1, end_ns=2, agent_key="main")
    return chat, authorized, executed


def test_every_process_names_the_same_parents() -> None:
    chat, authorized, executed = recorded_at_once()
    known = {span.key for span in run_spans(RUN_ID, whole_run())}
    for span in (chat, authorized, executed):
        assert span.parent in known
        assert SECRET not in repr(span)
    assert (chat.name, chat.attributes["gen_ai.provider.name"]) == ("chat gemini-2.5-flash", "gcp.gemini")
    assert chat.attributes["towpath.cost.usd"] is None  # an unknown price is not 0
    assert executed.name == "execute_tool orders.find"
    assert span_id(RUN_ID, "step:1") == ids.span_id(RUN_ID, "step:1")


def test_models_agents_and_tools_are_told_by_the_names_of_the_conventions() -> None:
    chat, authorized, executed = recorded_at_once()
    asked_for = {name: chat.attributes[f"gen_ai.{name}"] for name in ("request.max_tokens", "request.temperature")}
    assert asked_for == {"request.max_tokens": 8_192, "request.temperature": 0.5}
    said = {name: chat.attributes[f"gen_ai.response.{name}"] for name in ("model", "id", "finish_reasons")}
    assert said == {"model": "gemini-2.5-flash-001", "id": "r1", "finish_reasons": ("length",)}
    for span in (authorized, executed):
        named = {name: span.attributes[f"gen_ai.{name}"] for name in ("agent.name", "tool.type", "conversation.id")}
        assert named == {"agent.name": "main", "tool.type": "function", "conversation.id": str(RUN_ID)}
    assert authorized.attributes["gen_ai.agent.id"] == "support/main"
    known_names = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    emitted = {
        name for span in (chat, authorized, executed, *run_spans(RUN_ID, whole_run())) for name in span.attributes
    }
    newer = {"gen_ai.agent.version", "gen_ai.usage.cache_write.input_tokens"}
    assert {name for name in emitted if name.startswith("gen_ai.")} <= known_names | newer

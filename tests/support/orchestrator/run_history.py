"""Runs as their events, for tests of the log-writer: what an orchestrator would have written."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.support.decider.decisions import RESPOND, USE_TOOL

from towpath_contracts.decisions.decision import CallToolsInstruction, FinishInstruction, ToolCall
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import AnyEvent, LogEntry, TransitionEvents
from towpath_contracts.ids import execution_id, request_id
from towpath_contracts.networks.goal import GoalTask
from towpath_contracts.tools.calls import Denial, ToolFailure

BEGIN = datetime(2026, 11, 1, 12, tzinfo=UTC)
USAGE = Usage(input_tokens=100, output_tokens=10, total_tokens=110, model_calls=1)
COST = Cost(usd=0.0005, price_known=True, price_source="list")


def created(**changes: Any) -> ev.RunCreated:
    """Return the first event of a run."""
    values: dict[str, Any] = {
        "project": "default",
        "caller": "ada",
        "network": "support",
        "version": 3,
        "snapshot_digest": "sha256:" + "1" * 64,
        "agent_key": "triage",
        "user_message": "Refund my order.",
        "max_steps": 10,
        "max_tool_errors": 8,
        "timeout_ms": 300_000,
        "step_timeout_ms": 60_000,
        "context_limit": 32_768,
        **changes,
    }
    return ev.RunCreated(**values)


def asked(run: UUID, step: int) -> ev.DecisionRequested:
    return ev.DecisionRequested(
        request_id=request_id(run, step, "decide", step - 1),
        step=step,
        epoch=0,
        agent_key="triage",
        model="scripted:task",
        input_preview="Refund my order.",
    )


def decided(run: UUID, step: int, decision: dict[str, Any], **changes: Any) -> ev.DecisionReceived:
    values: dict[str, Any] = {
        "request_id": request_id(run, step, "decide", step - 1),
        "step": step,
        "epoch": 0,
        "agent_key": "triage",
        "decision": decision,
        "model": "scripted:task",
        "usage": USAGE,
        "cost": COST,
        "duration_ms": 7,
        "prompt_digest": "sha256:p",
        "raw_digest": "sha256:r",
        **changes,
    }
    return ev.DecisionReceived(**values)


def postponed(run: UUID, step: int) -> ev.DecisionPostponed:
    """The first attempt at a step's request, whose provider asked for time."""
    return ev.DecisionPostponed(
        request_id=request_id(run, step, "decide", step - 1),
        step=step,
        agent_key="triage",
        attempt=1,
        until=BEGIN + timedelta(seconds=9),
        code="model_rate_limited",
        message="later",
        model="scripted:task",
        cost=Cost(usd=0.0, price_known=True),
    )


def calls(run: UUID, step: int, count: int = 1) -> ev.InstructionIssued:
    wanted = tuple(
        ToolCall(execution_id=execution_id(run, step, index), call_index=index, tool="crm.lookup", args={"n": index})
        for index in range(count)
    )
    return ev.InstructionIssued(step=step, epoch=0, agent_key="triage", instruction=CallToolsInstruction(calls=wanted))


def finished(run: UUID, step: int, index: int = 0, **changes: Any) -> ev.ToolCallFinished:
    values: dict[str, Any] = {
        "execution_id": execution_id(run, step, index),
        "step": step,
        "epoch": 0,
        "agent_key": "triage",
        "call_index": index,
        "tool": "crm.lookup",
        "status": "succeeded",
        "result": {"customer": f"ada-{step}"},
        "result_digest": "sha256:x",
        "result_bytes": 20,
        "duration_ms": 3,
        "worker": "worker-1",
        "policy_version": 5,
        **changes,
    }
    return ev.ToolCallFinished(**values)


def failed(run: UUID, step: int) -> ev.ToolCallFinished:
    failure = ToolFailure(code="tool_failed", message="no such customer")
    return finished(run, step, status="failed", result=None, failure=failure)


def denied(run: UUID, step: int, index: int = 0) -> ev.ToolCallDenied:
    return ev.ToolCallDenied(
        execution_id=execution_id(run, step, index),
        step=step,
        epoch=0,
        agent_key="triage",
        call_index=index,
        tool="crm.lookup",
        denial=Denial(violation_type="permission_denied", reason="no rule allows it"),
        policy_version=5,
    )


def ended(steps: int, **changes: Any) -> ev.RunFinished:
    values: dict[str, Any] = {
        "status": "completed",
        "reason": "responded",
        "final": {"message": "hello"},
        "steps": steps,
        "fence": 1,
        "usage": Usage(input_tokens=100 * steps, output_tokens=10 * steps, total_tokens=110 * steps, model_calls=steps),
        "cost": Cost(usd=0.0005 * steps, price_known=True, price_source="list"),
        **changes,
    }
    return ev.RunFinished(**values)


def whole_run(run: UUID, steps: int, project: str = "default") -> list[list[AnyEvent]]:
    """Return the transitions of a run: *steps*-1 tool calls, then the answer."""
    transitions: list[list[AnyEvent]] = [[created(project=project)], [ev.RunStarted(), asked(run, 1)]]
    for step in range(1, steps):
        transitions.append([decided(run, step, USE_TOOL), calls(run, step)])
        transitions.append([finished(run, step), asked(run, step + 1)])
    answer = ev.InstructionIssued(
        step=steps, epoch=0, agent_key="triage", instruction=FinishInstruction(payload={"message": "hello"})
    )
    transitions.append([decided(run, steps, RESPOND), answer, ended(steps)])
    return transitions


def goal_run(run: UUID) -> list[list[AnyEvent]]:
    """Return the transitions of a goal run: the first attempt fails, the second one is judged, and so it ends."""
    goal = GoalTask.model_validate(
        {
            "goal": "make the tests pass",
            "acceptance_criteria": [{"when": "tests.failed == 0"}, {"text": "the code is clear"}],
            "constraints": {"language": "python"},
        }
    )
    replan = request_id(run, 1, "replan", 1)
    again = ev.DecisionRequested(
        request_id=replan, step=1, epoch=0, agent_key="triage", model="scripted:task", kind="replan"
    )
    judging = request_id(run, 1, "validate", 2)
    judge = ev.DecisionRequested(
        request_id=judging, step=1, epoch=0, agent_key="triage", model="scripted:task", kind="validate"
    )
    made = {"artifacts": [{"name": "fix.py", "kind": "code", "size": 12}]}
    verdict = {"valid": True, "reason": "they pass", "criteria": []}
    return [
        [created(kind="goal", goal=goal, max_steps=20)],
        [ev.RunStarted(), asked(run, 1)],
        [decided(run, 1, USE_TOOL), calls(run, 1)],
        [failed(run, 1), again],
        [decided(run, 1, {**USE_TOOL, "action_reasoning": "Another way."}, request_id=replan, kind="replan")],
        [calls(run, 1), finished(run, 1, result=made), judge],
        [decided(run, 1, verdict, request_id=judging, kind="validate")],
        [
            ev.StepResultValidated(step=1, attempt=2, source="model", success=True, reason="they pass", criteria=(0,)),
            ev.ProgressMeasured(step=1, source="tests", score=0.5, metrics={"passed": 1, "total": 2}),
        ],
        [ev.GoalConfidenceMeasured(step=1, score=0.43, trigger="interval")],
        [gate(run)],
        [ended(1, status="escalated", reason="low_confidence", final={"status": "error", "message": "stopped"})],
    ]


def gate(run: UUID) -> ev.GateOpened:
    return ev.GateOpened(
        gate_id=request_id(run, 1, "gate", 0),
        gate_type="low_confidence",
        reason="Low confidence: 0.43",
        expires_at=BEGIN + timedelta(days=1),
    )


def messages(run: UUID, transitions: Sequence[Sequence[AnyEvent]], project: str = "default") -> list[TransitionEvents]:
    """Number the events and put each transition into its message, 10 ms after the one before."""
    told = []
    seq = 0
    for place, events in enumerate(transitions):
        at = BEGIN + timedelta(milliseconds=10 * place)
        entries = tuple(LogEntry(seq=seq + nth, at=at, event=event) for nth, event in enumerate(events, 1))
        seq += len(events)
        told.append(TransitionEvents(run_id=run, project=project, entries=entries))
    return told

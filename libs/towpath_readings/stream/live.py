"""A run as it happens, in the terms of a conversation: text, calls, results, steps, usage, status.

A projection of the log, so a stream has the retries and loop checks of every run, shows nothing that is taken back
later, and is the same however often it is read. Calls and texts come whole: a decision counts once it is valid.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, MessagePart, is_unset
from towpath_contracts.decisions.decision import CallToolsInstruction, FinishInstruction
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.text import as_text, unwrap_message
from towpath_contracts.tools.call_summaries import summary_of_gate

ACTIONS = frozenset({"decide", "replan"})
"""Kinds of model requests that begin a step, or another attempt at it; the others judge what was done."""


class RunStreamItem(MessagePart):
    """Base of the items of a run's stream: `step` counts from 1, `seq` is the log's, to go on after.

    Of a tree of runs, `run_id` is which one, and `path` names the child runs that lead to it from the top.
    """

    seq: int = 0
    step: int = 0
    run_id: UUID | None = Field(default=None, exclude_if=is_unset)
    path: tuple[str, ...] = Field(default=(), exclude_if=lambda path: not path)


class RunStreamAnswer(RunStreamItem):
    """The answer that the run ends with, as text: its message, or its JSON where it is no message."""

    type: Literal["text"] = "text"
    text: str


class RunStreamToolCall(RunStreamItem):
    """A call that the platform takes on, with the arguments that the model wrote."""

    type: Literal["tool_call"] = "tool_call"
    call_id: UUID
    tool: str
    arguments: JsonObject
    agent_key: str = ""


class RunStreamToolResult(RunStreamItem):
    """The outcome of a call; `error` is why there is no result."""

    type: Literal["tool_result"] = "tool_result"
    call_id: UUID
    tool: str
    success: bool
    result: Any = None
    error: str = ""
    duration_ms: int = 0


class RunStreamStepBoundary(RunStreamItem):
    """A step begins or ends."""

    type: Literal["step"] = "step"
    phase: Literal["started", "completed"]
    agent_key: str = ""


class RunStreamReasoning(RunStreamItem):
    """Why the model wants what it decided."""

    type: Literal["reasoning"] = "reasoning"
    text: str
    agent_key: str = ""


class RunStreamUsage(RunStreamItem):
    """What one request to a model cost, all of its attempts together."""

    type: Literal["usage"] = "usage"
    model: str = ""
    usage: Usage
    cost: Cost


class RunStreamGate(MessagePart):
    """What waits for a person: of a call its tool and arguments, and the `digest` by which a verdict is of that call.

    `summary` is the call in the words of its tool, where it has some.

    `verdicts` are those that it takes where they are not yes and no.
    """

    gate_id: UUID
    gate_type: str
    call_id: UUID | None = None
    tool: str = ""
    summary: str = Field(default="", exclude_if=lambda summary: not summary)
    arguments: JsonObject = Field(default_factory=dict)
    digest: str = ""
    rule: str = ""
    agent_key: str = ""
    verdicts: tuple[str, ...] = ()
    expires_at: datetime


class RunStreamStatus(RunStreamItem):
    """How the run stands: `error` for every end but completed and cancelled, with the reason as the platform words it.

    `waiting_for_person` is a `gate`, `waiting_for_tool` a call that has been taken on.
    """

    type: Literal["status"] = "status"
    status: Literal["starting", "running", "waiting_for_tool", "waiting_for_person", "completed", "cancelled", "error"]
    reason: str = ""
    gate: RunStreamGate | None = Field(default=None, exclude_if=is_unset)


class RunStreamError(RunStreamItem):
    """Something went wrong: the run goes on where it is `recoverable`, else it has ended so."""

    type: Literal["error"] = "error"
    code: str
    message: str
    recoverable: bool


class RunStreamDelta(RunStreamItem):
    """A piece of what a model is writing, before it was checked; it has no `seq` and is never sent again.

    Pieces of one `part` (and `call_index`) of a request and attempt follow each other. They end where the log has the
    answer: `text`, `reasoning` and `tool_call` then come whole. Of arguments the pieces are JSON text.
    """

    type: Literal["delta"] = "delta"
    part: Literal["reasoning", "text", "tool_call"]
    text: str
    request_id: UUID
    attempt: int
    agent_key: str = ""
    call_index: int = 0
    tool: str = ""


class RunStreamSuperseded(RunStreamItem):
    """Forget the pieces of this request and attempt: they are not what the model answers.

    `asked_again`: another call of the model began. `refused`: the answer can't be had, or is not followed as written.
    `ended`: the run ended without it. `interrupted`: the reader was cut off, and does not know how it went on.
    """

    type: Literal["superseded"] = "superseded"
    request_id: UUID
    attempt: int
    reason: Literal["asked_again", "refused", "ended", "interrupted"]


StreamEvent = Annotated[
    RunStreamAnswer
    | RunStreamToolCall
    | RunStreamToolResult
    | RunStreamStepBoundary
    | RunStreamReasoning
    | RunStreamUsage
    | RunStreamStatus
    | RunStreamError
    | RunStreamDelta
    | RunStreamSuperseded,
    Field(discriminator="type"),
]

EVENT_TYPES = frozenset({"text", "tool_call", "tool_result", "step", "reasoning", "usage", "status", "error"})
"""Types of events that a log is sent as; a stream that was asked for deltas has `delta` and `superseded` too."""

BRIEF = frozenset({"text", "tool_call"})
"""What is sent where no details are asked for, beside the error that ended the run."""


class LiveStream:
    """Turns the log of a run, read from its beginning, into the items of its stream.

    Without *detailed* only texts, calls and what ended the run are sent; *event_types* narrows further. The error that
    ended a run is always sent.
    """

    def __init__(self, *, detailed: bool = True, event_types: frozenset[str] | None = None) -> None:
        self._wanted = (EVENT_TYPES if detailed else BRIEF) & (EVENT_TYPES if event_types is None else event_types)
        self._step = 0
        self._agent = ""
        self._spent: RunStreamUsage | None = None
        self._answer = ""
        self._is_handed_over = False

    def wants(self, delta: "RunStreamDelta | RunStreamSuperseded") -> bool:
        """Return whether a piece of a model's text belongs to this stream; what is to be forgotten always does."""
        return isinstance(delta, RunStreamSuperseded) or delta.part in self._wanted

    def of(self, entry: ev.LogEntry) -> tuple[StreamEvent, ...]:
        """Return what *entry*, the next one of the log, adds to the stream."""
        made = (one.model_copy(update={"seq": entry.seq, "step": self._step}) for one in self._all(entry.event))
        return tuple(one for one in made if one.type in self._wanted or _ends(one))

    def _all(self, event: ev.Event) -> Iterator[StreamEvent]:
        match event:
            case ev.RunCreated() | ev.RunStarted():
                yield RunStreamStatus(status="starting" if isinstance(event, ev.RunCreated) else "running")
            case ev.DecisionRequested():
                yield from self._asked(event)
            case ev.DecisionReceived() | ev.DecisionRequestFailed() | ev.DecisionPostponed():
                yield from self._answered(event)
            case ev.InstructionIssued():
                yield from self._issued(event)
            case ev.DecisionRefused():
                yield from self._paid()
                yield RunStreamError(code=event.code, message=event.feedback, recoverable=True)
            case ev.ToolCallFinished() | ev.ToolCallDenied():
                yield _result(event)
            case ev.GateOpened() | ev.GateClosed():
                yield from _gate(event)
            case ev.SwarmHandoffRequested():
                self._answer, self._is_handed_over = "", True
            case ev.RunFinished():
                yield from self._finished(event)
            case _:
                return

    def _asked(self, event: ev.DecisionRequested) -> Iterator[StreamEvent]:
        yield from self._paid()
        if event.kind in ACTIONS:
            self._answer, self._is_handed_over = "", False  # what was answered before was not the end
        if event.kind not in ACTIONS or event.step == self._step:
            return
        yield from self._left()
        self._step, self._agent = event.step, event.agent_key
        yield RunStreamStepBoundary(phase="started", agent_key=event.agent_key)

    def _left(self) -> Iterator[StreamEvent]:
        if self._step:
            yield RunStreamStepBoundary(phase="completed", agent_key=self._agent)

    def _answered(
        self, event: "ev.DecisionReceived | ev.DecisionRequestFailed | ev.DecisionPostponed"
    ) -> Iterator[StreamEvent]:
        yield from self._paid()
        self._spent = RunStreamUsage(model=event.model, usage=event.usage, cost=event.cost)
        if isinstance(event, ev.DecisionRequestFailed | ev.DecisionPostponed):
            yield from self._paid()
            yield RunStreamError(code=event.code, message=event.message, recoverable=True)
        elif event.kind in ACTIONS and (why := str(event.decision.get("action_reasoning", "")).strip()):
            yield RunStreamReasoning(text=why, agent_key=event.agent_key)

    def _paid(self) -> Iterator[StreamEvent]:
        """Tell what the last answer cost, once: after the text that it brought, where it brought one."""
        spent, self._spent = self._spent, None
        if spent is not None:
            yield spent

    def _issued(self, event: ev.InstructionIssued) -> Iterator[StreamEvent]:
        match event.instruction:
            case CallToolsInstruction():
                yield from self._paid()
                for call in event.instruction.calls:
                    yield RunStreamToolCall(
                        call_id=call.execution_id,
                        tool=call.tool,
                        arguments=call.shown_args(),
                        agent_key=event.agent_key,
                    )
                yield RunStreamStatus(status="waiting_for_tool")
            case FinishInstruction():
                self._answer = answer_text(event.instruction.payload)  # it is sent once the run ends with it
            case _:
                yield from self._paid()

    def _finished(self, event: ev.RunFinished) -> Iterator[StreamEvent]:
        # An agent that decided nothing ends with what others answered.
        is_of_children = self._is_handed_over or not self._step
        answer = answer_text(event.final) if is_of_children and event.final else self._answer
        if answer and event.status == "completed":
            yield RunStreamAnswer(text=answer)
        yield from self._paid()
        if event.status in ("completed", "cancelled"):
            yield from self._left()
            yield RunStreamStatus(status=event.status, reason=event.reason)
            return
        message = str(event.final.get("message") or event.reason)
        yield RunStreamError(code=event.reason, message=message, recoverable=False)
        yield RunStreamStatus(status="error", reason=event.status)


def _gate(event: "ev.GateOpened | ev.GateClosed") -> Iterator[RunStreamStatus]:
    if isinstance(event, ev.GateClosed):
        yield RunStreamStatus(status="running", reason=event.verdict)
    elif not _is_decided(event):
        yield RunStreamStatus(status="waiting_for_person", reason=event.reason, gate=_opened(event))


def _is_decided(event: ev.GateOpened) -> bool:
    """Whether who edited the call has approved it with that, and nobody else has to: its gate closes at once."""
    return event.gate_type == "approval" and bool(event.detail.get("edited_by")) and "quorum" not in event.detail


def _opened(event: ev.GateOpened) -> RunStreamGate:
    return waiting_gate(event.gate_id, event.gate_type, event.detail, event.expires_at, event.execution_id)


def waiting_gate(
    gate_id: UUID, gate_type: str, known: JsonObject, expires_at: datetime, call_id: UUID | None = None
) -> RunStreamGate:
    """Return what is *known* of a gate, which may be that of a call."""
    return RunStreamGate(
        gate_id=gate_id,
        gate_type=gate_type,
        call_id=call_id,
        tool=known.get("tool", ""),
        summary=summary_of_gate(known),
        arguments=known.get("args", {}),
        digest=known.get("digest", ""),
        rule=known.get("rule") or "",
        agent_key=known.get("agent", ""),
        verdicts=known.get("verdicts", ()),
        expires_at=expires_at,
    )


def _ends(event: StreamEvent) -> bool:
    return isinstance(event, RunStreamError) and not event.recoverable


def _result(event: "ev.ToolCallFinished | ev.ToolCallDenied") -> RunStreamToolResult:
    call = {"call_id": event.execution_id, "tool": event.tool}
    if isinstance(event, ev.ToolCallDenied):
        return RunStreamToolResult(**call, success=False, error=f"{event.denial.violation_type}: {event.denial.reason}")
    failure = event.failure
    why: str = "" if event.status == "succeeded" else event.status
    if failure is not None:
        why = f"{failure.code}: {failure.message}"
    return RunStreamToolResult(
        **call, success=event.status == "succeeded", result=event.result, error=why, duration_ms=event.duration_ms
    )


def answer_text(payload: Any) -> str:
    """Return an answer as text: its message, or its JSON where it is no message."""
    return as_text(unwrap_message(payload))

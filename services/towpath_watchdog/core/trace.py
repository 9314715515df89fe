"""What the watchdog remembers of a run: its last acts, and what is needed to judge them.

Events come in order and each once; what is kept is bounded. A person's gate, a loop that the run machine has found
itself and a report of the watchdog begin a new window: the run gets the chance to act on them.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts.base import JsonObject, MessagePart
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.events import log as ev
from towpath_contracts.runs.raw_events import RawEntry
from towpath_watchdog.core.similarity import TEXT_CHARS, leaves

ACTIONS_KEPT = 18
"""Three turns of the longest cycle that is looked for."""

MAX_OPEN = 16
"""Gates and calls that a run can have open are fewer; a log that holds more is not believed."""


@dataclass(slots=True, kw_only=True)
class ObservedCall:
    """One call of an act. `result` is None until it is finished."""

    tool: str
    args: dict[str, str]
    result: str | None = None
    failed: bool = False
    external: bool = False


@dataclass(slots=True, kw_only=True)
class ObservedStep:
    """What a step did: its calls, or the handing over of control."""

    seq: int
    step: int
    calls: dict[int, ObservedCall]

    @property
    def done(self) -> bool:
        """Whether every call has its result."""
        return all(call.result is not None for call in self.calls.values())

    @property
    def failed(self) -> bool:
        """Whether every call failed."""
        return all(call.failed for call in self.calls.values())

    @property
    def external(self) -> bool:
        """Whether every call failed for a cause outside the run, which is no fault of what it does."""
        return all(call.external for call in self.calls.values())

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of the act, each once."""
        return tuple(sorted({call.tool for call in self.calls.values()}))

    @property
    def asked(self) -> str:
        """What the calls were asked for, as one text."""
        return "\n".join(text for index in sorted(self.calls) for text in self.calls[index].args.values())

    @property
    def result(self) -> str:
        """What the calls gave, in call order."""
        return "\n".join(self.calls[index].result or "" for index in sorted(self.calls))


@dataclass(slots=True, kw_only=True)
class WatchedRun:
    """What the watchdog knows of one run, to judge whether it makes progress.

    `score` is the best progress that was measured, `score_since` the event of the first measuring since it rose, and
    `scores` how many there were since then.
    """

    run_id: UUID
    project: str
    seq: int = 0
    window: int = 0
    step_timeout_ms: int | None = None
    actions: deque[ObservedStep] = field(default_factory=lambda: deque(maxlen=ACTIONS_KEPT))
    gates: set[UUID] = field(default_factory=set)
    score: float = -1.0
    score_since: int = 0
    scores: int = 0
    ended: bool = False

    def finished_actions(self) -> list[ObservedStep]:
        """Return the acts that are done, oldest first, without those that failed for a cause outside."""
        return [action for action in self.actions if action.done and not action.external]

    def begin_window(self) -> None:
        """Forget what was done so far: it was answered."""
        self.window = self.seq
        self.actions.clear()
        self.scores, self.score_since = 0, 0

    def observe(self, entry: RawEntry) -> None:
        """Take the next event; one of no interest, or that can't be read, only moves `seq`."""
        self.seq = entry.seq
        name = entry.event.get("type")
        model = _MODELS.get(name) if isinstance(name, str) else None
        if model is None:
            return
        try:
            event = model.model_validate(entry.event)
        except ValidationError:
            return  # the log-writer sets it aside; here it is one act that is not seen
        self._apply(event)

    def _apply(self, event: MessagePart) -> None:  # noqa: C901 - one table of events
        match event:
            case ev.RunCreated():
                self.step_timeout_ms = event.step_timeout_ms
            case ev.InstructionIssued():
                self._add_action(event)
            case ev.AgentTransferred():
                self._add_transfer(event)
            case ev.ToolCallFinished():
                self._finished(event)
            case ev.ToolCallDenied():
                self._set_result(event.call_index, event.step, f"denied: {event.denial.violation_type}", failed=True)
            case ev.ProgressMeasured():
                self._add_score(event.score)
            case ev.GateOpened():
                if len(self.gates) < MAX_OPEN:
                    self.gates.add(event.gate_id)
            case ev.GateClosed():
                self.gates.discard(event.gate_id)
                self.begin_window()
            case ev.LoopDetected() | ev.WatchdogReported():
                self.begin_window()
            case ev.RunFinished():
                self.ended = True
            case _:
                return

    def _add_action(self, event: ev.InstructionIssued) -> None:
        if isinstance(event.instruction, CallToolsInstruction):
            calls = {
                call.call_index: ObservedCall(tool=call.tool, args=leaves(call.args))
                for call in event.instruction.calls
            }
            self.actions.append(ObservedStep(seq=self.seq, step=event.step, calls=calls))

    def _add_transfer(self, event: ev.AgentTransferred) -> None:
        if event.forced:
            return
        context = "" if event.context is None else _text(event.context)
        call = ObservedCall(
            tool=f"to:{event.target}", args={"context": context[:TEXT_CHARS]}, result=context[:TEXT_CHARS]
        )
        self.actions.append(ObservedStep(seq=self.seq, step=event.step, calls={0: call}))

    def _finished(self, event: ev.ToolCallFinished) -> None:
        failure = event.failure
        failed = event.status != "succeeded"
        text = failure.message if failed and failure is not None else _text(event.result)
        if event.blob and event.result_digest:
            text = f"{event.result_digest} {text}"  # results that are not in the event differ by their digest
        external = failure is not None and failure.external
        self._set_result(event.call_index, event.step, text, failed=failed, external=external)

    def _set_result(self, index: int, step: int, text: str, *, failed: bool, external: bool = False) -> None:
        action = next((action for action in reversed(self.actions) if action.step == step), None)
        call = action.calls.get(index) if action is not None else None
        if call is not None:
            call.result, call.failed, call.external = text[:TEXT_CHARS], failed, external

    def _add_score(self, score: float) -> None:
        if score > self.score:
            self.score, self.scores, self.score_since = score, 0, 0
            self.actions.clear()
            self.window = self.seq
            return
        self.scores += 1
        self.score_since = self.score_since or self.seq


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return canonical_json(value)
    except (TypeError, ValueError):
        return str(value)


_MODELS: dict[str, type[MessagePart]] = {
    "run_created": ev.RunCreated,
    "instruction_issued": ev.InstructionIssued,
    "agent_transferred": ev.AgentTransferred,
    "tool_call_finished": ev.ToolCallFinished,
    "tool_call_denied": ev.ToolCallDenied,
    "progress_measured": ev.ProgressMeasured,
    "gate_opened": ev.GateOpened,
    "gate_closed": ev.GateClosed,
    "loop_detected": ev.LoopDetected,
    "watchdog_reported": ev.WatchdogReported,
    "run_finished": ev.RunFinished,
}
"""Every event that the watchdog looks at; all others only move its place in the log."""


def event_type(event: JsonObject) -> str:
    """Return the type of a raw event, empty where it has none."""
    name = event.get("type")
    return name if isinstance(name, str) else ""

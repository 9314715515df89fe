"""The execution log and the tool execution log of a run, projected from its events.

Shapes and truncations of entries are part of the API; full payloads live only in the tool log, keyed
by `execution_id`. A text of at most n characters is kept; a longer one keeps n-1 and one ellipsis.
"""

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.decision import CallToolsInstruction, Instruction, ToolCall
from towpath_contracts.events import log as ev
from towpath_contracts.text import as_text, truncate

INPUT_CHARS = 80
REASONING_CHARS = 120
DETAILS_CHARS = 120
REQUEST_CHARS = 50
RESPONSE_CHARS = 100


def agent_entry(event: "ev.DecisionReceived", input_preview: str) -> JsonObject:
    """Return the log entry of a decision."""
    decision = event.decision
    return {
        "type": "agent",
        "step": event.step,
        "epoch": event.epoch,
        "agent_key": event.agent_key,
        "input_preview": truncate(input_preview, INPUT_CHARS),
        "decision": {
            "action": str(decision.get("action", "")),
            "action_reasoning": truncate(str(decision.get("action_reasoning", "")), REASONING_CHARS),
            "action_details": truncate(as_text(decision.get("action_details", {})), DETAILS_CHARS),
        },
    }


def tool_entry(event: "ev.ToolCallFinished | ev.ToolCallDenied", args: JsonObject) -> JsonObject:
    """Return the log entry of a finished or denied call; *args* are those that a model may see."""
    return {
        "type": "tool",
        "step": event.step,
        "epoch": event.epoch,
        "agent_key": event.agent_key,
        "tool_key": event.tool,
        "execution_id": str(event.execution_id),
        "request_preview": truncate(canonical_json(args), REQUEST_CHARS),
        "response_preview": truncate(as_text(response_of(event)), RESPONSE_CHARS),
        "status": "ok" if call_status(event) == "succeeded" else "error",
        "duration_ms": event.duration_ms if isinstance(event, ev.ToolCallFinished) else 0,
    }


def call_status(event: "ev.ToolCallFinished | ev.ToolCallDenied") -> str:
    """Return succeeded, failed, unknown, void or denied."""
    return event.status if isinstance(event, ev.ToolCallFinished) else "denied"


def response_of(event: "ev.ToolCallFinished | ev.ToolCallDenied") -> Any:
    """Return what the call gave back, as a model reads it: its result, its failure, or its denial."""
    if isinstance(event, ev.ToolCallDenied):
        return {"status": "denied", **event.denial.model_view()}
    if event.status == "succeeded":
        return _stored_elsewhere(event) if event.blob else event.result
    if event.failure is not None:
        failure = event.failure.model_dump(mode="json", exclude_defaults=True, exclude={"began", "place"})
        given = {} if event.result is None else {"result": event.result}
        return {"status": event.status, **failure, **given}
    return {"status": event.status}


def _stored_elsewhere(event: "ev.ToolCallFinished") -> JsonObject:
    """Return what stands for a result in the blob store: its name, and how it begins and ends where that is known."""
    preview = event.preview
    shown = event.result if preview is None else preview.text
    return {"blob": event.result_digest, "preview": shown}


def note_text(event: "ev.NoteAdded | ev.NoteGiven") -> str:
    """Return what a model reads of a note: of the platform's, or of a person's."""
    return f"A person says: {event.text}" if isinstance(event, ev.NoteGiven) else event.text


def shown_instruction(instruction: Instruction) -> Instruction:
    """Return *instruction* with the arguments that a model may see: system parameters stay in the log."""
    if not isinstance(instruction, CallToolsInstruction):
        return instruction
    calls = tuple(call.model_copy(update={"args": call.shown_args()}) for call in instruction.calls)
    return instruction.model_copy(update={"calls": calls})


class RunLogView(Message):
    """What a run did, of any run at any time: its execution log, its instructions, and which calls have a payload."""

    run_id: UUID
    status: str
    instructions: tuple[JsonObject, ...]
    execution_log: tuple[JsonObject, ...]
    tool_refs: tuple[str, ...]


def run_log_view(run_id: UUID, status: str, log: "RunExecutionLogs") -> RunLogView:
    """Return what *log*, of a run of that status, says of it."""
    return RunLogView(
        run_id=run_id,
        status=status,
        instructions=tuple(log.instructions),
        execution_log=tuple(log.execution_log),
        tool_refs=tuple(log.tool_refs),
    )


class RunExecutionLogs(MessagePart):
    """The execution log and the tool execution log of one run, with its instructions."""

    execution_log: list[JsonObject] = Field(default_factory=list)
    tool_log: dict[str, JsonObject] = Field(default_factory=dict)
    tool_refs: list[str] = Field(default_factory=list)
    instructions: list[JsonObject] = Field(default_factory=list)


class ExecutionLogReader:
    """Walks the events once, in order. Payloads are kept of the calls *of* alone, where they are named."""

    def __init__(self, of: Collection[UUID] | None = None) -> None:
        """Nothing is known yet; without *of* the payload of every call is kept: they may be most of the log."""
        self.log = RunExecutionLogs()
        self._of = of
        self._previews: dict[str, str] = {}
        self._calls: dict[str, ToolCall] = {}
        self._places: list[tuple[int, int]] = []

    def take(self, entry: "ev.LogEntry") -> None:
        """Read one more event."""
        event = entry.event
        match event:
            case ev.DecisionRequested():
                self._previews[str(event.request_id)] = event.input_preview
            case ev.DecisionReceived():
                preview = self._previews.get(str(event.request_id), "")
                self.log.execution_log.append(agent_entry(event, preview))
            case ev.InstructionIssued():
                self._instruction(event)
            case ev.ToolCallEdited():
                key = str(event.execution_id)
                if key in self._calls:
                    self._calls[key] = self._calls[key].model_copy(update={"args": event.args})
            case ev.ToolCallFinished() | ev.ToolCallDenied():
                self._call(entry, event)
            case ev.NoteAdded() | ev.NoteGiven():
                self._system(event.step, note_text(event))
            case ev.DecisionRefused():
                self._system(event.step, event.feedback)
            case ev.DecisionRequestFailed():
                self._system(event.step, f"{event.code}: {event.message}")
            case _:
                return

    def _system(self, step: int, text: str) -> None:
        self.log.execution_log.append({"type": "system", "step": step, "text": truncate(text, REASONING_CHARS)})

    def _instruction(self, event: "ev.InstructionIssued") -> None:
        body = shown_instruction(event.instruction).model_dump(mode="json")
        self.log.instructions.append({"step": event.step, "agent_key": event.agent_key, **body})
        if isinstance(event.instruction, CallToolsInstruction):
            for call in event.instruction.calls:
                self._calls[str(call.execution_id)] = call

    def _finished_before_their_turn(self, step: int, call_index: int) -> int:
        """Count the calls of the same decision that come later but finished earlier."""
        behind = 0
        for place in reversed(self._places):
            if place[0] != step or place[1] < call_index:
                break
            behind += 1
        self._places.insert(len(self._places) - behind, (step, call_index))
        return behind

    def _call(self, entry: "ev.LogEntry", event: "ev.ToolCallFinished | ev.ToolCallDenied") -> None:
        key = str(event.execution_id)
        call = self._calls.get(key)
        args = call.args if call else {}
        behind = self._finished_before_their_turn(event.step, event.call_index)
        _insert(self.log.execution_log, behind, tool_entry(event, call.shown_args() if call else {}))
        _insert(self.log.tool_refs, behind, key)
        if self._of is not None and event.execution_id not in self._of:
            return
        self.log.tool_log[key] = {
            "agent_key": event.agent_key,
            "tool_key": event.tool,
            "merged_params": args,
            "result": response_of(event),
            "status": call_status(event),
            "duration_ms": event.duration_ms if isinstance(event, ev.ToolCallFinished) else 0,
            "timestamp": entry.at.isoformat(),
        }


def _insert(items: list[Any], behind: int, item: Any) -> None:
    """Put *item* before the last *behind* items."""
    items.insert(len(items) - behind, item)


def project_execution_log(entries: Iterable["ev.LogEntry"]) -> RunExecutionLogs:
    """Project the events of one run, given in seq order."""
    reader = ExecutionLogReader()
    for entry in entries:
        reader.take(entry)
    return reader.log

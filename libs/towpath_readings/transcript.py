"""A run as a conversation: system, history, user; calls and their results.

A message list is in the order [system, …history, user], and the history of a run holds its current turn: what was
asked and what was answered. Every result stands after the call that it belongs to, in the order of the calls.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.attachments import StoredAttachment
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.decisions.request import Usage
from towpath_contracts.events import log as ev
from towpath_contracts.text import as_text, unwrap_message
from towpath_readings.execution_log import note_text
from towpath_readings.nodes import merge_usage

DECIDING = frozenset({"decide", "replan"})
"""Kinds of requests whose answer is an action; all others are the platform's own questions."""


class MessageRole(StrEnum):
    """Who speaks in a message of the transcript; `platform` is Towpath itself, with feedback and notes."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    PLATFORM = "platform"


class ChatToolCall(MessagePart):
    """A tool call as its model wrote it; `call_id` is the execution id."""

    call_id: str
    tool: str
    arguments: JsonObject


class ChatMessage(MessagePart):
    """One message of a transcript. An assistant's may hold tool calls, a tool's answers one of them, a user's files."""

    role: MessageRole
    content: str = ""
    agent_key: str = ""
    step: int = 0
    tool_calls: tuple[ChatToolCall, ...] = ()
    call_id: str = ""
    status: str = ""
    attachments: tuple[StoredAttachment, ...] = Field(default=(), exclude_if=lambda attached: not attached)


class RunMessages(Message):
    """The conversation of a run. `dangling` are calls without a result, `waiting` those that are being worked on."""

    run_id: UUID
    messages: tuple[ChatMessage, ...]
    dangling: tuple[str, ...] = ()
    waiting: tuple[ChatToolCall, ...] = ()
    usage: Usage = Usage()
    seq: int = 0


def build_messages(instructions: str, history: Sequence[ChatMessage], user: str) -> tuple[ChatMessage, ...]:
    """Return [system, …history, user]; empty instructions are left out."""
    system = (ChatMessage(role=MessageRole.SYSTEM, content=instructions),) if instructions.strip() else ()
    return (*system, *history, ChatMessage(role=MessageRole.USER, content=user))


def dangling_calls(messages: Sequence[ChatMessage]) -> tuple[str, ...]:
    """Return the ids of the calls that have no result behind them, in order: most models refuse such a history."""
    open_calls: dict[str, None] = {}
    for message in messages:
        open_calls.update(dict.fromkeys(call.call_id for call in message.tool_calls))
        if message.role is MessageRole.TOOL:
            open_calls.pop(message.call_id, None)
    return tuple(open_calls)


def last_tool_calls(messages: Sequence[ChatMessage]) -> tuple[ChatToolCall, ...]:
    """Return the calls of the last assistant message; none where the user has spoken since."""
    for message in reversed(messages):
        if message.role is MessageRole.USER:
            return ()
        if message.role is MessageRole.ASSISTANT:
            return message.tool_calls
    return ()


def project_messages(run_id: UUID, entries: Iterable[ev.LogEntry]) -> RunMessages:
    """Return a run's conversation from its log, the current turn included."""
    talk = TranscriptReader(run_id)
    for entry in entries:
        talk.take(entry)
    return talk.view()


class TranscriptReader:
    """The conversation so far; results are kept apart, as texts, until their calls are known to be complete."""

    def __init__(self, run_id: UUID) -> None:
        """Nothing was said in *run_id* yet."""
        self._run_id = run_id
        self._seq = 0
        self._usages: list[Usage] = []
        self._said: list[ChatMessage] = []
        self._results: dict[str, ChatMessage] = {}
        self._assessments: set[UUID] = set()

    def view(self) -> RunMessages:
        """Return the conversation after the events so far."""
        messages = self._messages()
        dangling = dangling_calls(messages)
        return RunMessages(
            run_id=self._run_id,
            messages=messages,
            dangling=dangling,
            waiting=tuple(call for call in last_tool_calls(messages) if call.call_id in dangling),
            usage=merge_usage(self._usages),
            seq=self._seq,
        )

    def take(self, entry: ev.LogEntry) -> None:
        """Read one more event."""
        self._seq = entry.seq
        event = entry.event
        match event:
            case ev.RunCreated():
                self._begin(event)
            case ev.DecisionRequested(kind=kind) if kind not in DECIDING:
                self._assessments.add(event.request_id)  # what the platform asks for itself is no part of the talk
            case ev.DecisionReceived():
                self._usages.append(event.usage)
                if event.request_id not in self._assessments:
                    self._say(MessageRole.ASSISTANT, _text_of(event.decision), event.agent_key, event.step)
            case ev.DecisionRequestFailed() | ev.DecisionPostponed():
                self._usages.append(event.usage)
            case ev.InstructionIssued(instruction=CallToolsInstruction() as instruction):
                self._call(instruction)
            case ev.DecisionRefused():
                self._say(MessageRole.PLATFORM, event.feedback, event.agent_key, event.step)
            case ev.NoteAdded() | ev.NoteGiven():
                self._say(MessageRole.PLATFORM, note_text(event), step=event.step)
            case ev.ToolCallFinished() | ev.ToolCallDenied():
                self._answer(event)
            case _:
                pass

    def _begin(self, task: ev.RunCreated) -> None:
        for turn in task.messages:
            self._say(MessageRole(turn.role), turn.content, attachments=turn.attachments)
        self._say(MessageRole.USER, task.user_message, attachments=task.attachments)

    def _say(
        self,
        role: MessageRole,
        content: str,
        agent_key: str = "",
        step: int = 0,
        attachments: tuple[StoredAttachment, ...] = (),
    ) -> None:
        said = ChatMessage(role=role, content=content, agent_key=agent_key, step=step, attachments=attachments)
        self._said.append(said)

    def _call(self, instruction: CallToolsInstruction) -> None:
        calls = tuple(
            ChatToolCall(call_id=str(call.execution_id), tool=call.tool, arguments=call.shown_args())
            for call in instruction.calls
        )
        if self._said and self._said[-1].role is MessageRole.ASSISTANT:
            self._said[-1] = self._said[-1].model_copy(update={"tool_calls": calls})

    def _answer(self, event: ev.ToolCallFinished | ev.ToolCallDenied) -> None:
        content: object
        if isinstance(event, ev.ToolCallDenied):
            status, content = "denied", event.denial.model_view()
        else:
            status = event.status
            content = (
                event.result if event.failure is None else event.failure.model_dump(mode="json", exclude={"place"})
            )
        call_id = str(event.execution_id)
        self._results[call_id] = ChatMessage(
            role=MessageRole.TOOL,
            content=content if isinstance(content, str) else canonical_json(content),
            agent_key=event.agent_key,
            step=event.step,
            call_id=call_id,
            status=status,
        )

    def _messages(self) -> tuple[ChatMessage, ...]:
        """Return all of it, each result behind the message of its call and in the order of the calls."""
        ordered: list[ChatMessage] = []
        for message in self._said:
            ordered.append(message)
            ordered += [self._results[call.call_id] for call in message.tool_calls if call.call_id in self._results]
        return tuple(ordered)


def _text_of(decision: JsonObject) -> str:
    """Return the text of a decision: the reason of calls, the text or the payload of an answer, else all of it."""
    details = decision.get("action_details")
    if decision.get("action") == "USE_TOOL":
        return str(decision.get("action_reasoning") or "")
    if decision.get("action") != "RESPOND" or not isinstance(details, dict):
        return canonical_json(decision)
    return as_text(unwrap_message(details.get("payload")))

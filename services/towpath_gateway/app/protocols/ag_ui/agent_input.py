"""What an AG-UI client sends to run an agent, and the task or the words at gates that it is.

What the protocol may grow is passed over, as it asks for. The conversation comes whole with every run. Calls in it that
the platform carried out itself are left out: it knows them, and nobody else can vouch for what they returned. Context
and state of the application are texts of others: they are quoted, and count as said by nobody.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, ValidationError

from towpath_contracts.base import ClientMessagePart, JsonObject, MessagePart
from towpath_contracts.canonical import canonical_json
from towpath_contracts.problems.input_faults import MAX_LISTED, FaultList, list_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.errors import validation_problem
from towpath_gateway.app.gate_votes import GateWord
from towpath_gateway.app.protocols.openai.caller_tools import calls_text
from towpath_gateway.app.protocols.openai.conversation_items import ConversationItem, attached_file, fault, task_fields
from towpath_gateway.app.protocols.openai.request_fields import FUNCTION_NAME, TowpathOptions
from towpath_gateway.app.protocols.openai.run_tasks import ToolOffer
from towpath_gateway.core.own_values import OWN

THREAD_LABEL = "ag_ui_thread"
"""The label by which the runs of a conversation are found."""

MAX_ID_CHARS = 256

MAX_MESSAGES = 4_096
"""Messages of a conversation; those of calls that the platform carried out, and thoughts, are no turns of its task."""

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]

_INTERRUPT = re.compile(r"([0-9a-f-]{36}):(\d{1,15}):([0-9a-f-]{36})(?::([!-~]{1,128}))?")
_PLACES = {"network": "path/network", "user_message": "body/messages", "messages": "body/messages"}
_QUOTED = {"quoted_inputs": "body/context", "attachments": "body/messages"}


class PartSource(MessagePart):
    """Where a file is: in the request itself."""

    type: str
    value: str
    mime_type: str = Field(default="", alias="mimeType")


class InputPart(MessagePart):
    """A text or a file in a message."""

    type: Literal["text", "image", "audio", "video", "document"]
    text: str = ""
    source: PartSource | None = None


class CalledFunction(MessagePart):
    """A function that an earlier answer asked for; the arguments are JSON text."""

    name: str
    arguments: str = "{}"


class MessageToolCall(MessagePart):
    """A call in an earlier answer."""

    id: str
    function: CalledFunction


class AgUiMessage(MessagePart):
    """One message of the conversation; activities and reasoning are shown to people, and passed over here."""

    role: Literal["developer", "system", "assistant", "user", "tool", "activity", "reasoning"]
    content: str | tuple[InputPart, ...] | JsonObject | None = None
    tool_calls: tuple[MessageToolCall, ...] | None = Field(default=None, alias="toolCalls")
    tool_call_id: str = Field(default="", alias="toolCallId")


class ClientTool(MessagePart):
    """A tool that the application carries out itself."""

    name: str = Field(pattern=FUNCTION_NAME)
    description: str = Field(default="", max_length=4_096)
    parameters: JsonObject | None = None


class AppContext(MessagePart):
    """Something that the application tells of itself."""

    description: str
    value: str


class ForwardedProps(MessagePart):
    """Values that the application passes through; `towpath` are fields of a task, as POST /v1/runs takes them."""

    towpath: TowpathOptions = Field(default_factory=TowpathOptions)


class ResumePayload(ClientMessagePart):
    """An answer to a question: `verdict`, or `approved`; with `editedArgs` the call is approved with those."""

    verdict: Literal["approved", "denied", "happened", "did_not_happen", "retry", "stop"] | None = None
    approved: bool | None = None
    reason: str = Field(default="", max_length=2_000)
    edited_args: JsonObject | None = Field(default=None, alias="editedArgs")


class ResumeAnswer(MessagePart):
    """The answer to one interrupt; `resolved` without a payload says no word, and waits for somebody else's."""

    interrupt_id: str = Field(alias="interruptId", max_length=512)
    status: Literal["resolved", "cancelled"]
    payload: ResumePayload | bool | None = None


class RunAgentInput(MessagePart):
    """A request to run an agent, or to go on where one waits."""

    thread_id: Id = Field(alias="threadId")
    run_id: Id = Field(alias="runId")
    messages: tuple[AgUiMessage, ...] = Field(default=(), max_length=MAX_MESSAGES)
    tools: tuple[ClientTool, ...] | None = Field(default=None, max_length=128)
    context: tuple[AppContext, ...] | None = None
    state: Any = None
    forwarded_props: ForwardedProps | None = Field(default=None, alias="forwardedProps")
    resume: tuple[ResumeAnswer, ...] | None = Field(default=None, max_length=64)

    def offer(self) -> ToolOffer:
        """Return the tools of the application."""
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters or _NOTHING}
            for tool in self.tools or ()
        ]
        return ToolOffer(tools=tools)

    def task(self, network: str) -> SubmitTask:
        """Return the task; raises ProblemError with all that is wrong. Sent again it is the same run."""
        offer = self.offer()
        items, faults = self._items()
        said, wrong = task_fields(items, continues=False)
        faults = [*faults, *wrong, *offer.faults()]
        given: JsonObject = {"network": network, **(self.forwarded_props or ForwardedProps()).towpath.given(), **said}
        given["quoted_inputs"] = {**said.get("quoted_inputs", {}), **dict(self._quoted())}
        given["labels"] = {THREAD_LABEL: self.thread_id}
        given["idempotency_key"] = "ag-ui-" + hashlib.sha256(f"{self.thread_id}\n{self.run_id}".encode()).hexdigest()
        if not faults:
            try:
                if (schema := offer.schema(None)) is not None:
                    given["response_schema"] = schema
                return SubmitTask.model_validate(given)
            except ValidationError as error:
                faults = [_placed(one) for one in list_faults(error).details]
        raise ProblemError(validation_problem(FaultList(tuple(faults[:MAX_LISTED]), len(faults))))

    def _quoted(self) -> Iterator[tuple[str, str]]:
        for number, one in enumerate(self.context or (), 1):
            yield f"context_{number}", f"{one.description}:\n{one.value}"
        own = {k: v for k, v in self.state.items() if k != OWN} if isinstance(self.state, dict) else self.state
        if own not in (None, {}, [], ""):
            yield "state", own if isinstance(own, str) else canonical_json(own)

    def _items(self) -> tuple[list[ConversationItem], list[ProblemDetail]]:
        offered = {tool.name for tool in self.tools or ()}
        names = {call.id: call.function.name for one in self.messages for call in one.tool_calls or ()}
        asked = {name: function for name, function in names.items() if function in offered}
        items: list[ConversationItem] = []
        faults: list[ProblemDetail] = []
        for number, message in enumerate(self.messages):
            for found in _said(message, f"/messages/{number}", asked):
                if isinstance(found, ConversationItem):
                    items.append(found)
                else:
                    faults.append(found)
        return items, faults


_NOTHING: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptAnswer:
    """The word at the gate of an interrupt, and the run that waits, whose events up to *seq* the client has."""

    run_id: UUID
    seq: int
    word: GateWord


CANCELLED = "The question was cancelled where it was asked."


def gate_answers(resume: tuple[ResumeAnswer, ...]) -> list[InterruptAnswer]:
    """Return the words that *resume* says, all of one run; raises ProblemError."""
    found = [_answer(one, number) for number, one in enumerate(resume)]
    if len({one.run_id for one in found}) > 1:
        raise ProblemError(problem("request_invalid", "the interrupts are of several runs: answer those of one"))
    return found


def _answer(given: ResumeAnswer, number: int) -> InterruptAnswer:
    where = _waiting_gate(given.interrupt_id)
    if where is None:
        detail = f"/body/resume/{number}/interruptId is not the id of an interrupt of this platform"
        raise ProblemError(problem("request_invalid", detail))
    if given.status == "cancelled":
        return _saying(where, verdict="denied", reason=CANCELLED)
    payload = ResumePayload(approved=given.payload) if isinstance(given.payload, bool) else given.payload
    if payload is None:
        return where
    verdict = payload.verdict or {None: "", True: "approved", False: "denied"}[payload.approved]
    if payload.edited_args is not None and verdict not in ("", "approved"):
        raise ProblemError(problem("request_invalid", "editedArgs approve a call: leave them out of another verdict"))
    return _saying(where, verdict=verdict, reason=payload.reason, args=payload.edited_args)


def _saying(answer: InterruptAnswer, **said: Any) -> InterruptAnswer:
    return replace(answer, word=replace(answer.word, **said))


def _waiting_gate(interrupt: str) -> InterruptAnswer | None:
    """Return the gate that an interrupt is of, without a word; None where it is no interrupt of ours."""
    named = _INTERRUPT.fullmatch(interrupt)
    if named is None:
        return None
    try:
        word = GateWord(gate_id=UUID(named[3]), digest=named[4])
        return InterruptAnswer(run_id=UUID(named[1]), seq=int(named[2]), word=word)
    except ValueError:
        return None


def _said(message: AgUiMessage, pointer: str, asked: Mapping[str, str]) -> Iterator[ConversationItem | ProblemDetail]:
    text, files = _content(message.content, pointer)
    yield from (file for file in files if isinstance(file, ProblemDetail))
    match message.role:
        case "user":
            whole = tuple(file for file in files if not isinstance(file, ProblemDetail))
            yield ConversationItem(kind="user", text=text, pointer=pointer, files=whole)
        case "assistant":
            calls = [call for call in message.tool_calls or () if call.id in asked]
            if calls:
                shown = calls_text([{"name": one.function.name, "arguments": one.function.arguments} for one in calls])
                yield ConversationItem(kind="calls", text=shown, pointer=pointer)
            if text:
                yield ConversationItem(kind="assistant", text=text, pointer=pointer)
        case "tool" if message.tool_call_id in asked:
            name = asked[message.tool_call_id]
            yield ConversationItem(kind="result", text=text, pointer=pointer, call_id=message.tool_call_id, name=name)
        case "system" | "developer":
            yield ConversationItem(kind="instructions", text=text, pointer=pointer)
        case _:
            return


def _content(content: Any, pointer: str) -> tuple[str, list[JsonObject | ProblemDetail]]:
    if not isinstance(content, tuple):
        return content if isinstance(content, str) else "", []
    files: list[JsonObject | ProblemDetail] = []
    for number, part in enumerate(content):
        if part.type == "text":
            continue
        where = f"{pointer}/content/{number}/source"
        source = part.source
        if part.type not in ("image", "document") or source is None or source.type == "file":
            files.append(fault(where, "images and documents are taken, with their bytes"))
            continue
        value = f"data:{source.mime_type};base64,{source.value}" if source.type == "data" else source.value
        files.append(attached_file(value, f"{part.type}-{number + 1}", where))
    return "\n\n".join(part.text for part in content if part.type == "text"), files


def _placed(found: ProblemDetail) -> ProblemDetail:
    """Return a fault of the task as one of the request."""
    first, _, rest = found.pointer.removeprefix("/").partition("/")
    place = {**_PLACES, **_QUOTED}.get(first, f"body/forwardedProps/towpath/{first}")
    return found.model_copy(update={"pointer": "/".join(("", place, *([rest] if rest else [])))})

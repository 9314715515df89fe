"""The body of POST /v1/responses, and the task that it is."""

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.protocols.openai import request_fields as rf
from towpath_gateway.app.protocols.openai.caller_tools import calls_text
from towpath_gateway.app.protocols.openai.chat_requests import wanted_call
from towpath_gateway.app.protocols.openai.conversation_items import (
    MAX_ITEMS,
    ConversationItem,
    attached_file,
    fault,
)
from towpath_gateway.app.protocols.openai.run_tasks import ToolOffer, response_run, run_task


class InputTextPart(BaseModel):
    """A text of an input or of an earlier answer."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    type: Literal["input_text", "output_text"]
    text: str


class InputImagePart(ClientMessagePart):
    """An image of an input."""

    type: Literal["input_image"]
    image_url: str | None = None
    detail: rf.Ignored = None


class InputFilePart(ClientMessagePart):
    """A document of an input."""

    type: Literal["input_file"]
    file_data: str | None = None
    filename: str = "file"


InputPart = Annotated[InputTextPart | InputImagePart | InputFilePart, Field(discriminator="type")]
InputContent = str | tuple[InputPart, ...]


class InputMessage(BaseModel):
    """What somebody said; an answer may come back as it was given, and whatever else it has is passed over."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: InputContent


class InputCall(BaseModel):
    """A call that an earlier answer asked for."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    type: Literal["function_call"]
    call_id: str
    name: str = Field(pattern=rf.FUNCTION_NAME)
    arguments: str = "{}"


class InputResult(BaseModel):
    """What such a call returned."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    type: Literal["function_call_output"]
    call_id: str
    output: InputContent


def _kind(item: Any) -> str:
    kind = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", "message")
    return str(kind)


InputItem = Annotated[
    Annotated[InputMessage, Tag("message")]
    | Annotated[InputCall, Tag("function_call")]
    | Annotated[InputResult, Tag("function_call_output")],
    Discriminator(_kind),
]


class ResponseTool(rf.FunctionTool):
    """A tool of the caller."""

    type: Literal["function"]


class ResponseToolChoice(ClientMessagePart):
    """That the answer asks for one function."""

    type: Literal["function"]
    name: str


class ResponseSchemaFormat(rf.SchemaFormat):
    """That the answer satisfies a JSON Schema."""

    type: Literal["json_schema"]


class ResponseText(ClientMessagePart):
    """The form of the answer."""

    format: Annotated[ResponseSchemaFormat | rf.PlainFormat, Field(discriminator="type")] | None = None
    verbosity: rf.UsualLength = None


class ResponseReasoning(ClientMessagePart):
    """How much a model may think."""

    effort: str | None = None
    summary: rf.Ignored = None
    generate_summary: rf.Ignored = None


class ResponseRequest(rf.SamplingRequest):
    """A message, or a conversation, or what is new since an earlier response."""

    input: str | Annotated[tuple[InputItem, ...], Field(max_length=MAX_ITEMS)] = Field(min_length=1)
    instructions: str | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    max_output_tokens: int | None = None
    reasoning: ResponseReasoning | None = None
    text: ResponseText | None = None
    tools: tuple[ResponseTool, ...] = Field(default=(), max_length=64)
    tool_choice: Literal["none", "auto", "required"] | ResponseToolChoice | None = None
    stream_options: rf.Ignored = None
    include: rf.NothingBeside = None
    truncation: rf.Ignored = None
    top_logprobs: rf.NoLogprobs = None
    conversation: rf.ByPreviousResponse = None
    prompt: rf.NotHere = None
    max_tool_calls: rf.ByBudget = None

    def task(self) -> SubmitTask:
        """Return the task; raises ProblemError with all that is wrong."""
        items, faults = _items(self.input)
        if self.instructions:
            items.insert(0, ConversationItem(kind="instructions", text=self.instructions, pointer="/instructions"))
        continues = None
        if self.previous_response_id is not None:
            continues = response_run(self.previous_response_id)
            if continues is None:
                faults.append(fault("/previous_response_id", "this is not the id of a response"))
        chosen = self.tool_choice
        offer = ToolOffer(
            tools=[tool.described() for tool in self.tools],
            choice=chosen if isinstance(chosen, str) else "auto",
            only=chosen.name if isinstance(chosen, ResponseToolChoice) else "",
            one=self.parallel_tool_calls is False,
        )
        settings = {
            "max_output_tokens": self.max_output_tokens,
            "reasoning_effort": None if self.reasoning is None else self.reasoning.effort,
        }
        wanted = rf.wanted_schema(None if self.text is None else self.text.format)
        return run_task(self, items, faults, settings, offer, wanted, continues=continues)


def _items(given: str | tuple[Any, ...]) -> tuple[list[ConversationItem], list[ProblemDetail]]:
    if isinstance(given, str):
        return [ConversationItem(kind="user", text=given, pointer="/input")], []
    found: list[ConversationItem] = []
    faults: list[ProblemDetail] = []
    names = {item.call_id: item.name for item in given if isinstance(item, InputCall)}
    for number, item in _together(given):
        for part in _of_item(item, f"/input/{number}", names):
            if isinstance(part, ConversationItem):
                found.append(part)
            else:
                faults.append(part)
    return found, faults


def _together(given: tuple[Any, ...]) -> Iterator[tuple[int, Any]]:
    """Yield the items and where they stand, and calls that follow each other, which one answer asked for, as a list."""
    for are_calls, items in groupby(enumerate(given), lambda one: isinstance(one[1], InputCall)):
        if are_calls:
            (place, first), *others = items
            yield place, [first, *(item for _, item in others)]
        else:
            yield from items


def _of_item(item: Any, pointer: str, names: dict[str, str]) -> Iterator[ConversationItem | ProblemDetail]:
    if isinstance(item, list):
        asked = calls_text([wanted_call(one.name, one.arguments) for one in item])
        yield ConversationItem(kind="calls", text=asked, pointer=pointer)
        return
    content = item.output if isinstance(item, InputResult) else item.content
    text, files = _content(content, pointer)
    yield from (file for file in files if isinstance(file, ProblemDetail))
    whole = tuple(file for file in files if not isinstance(file, ProblemDetail))
    if whole and (isinstance(item, InputResult) or item.role != "user"):
        yield fault(pointer, "only a message of the user has files")
    if isinstance(item, InputResult):
        name = names.get(item.call_id, "")
        yield ConversationItem(kind="result", text=text, pointer=pointer, call_id=item.call_id, name=name)
    elif item.role == "user":
        yield ConversationItem(kind="user", text=text, pointer=pointer, files=whole)
    elif item.role == "assistant":
        yield ConversationItem(kind="assistant", text=text, pointer=pointer)
    else:
        yield ConversationItem(kind="instructions", text=text, pointer=pointer)


def _content(content: Any, pointer: str) -> tuple[str, list[JsonObject | ProblemDetail]]:
    if isinstance(content, str):
        return content, []
    texts = [part.text for part in content if isinstance(part, InputTextPart)]
    files = []
    for number, part in enumerate(content):
        where = f"{pointer}/content/{number}"
        if isinstance(part, InputImagePart):
            files.append(attached_file(part.image_url, f"image-{number + 1}", f"{where}/image_url"))
        elif isinstance(part, InputFilePart):
            files.append(attached_file(part.file_data, part.filename, f"{where}/file_data"))
    return "\n\n".join(texts), files

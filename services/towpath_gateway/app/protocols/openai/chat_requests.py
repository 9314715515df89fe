"""The body of POST /v1/chat/completions, and the task that it is."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.strict_json import NotStrictJsonError, read_bounded
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.protocols.openai import request_fields as rf
from towpath_gateway.app.protocols.openai.caller_tools import calls_text
from towpath_gateway.app.protocols.openai.conversation_items import (
    MAX_ITEMS,
    ConversationItem,
    attached_file,
    fault,
)
from towpath_gateway.app.protocols.openai.run_tasks import ToolOffer, run_task


class ChatTextPart(ClientMessagePart):
    """A text in a message."""

    type: Literal["text", "refusal"]
    text: str = ""
    refusal: str = ""


class ImageAddress(ClientMessagePart):
    """Where the image is: in the address itself."""

    url: str
    detail: rf.Ignored = None


class ChatImagePart(ClientMessagePart):
    """An image in a message."""

    type: Literal["image_url"]
    image_url: ImageAddress


class ChatFile(ClientMessagePart):
    """A file with its bytes."""

    file_data: str
    filename: str = "file"


class ChatFilePart(ClientMessagePart):
    """A document in a message."""

    type: Literal["file"]
    file: ChatFile


ChatPart = Annotated[ChatTextPart | ChatImagePart | ChatFilePart, Field(discriminator="type")]
ChatContent = str | tuple[ChatPart, ...]


class InstructionMessage(ClientMessagePart):
    """What the program that asks wants for all answers; the network's agents have their own instructions before it."""

    role: Literal["system", "developer"]
    content: ChatContent
    name: rf.Ignored = None


class UserMessage(ClientMessagePart):
    """What the user said."""

    role: Literal["user"]
    content: ChatContent
    name: rf.Ignored = None


class WantedFunction(BaseModel):
    """A function that an earlier answer asked for, and its arguments as JSON text."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    name: str = Field(pattern=rf.FUNCTION_NAME)
    arguments: str = "{}"


class WantedCall(BaseModel):
    """A call that an earlier answer asked for."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    id: str
    type: Literal["function"] = "function"
    function: WantedFunction


class AssistantMessage(BaseModel):
    """An earlier answer, as it was given: whatever else it has is passed over."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    role: Literal["assistant"]
    content: ChatContent | None = None
    tool_calls: tuple[WantedCall, ...] | None = None


class ToolMessage(ClientMessagePart):
    """What a call returned that an earlier answer asked for."""

    role: Literal["tool"]
    content: ChatContent
    tool_call_id: str
    name: rf.Ignored = None


ChatMessage = Annotated[InstructionMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class ChatTool(ClientMessagePart):
    """A tool of the caller."""

    type: Literal["function"]
    function: rf.FunctionTool


class ChosenFunction(ClientMessagePart):
    """The function that is to be asked for."""

    name: str


class ChatToolChoice(ClientMessagePart):
    """That the answer asks for one function."""

    type: Literal["function"]
    function: ChosenFunction


class ChatSchemaFormat(ClientMessagePart):
    """That the answer satisfies a JSON Schema."""

    type: Literal["json_schema"]
    json_schema: rf.SchemaFormat


class ChatStreamOptions(ClientMessagePart):
    """What a stream tells beside the answer."""

    include_usage: bool = False
    include_obfuscation: rf.Ignored = None


class ChatRequest(rf.SamplingRequest):
    """A conversation, whose last message the network answers."""

    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=MAX_ITEMS)
    stream_options: ChatStreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    stop: str | tuple[str, ...] | None = None
    reasoning_effort: str | None = None
    tools: tuple[ChatTool, ...] = Field(default=(), max_length=64)
    tool_choice: Literal["none", "auto", "required"] | ChatToolChoice | None = None
    response_format: Annotated[ChatSchemaFormat | rf.PlainFormat, Field(discriminator="type")] | None = None
    n: rf.OneAnswer = None
    logprobs: rf.NoLogprobs = None
    top_logprobs: rf.NoLogprobs = None
    logit_bias: rf.NoBias = None
    presence_penalty: rf.NoPenalty = None
    frequency_penalty: rf.NoPenalty = None
    modalities: rf.TextAlone = None
    audio: rf.NotHere = None
    prediction: rf.NotHere = None
    web_search_options: rf.NotHere = None
    functions: rf.UseTools = None
    function_call: rf.UseTools = None
    verbosity: rf.UsualLength = None

    def task(self) -> SubmitTask:
        """Return the task; raises ProblemError with all that is wrong."""
        items, faults = _items(self.messages)
        chosen = self.tool_choice
        offer = ToolOffer(
            tools=[tool.function.described() for tool in self.tools],
            choice=chosen if isinstance(chosen, str) else "auto",
            only=chosen.function.name if isinstance(chosen, ChatToolChoice) else "",
            one=self.parallel_tool_calls is False,
        )
        settings = {
            "max_output_tokens": self.max_completion_tokens or self.max_tokens,
            "seed": self.seed,
            "stop": (self.stop,) if isinstance(self.stop, str) else self.stop,
            "reasoning_effort": self.reasoning_effort,
        }
        form = self.response_format
        wanted = rf.wanted_schema(form.json_schema if isinstance(form, ChatSchemaFormat) else form)
        return run_task(self, items, faults, settings, offer, wanted)


def _items(messages: tuple[Any, ...]) -> tuple[list[ConversationItem], list[ProblemDetail]]:
    found: list[ConversationItem] = []
    faults: list[ProblemDetail] = []
    names: dict[str, str] = {}
    for number, message in enumerate(messages):
        for part in _of_message(message, f"/messages/{number}", names):
            if isinstance(part, ConversationItem):
                found.append(part)
            else:
                faults.append(part)
    return found, faults


def _of_message(message: Any, pointer: str, names: dict[str, str]) -> Iterator[ConversationItem | ProblemDetail]:
    text, files = _content(message.content, f"{pointer}/content")
    yield from (file for file in files if isinstance(file, ProblemDetail))
    whole = tuple(file for file in files if not isinstance(file, ProblemDetail))
    if whole and not isinstance(message, UserMessage):
        yield fault(f"{pointer}/content", "only a message of the user has files")
    match message:
        case InstructionMessage():
            yield ConversationItem(kind="instructions", text=text, pointer=pointer)
        case UserMessage():
            yield ConversationItem(kind="user", text=text, pointer=pointer, files=whole)
        case ToolMessage():
            called = message.tool_call_id
            if called not in names:
                yield fault(f"{pointer}/tool_call_id", "no message before it asks for this call")
            yield ConversationItem(
                kind="result", text=text, pointer=pointer, call_id=called, name=names.get(called, "")
            )
        case AssistantMessage():
            if text:
                yield ConversationItem(kind="assistant", text=text, pointer=pointer)
            if message.tool_calls:
                names.update({one.id: one.function.name for one in message.tool_calls})
                calls = [wanted_call(one.function.name, one.function.arguments) for one in message.tool_calls]
                yield ConversationItem(kind="calls", text=calls_text(calls), pointer=pointer)
        case _:
            return


def wanted_call(name: str, arguments: str) -> JsonObject:
    """Return a call of an earlier answer; *arguments* that are no JSON stay a text."""
    try:
        return {"name": name, "arguments": read_bounded(arguments.encode())}
    except NotStrictJsonError:
        return {"name": name, "arguments": arguments}


def _content(content: Any, pointer: str) -> tuple[str, list[JsonObject | ProblemDetail]]:
    if content is None or isinstance(content, str):
        return content or "", []
    texts = [part.text or part.refusal for part in content if isinstance(part, ChatTextPart)]
    files = []
    for number, part in enumerate(content):
        if isinstance(part, ChatImagePart):
            files.append(attached_file(part.image_url.url, f"image-{number + 1}", f"{pointer}/{number}/image_url/url"))
        elif isinstance(part, ChatFilePart):
            where = f"{pointer}/{number}/file/file_data"
            files.append(attached_file(part.file.file_data, part.file.filename, where))
    return "\n\n".join(texts), files

"""`openai:` and `local:`: chat completions of OpenAI, or of any server that speaks the same.

One question is one HTTP request, unless the server refuses an option that only helps. `local:` needs no key, goes
past every proxy, and costs nothing; what another server costs is known only by its model's name.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr
from pydantic_core import to_json

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.attachments import PDF, StoredAttachment
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_decider.adapters.model_options import (
    EFFORT,
    OFFERED_TOOLS,
    SET_EFFORT,
    SETTINGS,
    TOOLS,
    DroppableOption,
    chosen,
)
from towpath_decider.adapters.model_prices import cached_part, price
from towpath_decider.adapters.provider import OnText, http_client_options, model_name
from towpath_decider.adapters.provider_failures import ONE_CALL, how_to_set
from towpath_decider.adapters.sdk_provider import SdkProvider, response_of
from towpath_decider.adapters.stream_assembly import STREAM, STREAM_OPTIONS, STREAMING, assemble_stream, read_unstreamed
from towpath_decider.core.answer_schema import schema_of, without_order
from towpath_decider.core.attached_files import file_name
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.native_tool_calls import (
    NativeCall,
    native_names,
    native_tools,
    parameters_of,
    read_written,
    sent_name,
)
from towpath_decider.core.turns import ConversationTurn
from towpath_decider.core.usage import reported_usage
from towpath_fabric.telemetry.logs import Logger

OPENAI_URL = "https://api.openai.com/v1"
LOCAL = Cost(usd=0.0, price_known=True, price_source="local")
"""A model on one's own machine: nobody is paid by the token."""

NO_KEY = "not-needed"
"""The SDK insists on a key; servers without keys ignore it."""

SCHEMA_NAME = "answer"

_ROLES = {"user": "user", "model": "assistant"}

_MAX_TOKENS = re.compile(r"max_(completion_)?tokens", re.IGNORECASE)
_TOO_LARGE = re.compile(r"max_(completion_)?tokens\W.{0,60}too large", re.IGNORECASE | re.DOTALL)
_FORMAT = re.compile(r"response_format|json_schema|json mode|schema|grammar", re.IGNORECASE)
_REASONING = re.compile(r"reasoning|thinking", re.IGNORECASE)
_TEMPLATE = re.compile(r"chat_template_kwargs|enable_thinking|thinking", re.IGNORECASE)
_NEVER_REASONS = re.compile(r"^(gpt-3|gpt-4|chatgpt)")
_THOUGHTS = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)

_EFFORTS = ("none", "minimal", "low")
"""How little a model can be asked to think, least first: not every model takes every word."""

_COMMON = (
    DroppableOption(name=STREAM_OPTIONS, named=re.compile(r"stream_options|include_usage", re.IGNORECASE)),
    STREAMING,
    DroppableOption(name="max_tokens", named=_TOO_LARGE, lasting=False),
    DroppableOption(name="limit_word", named=_MAX_TOKENS),
    OFFERED_TOOLS,
    DroppableOption(name="json_schema", named=_FORMAT),
    DroppableOption(name="json_object", named=_FORMAT),
    *SETTINGS,
    SET_EFFORT,
)
_OPENAI_OPTIONS = (*_COMMON, *(DroppableOption(name=f"effort_{effort}", named=_REASONING) for effort in _EFFORTS))
_LOCAL_OPTIONS = (
    *_COMMON,
    DroppableOption(name="chat_template", named=_TEMPLATE),
    DroppableOption(name="effort_none", named=_REASONING),
)


class OpenAiProvider(SdkProvider):
    """Asks in JSON mode, with the answer's schema and thinking off."""

    def __init__(
        self,
        *,
        api_key: SecretStr | None,
        base_url: str | None = None,
        local: bool = False,
        log: Logger | None = None,
        tool_switches: Mapping[str, bool] | None = None,
    ) -> None:
        """*base_url* ends before `/chat/completions`, usually in `/v1`; a *local* server has no other address."""
        options = _LOCAL_OPTIONS if local else _OPENAI_OPTIONS
        name = "the local server" if local else "OpenAI"
        key_name = "TOWPATH_LOCAL_API_KEY" if local else "OPENAI_API_KEY"
        super().__init__(
            name=name,
            module="openai",
            api_key=api_key,
            key_name=key_name,
            options=options,
            log=log,
            tool_switches=tool_switches or {},
            tools_by_default=not local and base_url is None,
        )
        self._base_url = base_url
        self._local = local

    @property
    def missing(self) -> str:
        """What has to be set before anything can be asked."""
        if self._local:
            return "" if self._base_url else f"no local server: {how_to_set('TOWPATH_LOCAL_URL')}"
        return "" if self._api_key else f"no key for OpenAI: {how_to_set('OPENAI_API_KEY')}"

    def _connect(self, sdk: Any) -> Any:
        options = http_client_options()
        headers: dict[str, Any] = {}
        if self._local:
            options["trust_env"] = False  # a proxy can't reach this machine's own addresses
            headers = {"OpenAI-Organization": sdk.Omit(), "OpenAI-Project": sdk.Omit()}
        return sdk.AsyncOpenAI(
            api_key=self._api_key.get_secret_value() if self._api_key is not None else NO_KEY,
            base_url=self._base_url or OPENAI_URL,
            max_retries=0,
            default_headers=headers,
            http_client=sdk.DefaultAsyncHttpxClient(**options),
        )

    async def _send(
        self,
        request: DecisionRequest,
        question: ModelQuestion,
        off: frozenset[str],
        timeout_s: float,
        on_text: OnText | None,
    ) -> Any:
        body = {
            "model": model_name(request.model),
            "messages": messages_of(question, None if TOOLS in off else native_names(request)),
            **_limit(request, off, local=self._local),
            **_tools(request, off),
            **_format(request, off),
            **chosen(request.settings, off, temperature="temperature", top_p="top_p", seed="seed", stop="stop"),
            **(_local_thinking(request, off) if self._local else _thinking(request, off)),
        }
        if on_text is None or STREAM in off:
            return await self._client.chat.completions.create(**body, timeout=timeout_s)
        counted = {"stream_options": {"include_usage": True}} if STREAM_OPTIONS not in off else {}
        async with await self._client.chat.completions.create(
            **body, **counted, stream=True, timeout=timeout_s
        ) as stream:
            whole = await read_unstreamed(stream.response, self._sdk.types.chat.ChatCompletion)
            return (
                whole
                if whole is not None
                else await assemble_stream(stream, on_text, self._sdk.types.chat.ChatCompletion)
            )

    def _read(self, answer: Any, request: DecisionRequest) -> ModelReply | ModelCallFailure:
        if not answer.choices:
            message = f"{self._name} gave no choice"
            return ModelCallFailure(code="model_unavailable", message=message, retryable=True, usage=ONE_CALL)
        choice, reply = answer.choices[0], answer.choices[0].message
        said = response_of(answer, choice.finish_reason)
        usage = _usage(answer.usage)
        cost = LOCAL if self._local else price("openai", model_name(request.model), usage)
        text = _THOUGHTS.sub("", reply.content or "", count=1)
        filtered, cut_off = choice.finish_reason == "content_filter", choice.finish_reason == "length"
        calls = [  # asked for no tool call, some servers make one of the answer all the same
            NativeCall(name=call.function.name, arguments=call.function.arguments or "")
            for call in reply.tool_calls or ()
            if call.type == "function"
        ]
        if (reply.refusal or filtered) and (calls or not text.strip()):  # a filter may have cut a call off
            why = reply.refusal or "stopped by its content filter"
            return ModelCallFailure(
                code="model_refused", message=f"{self._name} refused: {why}", usage=usage, cost=cost, response=said
            )
        written = read_written(text, calls, request, cut_off=cut_off)
        return ModelReply(
            text=written.text, usage=usage, cost=cost, cut_off=cut_off, fault=written.fault, response=said
        )


def messages_of(question: ModelQuestion, names: Mapping[str, str] | None = None) -> list[JsonObject]:
    """Return the question as messages: system, the turns before, the user's last.

    With the *names* of tools, earlier calls and their results are told as such.
    """
    messages: list[JsonObject] = [{"role": "system", "content": question.instructions}]
    for turn in question.turns:
        if names is None or not (turn.calls or turn.results):
            messages.append({"role": _ROLES[turn.role], "content": _content(turn, question)})
        elif turn.calls:
            calls = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": sent_name(call.name, names), "arguments": to_json(call.arguments).decode()},
                }
                for call in turn.calls
            ]
            messages.append({"role": "assistant", "content": turn.beside or None, "tool_calls": calls})
        else:
            messages += [{"role": "tool", "tool_call_id": one.call_id, "content": one.text} for one in turn.results]
            messages.append({"role": "user", "content": turn.whole_beside})
    return messages


def _content(turn: ConversationTurn, question: ModelQuestion) -> str | list[JsonObject]:
    """Return a turn's text, behind the files that are attached to it."""
    if not turn.attachments:
        return turn.whole
    files = [_file(one, question.attached[one.digest]) for one in turn.attachments]
    return [*files, {"type": "text", "text": turn.whole}]


def _file(one: StoredAttachment, data: str) -> JsonObject:
    url = f"data:{one.media_type};base64,{data}"
    if one.media_type == PDF:
        return {"type": "file", "file": {"filename": file_name(one), "file_data": url}}
    return {"type": "image_url", "image_url": {"url": url}}


def _limit(request: DecisionRequest, off: frozenset[str], *, local: bool) -> JsonObject:
    """Newer models of OpenAI know one name for the limit, most other servers the other."""
    if "max_tokens" in off:
        return {}
    older = local != ("limit_word" in off)
    return {"max_tokens" if older else "max_completion_tokens": request.max_output_tokens}


def _tools(request: DecisionRequest, off: frozenset[str]) -> JsonObject:
    if TOOLS in off:
        return {}
    offered = [
        {"name": name, "description": tool.description, "parameters": parameters_of(tool)}
        for name, tool in native_tools(request).items()
    ]
    return {"tools": [{"type": "function", "function": one} for one in offered]}


def _format(request: DecisionRequest, off: frozenset[str]) -> JsonObject:
    if "json_schema" not in off:
        schema = without_order(schema_of(request, tools_in_detail=TOOLS in off))
        return {"response_format": {"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "schema": schema}}}
    return {} if "json_object" in off else {"response_format": {"type": "json_object"}}


def _set_effort(request: DecisionRequest) -> str | None:
    return request.settings.reasoning_effort if request.settings is not None else None


def _thinking(request: DecisionRequest, off: frozenset[str]) -> JsonObject:
    if (wanted := _set_effort(request)) is not None:
        return {} if EFFORT in off else {"reasoning_effort": wanted}
    if _NEVER_REASONS.match(model_name(request.model)):
        return {}
    effort = next((effort for effort in _EFFORTS if f"effort_{effort}" not in off), None)
    return {} if effort is None else {"reasoning_effort": effort}


def _local_thinking(request: DecisionRequest, off: frozenset[str]) -> JsonObject:
    """llama.cpp and vLLM take the template's switch, Ollama the effort; each ignores the other's, or says so."""
    effort = _set_effort(request)
    left_out = "effort_none" if effort is None else EFFORT
    options: JsonObject = {} if left_out in off else {"reasoning_effort": effort or "none"}
    if "chat_template" not in off:
        options["extra_body"] = {"chat_template_kwargs": {"enable_thinking": effort not in (None, "none")}}
    return options


def _usage(counted: Any) -> Usage:
    if counted is None:
        return ONE_CALL
    read, wrote = counted.prompt_tokens or 0, counted.completion_tokens or 0  # the latter with what was only thought
    total = counted.total_tokens or read + wrote
    details = getattr(counted, "prompt_tokens_details", None)
    cached = cached_part(read, getattr(details, "cached_tokens", None))
    return reported_usage(read, wrote, total, cached=cached)

"""`anthropic:`: Claude through Anthropic's SDK.

One question is one HTTP request, unless the API refuses an option that only helps. Structured outputs take closed
objects alone; a decision that holds an open one (any payload) is asked for in words, as the prompt always does.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.attachments import PDF, StoredAttachment
from towpath_contracts.decisions.request import DecisionRequest, Usage
from towpath_decider.adapters.model_options import (
    OFFERED_TOOLS,
    SETTINGS,
    TEMPERATURE,
    TOOLS,
    TOP_P,
    DroppableOption,
    chosen,
)
from towpath_decider.adapters.model_prices import cached_part, price
from towpath_decider.adapters.provider import OnText, http_client_options, model_name
from towpath_decider.adapters.provider_failures import ONE_CALL, how_to_set
from towpath_decider.adapters.sdk_provider import SdkProvider, response_of
from towpath_decider.adapters.stream_assembly import STREAM, STREAMING, assemble_message, read_unstreamed
from towpath_decider.core.answer_schema import closed, schema_of
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

ANTHROPIC_URL = "https://api.anthropic.com"
PRICE_PROVIDER = "anthropic"

LEAST_BUDGET = 1_024
_BUDGETS = {"none": 0, "minimal": LEAST_BUDGET, "low": LEAST_BUDGET, "medium": 4_096, "high": 16_384}
"""Tokens that a model may think, for each word of an effort; part of its limit for output, and no less than 1,024."""

CACHE = "cache"
BLOCKS_LOOKED_AT = 20
"""How far before a mark the API looks for what an earlier request has stored."""

_KEPT = {"type": "ephemeral"}
_ROLES = {"user": "user", "model": "assistant"}

_OPTIONS = (
    STREAMING,
    *SETTINGS,
    OFFERED_TOOLS,
    DroppableOption(name=CACHE, named=re.compile(r"cache_control|\bcache\b|caching", re.IGNORECASE)),
    DroppableOption(name="thinking", named=re.compile(r"thinking", re.IGNORECASE)),
    DroppableOption(name="format", named=re.compile(r"output_config|output_format|schema|structured", re.IGNORECASE)),
)


class ClaudeProvider(SdkProvider):
    """Asks with thinking off, and with the answer's schema where the API can hold it."""

    def __init__(
        self,
        *,
        api_key: SecretStr | None,
        base_url: str | None = None,
        log: Logger | None = None,
        tool_switches: Mapping[str, bool] | None = None,
    ) -> None:
        """*base_url* replaces Anthropic's address, for proxies and tests."""
        super().__init__(
            name="Anthropic",
            module="anthropic",
            api_key=api_key,
            key_name="ANTHROPIC_API_KEY",
            options=_OPTIONS,
            log=log,
            tool_switches=tool_switches or {},
            tools_by_default=base_url is None,
        )
        self._base_url = base_url

    @property
    def missing(self) -> str:
        """What has to be set before anything can be asked."""
        return "" if self._api_key else f"no key for Anthropic: {how_to_set('ANTHROPIC_API_KEY')}"

    def _connect(self, sdk: Any) -> Any:
        assert self._api_key is not None
        return sdk.AsyncAnthropic(
            api_key=self._api_key.get_secret_value(),
            base_url=self._base_url or ANTHROPIC_URL,
            max_retries=0,
            open_telemetry=False,  # its spans would hold prompts
            http_client=sdk.DefaultAsyncHttpxClient(**http_client_options()),
        )

    async def _send(
        self,
        request: DecisionRequest,
        question: ModelQuestion,
        off: frozenset[str],
        timeout_s: float,
        on_text: OnText | None,
    ) -> Any:
        body: JsonObject = {
            "model": model_name(request.model),
            "max_tokens": request.max_output_tokens,
        }
        budget = 0 if "thinking" in off else _thinking_budget(request)
        # Beside thinking the API takes earlier calls only with what was thought then, which nobody has kept.
        names = None if TOOLS in off or budget else native_names(request)
        body |= conversation_of(question, names, cached=CACHE not in off)
        if budget:
            body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        elif "thinking" not in off:
            body["thinking"] = {"type": "disabled"}
        if budget:  # the API takes neither beside thinking
            off |= {TEMPERATURE, TOP_P}
        body |= chosen(request.settings, off, stop="stop_sequences")
        # Older models take these two; the SDK has no parameters for them any more.
        if heat := chosen(request.settings, off, temperature="temperature", top_p="top_p"):
            body["extra_body"] = heat
        if TOOLS not in off:
            body["tools"] = [
                {"name": name, "description": tool.description, "input_schema": parameters_of(tool)}
                for name, tool in native_tools(request).items()
            ]
        schema = None if "format" in off else closed(schema_of(request))
        if schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if on_text is None or STREAM in off:
            return await self._client.messages.create(**body, timeout=timeout_s)
        async with await self._client.messages.create(**body, stream=True, timeout=timeout_s) as stream:
            whole = await read_unstreamed(stream.response, self._sdk.types.Message)
            return whole if whole is not None else await assemble_message(stream, on_text, self._sdk.types.Message)

    def _read(self, answer: Any, request: DecisionRequest) -> ModelReply | ModelCallFailure:
        text = "".join(block.text for block in answer.content if block.type == "text")
        blocks = [block for block in answer.content if block.type == "tool_use"]
        calls = [NativeCall(name=block.name, arguments=block.input) for block in blocks]
        usage = _usage(answer.usage)
        counted: dict[str, Any] = {"usage": usage, "cost": price(PRICE_PROVIDER, model_name(request.model), usage)}
        said = response_of(answer, answer.stop_reason)
        if answer.stop_reason == "refusal":
            details = getattr(answer, "stop_details", None)
            why = getattr(details, "explanation", None) or getattr(details, "category", None) or "no reason given"
            return ModelCallFailure(code="model_refused", message=f"Anthropic refused: {why}", response=said, **counted)
        if answer.stop_reason == "model_context_window_exceeded":
            message = "Anthropic's answer filled the model's context window"
            return ModelCallFailure(code="context_too_long", message=message, response=said, **counted)
        cut_off = answer.stop_reason == "max_tokens"
        written = read_written(text, calls, request, cut_off=cut_off)
        return ModelReply(text=written.text, cut_off=cut_off, fault=written.fault, response=said, **counted)


def _thinking_budget(request: DecisionRequest) -> int:
    """Return how many tokens may be thought; 0 where the limit for output has no room for both."""
    effort = request.settings.reasoning_effort if request.settings is not None else None
    most = request.max_output_tokens // 2  # half is left for the answer
    return min(_BUDGETS[effort or "none"], most) if most >= LEAST_BUDGET else 0


def conversation_of(question: ModelQuestion, names: Mapping[str, str] | None = None, *, cached: bool) -> JsonObject:
    """Return the system's words and the turns, the user's last.

    With the *names* of tools, earlier calls and their results are told as such. With *cached* the provider keeps what
    the next request begins with: the system's words, and everything up to the last turn's tail. The mark of the turn
    before is there where more blocks follow it than the API looks back at.
    """
    system: JsonObject = {"type": "text", "text": question.instructions}
    turns = [(turn, [*_files(turn, question), *_blocks(turn, names)]) for turn in question.turns]
    messages = [{"role": _ROLES[turn.role], "content": blocks} for turn, blocks in turns]
    if cached:
        system["cache_control"] = _KEPT
        asked = [(place, turn, blocks) for place, (turn, blocks) in enumerate(turns) if turn.role == "user"]
        for place, turn, blocks in asked[-2:]:
            behind = sum(len(message["content"]) for message in messages[place + 1 :])
            if place == asked[-1][0] or behind >= BLOCKS_LOOKED_AT:
                blocks[-2 if turn.tail and len(blocks) > 1 else -1]["cache_control"] = _KEPT
    return {"system": [system], "messages": messages}


def _files(turn: ConversationTurn, question: ModelQuestion) -> list[JsonObject]:
    return [_file(one, question.attached[one.digest]) for one in turn.attachments]


def _file(one: StoredAttachment, data: str) -> JsonObject:
    source = {"type": "base64", "media_type": one.media_type, "data": data}
    if one.media_type == PDF:
        return {"type": "document", "source": source, "title": one.name}
    return {"type": "image", "source": source}


def _blocks(turn: ConversationTurn, names: Mapping[str, str] | None) -> list[JsonObject]:
    """Return one turn; its tail is a block of its own, the last one."""
    blocks: list[JsonObject] = []
    native = names is not None and (turn.calls or turn.results)
    if native:
        blocks += [{"type": "tool_result", "tool_use_id": one.call_id, "content": one.text} for one in turn.results]
    text = turn.beside if native else turn.text
    blocks += [{"type": "text", "text": part} for part in (text, turn.tail) if part.strip()]
    if native:
        blocks += [
            {"type": "tool_use", "id": call.call_id, "name": sent_name(call.name, names or {}), "input": call.arguments}
            for call in turn.calls
        ]
    return blocks


def _usage(counted: Any) -> Usage:
    """What was read from or written to the prompt cache is part of the input, and counted apart by this API."""
    if counted is None:
        return ONE_CALL
    cached, stored = counted.cache_read_input_tokens or 0, counted.cache_creation_input_tokens or 0
    read, wrote = (counted.input_tokens or 0) + cached + stored, counted.output_tokens or 0
    cached = cached_part(read, cached)
    return reported_usage(read, wrote, read + wrote, cached=cached, stored=cached_part(read - cached, stored))

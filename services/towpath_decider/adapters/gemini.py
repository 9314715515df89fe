"""`gemini:`: Google's Gemini API through google-genai.

The library is loaded at the first question, in a thread, since it costs about a second. One question is one HTTP
request, unless the model refuses an option that only helps (thinking off, the answer's schema): then it is asked once
more without it. The key is sent to the API and to nobody else.
"""

import asyncio
import re
from base64 import b64decode
from collections.abc import AsyncIterable
from contextlib import aclosing
from importlib import import_module
from typing import Any

from pydantic import SecretStr

from towpath_contracts.decisions.request import DecisionRequest
from towpath_decider.adapters.gemini_answers import read_malformed_call, read_reply, texts_in_pieces
from towpath_decider.adapters.model_options import SETTINGS, DroppableOption, DroppableOptions, chosen, options_unset
from towpath_decider.adapters.provider import OnText, http_client_options, model_name
from towpath_decider.adapters.provider_failures import (
    error_details,
    failure_of_answer,
    failure_of_connection,
    failure_of_status,
    how_to_set,
)
from towpath_decider.adapters.stream_assembly import STREAM, STREAMING, StreamedLength, status_of
from towpath_decider.core.answer_schema import schema_of
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.turns import ConversationTurn
from towpath_fabric.telemetry.logs import Logger

_NAMES = {"temperature": "temperature", "top_p": "top_p", "seed": "seed", "stop": "stop_sequences"}
_BUDGETS = {"none": 0, "minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
"""Tokens that a model may think, for each word of an effort; part of its limit for output."""

_WHOLE = ("usage_metadata", "prompt_feedback", "model_version", "response_id")
"""What the chunks of an answer say of the whole; the last word holds."""

_OPTIONS = (
    STREAMING,
    *SETTINGS,
    DroppableOption(name="thinking", named=re.compile(r"thinking|budget", re.IGNORECASE)),
    DroppableOption(
        name="schema", named=re.compile(r"schema|too many states|constraint", re.IGNORECASE), lasting=False
    ),
)


class GeminiProvider:
    """Asks Gemini in JSON mode, with the answer's schema and thinking off."""

    def __init__(self, *, api_key: SecretStr | None, base_url: str | None = None, log: Logger | None = None) -> None:
        """*base_url* replaces Google's address, for proxies and tests."""
        self._api_key = api_key
        self._base_url = base_url
        self._client: Any = None
        self._types: Any = None
        self._errors: Any = None
        self._transport_error: type[Exception] = OSError
        self._opening = asyncio.Lock()
        self._options = DroppableOptions("Gemini", _OPTIONS, log)

    @property
    def missing(self) -> str:
        """What has to be set before anything can be asked; empty when nothing has."""
        return "" if self._api_key else f"no key for Gemini: {how_to_set('GEMINI_API_KEY')}"

    async def complete(
        self, request: DecisionRequest, question: ModelQuestion, on_text: OnText | None = None
    ) -> ModelReply | ModelCallFailure:
        """Ask once; failures of the API, the network and the answer's form are values."""
        if self.missing:
            return ModelCallFailure(code="model_unauthorized", message=self.missing)
        await self._open()
        return await self._options.ask(
            model_name(request.model),
            lambda off: self._ask(request, question, off, on_text),
            options_unset(request.settings),
        )

    def offers_tools(self, _request: DecisionRequest) -> bool:
        """Return False: Gemini takes no tools beside JSON mode."""
        return False

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aio.aclose()
            await asyncio.to_thread(self._client.close)
            self._client = None

    async def _open(self) -> None:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._load)

    def _load(self) -> Any:
        genai = import_module("google.genai")
        self._types = import_module("google.genai.types")
        self._errors = import_module("google.genai.errors")
        self._transport_error = import_module("httpx2").HTTPError
        options = self._types.HttpOptions(
            base_url=self._base_url,
            api_version="v1beta",
            retry_options=self._types.HttpRetryOptions(attempts=1),  # attempts are counted in core.conversation
            async_client_args=http_client_options(),
        )
        assert self._api_key is not None
        return genai.Client(api_key=self._api_key.get_secret_value(), vertexai=False, http_options=options)

    async def _ask(
        self, request: DecisionRequest, question: ModelQuestion, off: frozenset[str], on_text: OnText | None
    ) -> ModelReply | ModelCallFailure:
        model = model_name(request.model)
        contents = [self._types.Content(role=turn.role, parts=self._parts(turn, question)) for turn in question.turns]
        try:
            config, models = self._config(request, question, off), self._client.aio.models
            if on_text is None or STREAM in off:
                return read_reply(await models.generate_content(model=model, contents=contents, config=config), request)
            stream = await models.generate_content_stream(model=model, contents=contents, config=config)
            async with aclosing(stream):  # a call that is given up gives its connection back
                return read_reply(await self._assemble_stream(stream, on_text), request)
        except self._errors.APIError as error:
            return self._api_failure(error)
        except self._transport_error as error:
            return failure_of_connection("Gemini", error)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:  # no answer of this API
            told = read_malformed_call(error) if isinstance(error, ValueError) else None
            return told or failure_of_answer("Gemini", error)

    def _parts(self, turn: ConversationTurn, question: ModelQuestion) -> list[Any]:
        files = [
            self._types.Part.from_bytes(data=b64decode(question.attached[one.digest]), mime_type=one.media_type)
            for one in turn.attachments
        ]
        return [*files, self._types.Part(text=turn.whole)]

    def _config(self, request: DecisionRequest, question: ModelQuestion, off: frozenset[str]) -> Any:
        options: dict[str, Any] = {
            "system_instruction": question.instructions,
            "response_mime_type": "application/json",
            "max_output_tokens": request.max_output_tokens,
            "automatic_function_calling": {"disable": True},
            **chosen(request.settings, off, **_NAMES),
        }
        if "schema" not in off:
            options["response_json_schema"] = schema_of(request)
        if "thinking" not in off:
            options["thinking_config"] = self._types.ThinkingConfig(thinking_budget=_thinking_budget(request))
        return self._types.GenerateContentConfig(**options)

    async def _assemble_stream(self, stream: AsyncIterable[Any], on_text: OnText) -> Any:
        """Put the chunks of an answer together as the API would have given it whole."""
        parts: list[Any] = []
        reply: dict[str, Any] = {"finish_reason": None, **dict.fromkeys(_WHOLE)}
        candidates = 0
        length = StreamedLength()
        async for chunk in stream:
            reply |= {name: getattr(chunk, name, None) or reply[name] for name in _WHOLE}
            for candidate in (chunk.candidates or ())[:1]:
                candidates = 1
                reply["finish_reason"] = candidate.finish_reason or reply["finish_reason"]
                new = (candidate.content.parts if candidate.content is not None else None) or []
                parts += new
                pieces = texts_in_pieces(new)
                length.add_parts(len(new) + len(pieces))
                length.add(*(part.text or "" for part in new), *pieces)
                on_text("".join(part.text for part in new if part.text and not part.thought))
        content = self._types.Content(role="model", parts=parts) if parts else None
        candidate = self._types.Candidate(content=content, finish_reason=reply.pop("finish_reason"))
        return self._types.GenerateContentResponse(candidates=[candidate] * candidates, **reply)

    def _api_failure(self, error: Any) -> ModelCallFailure:
        assert self._api_key is not None
        return failure_of_status(
            "Gemini",
            status_of(int(error.code or 0), error.details),
            str(error.message or error.status or ""),
            secret=self._api_key.get_secret_value(),
            key_name="GEMINI_API_KEY",
            details=error_details(getattr(error.response, "headers", {}), error.details),
        )


def _thinking_budget(request: DecisionRequest) -> int:
    effort = request.settings.reasoning_effort if request.settings is not None else None
    return min(_BUDGETS[effort or "none"], request.max_output_tokens // 2)  # half is left for the answer

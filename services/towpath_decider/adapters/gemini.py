"""`gemini:`: Google's Gemini API through google-genai (facts.md §5).

Law: the library is loaded at the first question, in a thread, since it costs about a second. One question is one HTTP
request, unless the model refuses an option that only helps (thinking off, the answer's schema): then it is asked once
more without it. The key is sent to the API and to nobody else.
"""

import asyncio
import re
from importlib import import_module
from typing import Any

from pydantic import SecretStr

from towpath_contracts.deciding import DecisionKind, DecisionRequest, Usage
from towpath_decider.adapters.prices import price
from towpath_decider.adapters.provider import model_name
from towpath_decider.core.conversation import CallFailure, Question, Reply
from towpath_decider.core.schema import answer_schema, simplified

PRICE_PROVIDER = "google"
MESSAGE_CHARS = 500
ONE_CALL = Usage(model_calls=1)

TOO_MANY_REQUESTS = 429
REQUEST_TIMEOUT = 408
PAYLOAD_TOO_LARGE = 413
BAD_REQUEST = 400
SERVER_ERROR = 500

_CONTEXT_TOO_LONG = re.compile(
    r"token count.*exceed|exceeds? the maximum number of (input )?tokens|context (length|window)", re.IGNORECASE
)
_THINKING_REFUSED = re.compile(r"thinking|budget", re.IGNORECASE)
_SCHEMA_REFUSED = re.compile(r"schema|too many states|constraint", re.IGNORECASE)
_SECONDS = re.compile(r"^(\d+(?:\.\d+)?)s?$")

_REASONS = {
    401: "model_unauthorized",
    403: "model_unauthorized",
    404: "model_not_found",
    TOO_MANY_REQUESTS: "model_rate_limited",
    REQUEST_TIMEOUT: "model_unavailable",
    PAYLOAD_TOO_LARGE: "context_too_long",
}


class GeminiProvider:
    """Asks Gemini in JSON mode, with the answer's schema and thinking off (feature A5)."""

    def __init__(self, *, api_key: SecretStr | None, base_url: str | None = None) -> None:
        """*base_url* replaces Google's address, for proxies and tests."""
        self._api_key = api_key
        self._base_url = base_url
        self._client: Any = None
        self._types: Any = None
        self._errors: Any = None
        self._transport_error: type[Exception] = OSError
        self._opening = asyncio.Lock()
        self._always_thinking: set[str] = set()

    async def complete(self, request: DecisionRequest, question: Question) -> Reply | CallFailure:
        """Ask once; failures of the API, the network and the answer's form are values."""
        if self._api_key is None:
            message = "no key for Gemini: set GEMINI_API_KEY in the decider's environment"
            return CallFailure(code="model_unauthorized", message=message)
        await self._open()
        model, with_schema = model_name(request.model), True
        while True:  # each turn drops one of two options, so there are three at most
            said = await self._ask(request, question, with_schema=with_schema)
            if not isinstance(said, CallFailure) or said.code != "model_refused_request":
                return said
            if _THINKING_REFUSED.search(said.message) and model not in self._always_thinking:
                self._always_thinking.add(model)
            elif _SCHEMA_REFUSED.search(said.message) and with_schema:
                with_schema = False
            else:
                return said

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
        )
        assert self._api_key is not None
        return genai.Client(api_key=self._api_key.get_secret_value(), vertexai=False, http_options=options)

    async def _ask(self, request: DecisionRequest, question: Question, *, with_schema: bool) -> Reply | CallFailure:
        model = model_name(request.model)
        contents = [
            self._types.Content(role=turn.role, parts=[self._types.Part(text=turn.text)]) for turn in question.turns
        ]
        try:
            response = await self._client.aio.models.generate_content(
                model=model, contents=contents, config=self._config(request, question, with_schema=with_schema)
            )
        except self._errors.APIError as error:
            return self._api_failure(error)
        except self._transport_error as error:
            message = _told("the connection to Gemini failed", error)
            return CallFailure(code="model_unavailable", message=message, retryable=True, usage=ONE_CALL)
        except (ValueError, TypeError, AttributeError, KeyError) as error:  # a body that is no answer of this API
            message = _told("Gemini's answer can't be read", error)
            return CallFailure(code="model_unavailable", message=message, retryable=True, usage=ONE_CALL)
        return _reply(response, model)

    def _config(self, request: DecisionRequest, question: Question, *, with_schema: bool) -> Any:
        options: dict[str, Any] = {
            "system_instruction": question.instructions,
            "response_mime_type": "application/json",
            "max_output_tokens": request.max_output_tokens,
            "automatic_function_calling": {"disable": True},
        }
        if with_schema:
            options["response_json_schema"] = _schema(request)
        if model_name(request.model) not in self._always_thinking:
            options["thinking_config"] = self._types.ThinkingConfig(thinking_budget=0)
        return self._types.GenerateContentConfig(**options)

    def _api_failure(self, error: Any) -> CallFailure:
        status, text = int(error.code or 0), str(error.message or error.status or "")[:MESSAGE_CHARS]
        assert self._api_key is not None
        text = text.replace(self._api_key.get_secret_value(), "***")
        message = f"Gemini answered {status}: {text}"
        if status == BAD_REQUEST and _CONTEXT_TOO_LONG.search(text):
            return CallFailure(code="context_too_long", message=message, usage=ONE_CALL)
        code = _REASONS.get(status, "model_unavailable" if status >= SERVER_ERROR else "model_refused_request")
        retryable = code in ("model_rate_limited", "model_unavailable")
        wait = _retry_after(error)
        return CallFailure(code=code, message=message, retryable=retryable, retry_after_s=wait, usage=ONE_CALL)


def _told(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {str(error)[:MESSAGE_CHARS]}"


def _schema(request: DecisionRequest) -> Any:
    if request.kind in (DecisionKind.DECIDE, DecisionKind.REPLAN):
        return answer_schema(request.context)
    return simplified(request.response_schema or {})


def _retry_after(error: Any) -> float | None:
    """Return the seconds asked for by the header, or by RetryInfo in the body (google.rpc.RetryInfo)."""
    wished = [str(getattr(error.response, "headers", {}).get("retry-after", ""))]
    details = error.details if isinstance(error.details, dict) else {}
    inner = details.get("error", details)
    listed = inner.get("details", []) if isinstance(inner, dict) else []
    wished += [str(detail.get("retryDelay", "")) for detail in listed if isinstance(detail, dict)]
    found = [float(match.group(1)) for match in map(_SECONDS.match, wished) if match]
    return max(found, default=None)


def _reply(response: Any, model: str) -> Reply | CallFailure:
    candidate = response.candidates[0] if response.candidates else None
    parts = (candidate.content.parts if candidate is not None and candidate.content is not None else None) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    reason = candidate.finish_reason.name if candidate is not None and candidate.finish_reason is not None else ""
    counted = response.usage_metadata
    if candidate is None and counted is None and response.prompt_feedback is None:
        message = "Gemini's answer is empty"
        return CallFailure(code="model_unavailable", message=message, retryable=True, usage=ONE_CALL)
    usage = _usage(counted)
    cached = (counted.cached_content_token_count or 0) if counted is not None else 0
    cost = price(PRICE_PROVIDER, model, usage, cached_tokens=cached)
    if not text and reason not in ("STOP", "MAX_TOKENS"):
        blocked = response.prompt_feedback.block_reason if response.prompt_feedback is not None else None
        why = reason or (blocked.name if blocked is not None else "no candidate")
        return CallFailure(code="model_refused", message=f"Gemini gave no answer: {why}", usage=usage, cost=cost)
    return Reply(text=text, usage=usage, cost=cost, cut_off=reason == "MAX_TOKENS")


def _usage(counted: Any) -> Usage:
    if counted is None:
        return Usage(model_calls=1)
    wrote = (counted.candidates_token_count or 0) + (counted.thoughts_token_count or 0)
    read = counted.prompt_token_count or 0
    return Usage(
        input_tokens=read, output_tokens=wrote, total_tokens=counted.total_token_count or read + wrote, model_calls=1
    )

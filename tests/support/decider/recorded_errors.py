"""Errors of the providers' APIs, in the shapes that they are published and reported in, and what each of them means."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.decider.gemini_server import Answer

GOOGLE = "type.googleapis.com/google.rpc"
USED_UP = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
    "head to: https://ai.google.dev/gemini-api/docs/rate-limits. * Quota exceeded for metric: "
    "generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10, model: gemini-2.5-flash"
)
MINUTE, DAY = (f"GenerateRequestsPer{span}PerProjectPerModel-FreeTier" for span in ("Minute", "Day"))


@dataclass(frozen=True, kw_only=True)
class RecordedError:
    """An answer of *provider*, and the failure that it means. `wait` is what it asks for, in seconds."""

    name: str
    provider: str
    status: int
    body: Any
    code: str
    again: bool = False
    wait: float | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def answer(self) -> Answer:
        return Answer(status=self.status, body=self.body, headers=self.headers)


def google(status: int, message: str, word: str = "INVALID_ARGUMENT", *details: dict[str, Any]) -> dict[str, Any]:
    """An error of Google's APIs: google.rpc.Status as JSON."""
    return {"error": {"code": status, "message": message, "status": word, "details": list(details)}}


def quota(*ids: str, retry: str | None = None) -> tuple[dict[str, Any], ...]:
    """The details of a quota that is used up, with RetryInfo where *retry* is given."""
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    dimensions = {"model": "gemini-2.5-flash", "location": "global"}
    violations = [
        {"quotaMetric": metric, "quotaId": one, "quotaDimensions": dimensions, "quotaValue": "10"} for one in ids
    ]
    links = [{"description": "Learn more", "url": "https://ai.google.dev/gemini-api/docs/rate-limits"}]
    details: list[dict[str, Any]] = [{"@type": f"{GOOGLE}.QuotaFailure", "violations": violations}]
    details.append({"@type": f"{GOOGLE}.Help", "links": links})
    return (*details, {"@type": f"{GOOGLE}.RetryInfo", "retryDelay": retry}) if retry else tuple(details)


def exhausted(*details: dict[str, Any], message: str = USED_UP) -> dict[str, Any]:
    return google(429, message, "RESOURCE_EXHAUSTED", *details)


def key_fault(message: str) -> dict[str, Any]:
    domain = {"domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com"}}
    reason = {"@type": f"{GOOGLE}.ErrorInfo", "reason": "API_KEY_INVALID", **domain}
    local = {"@type": f"{GOOGLE}.LocalizedMessage", "locale": "en-US", "message": message}
    return google(400, message, "INVALID_ARGUMENT", reason, local)


def openai(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def claude(message: str, kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


LIMITED, AWAY, NO_KEY = "model_rate_limited", "model_unavailable", "model_unauthorized"

_GEMINI: tuple[tuple[str, int, Any, str, bool, float | None], ...] = (
    (
        "a minute's quota, with RetryInfo",
        429,
        exhausted(*quota(MINUTE, retry="34.074824224s")),
        LIMITED,
        True,
        34.074824224,
    ),
    ("a minute's quota alone", 429, exhausted(*quota(MINUTE)), LIMITED, True, 60.0),
    ("a day's quota, with RetryInfo", 429, exhausted(*quota(DAY, retry="58s")), LIMITED, True, 58.0),
    ("a day's quota alone", 429, exhausted(*quota(DAY), message="Resource exhausted"), LIMITED, False, None),
    ("a minute's and a day's quota", 429, exhausted(*quota(MINUTE, DAY)), LIMITED, False, None),
    ("billing words alone", 429, exhausted(), LIMITED, False, None),
    (
        "a limit that says nothing",
        429,
        exhausted(message="Resource has been exhausted (e.g. check quota)."),
        LIMITED,
        True,
        None,
    ),
    ("a wrong key", 400, key_fault("API key not valid. Please pass a valid API key."), NO_KEY, False, None),
    ("an old key", 400, key_fault("API key expired. Please renew the API key."), NO_KEY, False, None),
    (
        "a wrong key without details",
        400,
        google(400, "API key not valid. Please pass a valid API key."),
        NO_KEY,
        False,
        None,
    ),
    (
        "a key without the right",
        403,
        google(403, "The caller does not have permission", "PERMISSION_DENIED"),
        NO_KEY,
        False,
        None,
    ),
    (
        "an unknown model",
        404,
        google(404, "models/x is not found for API version v1beta", "NOT_FOUND"),
        "model_not_found",
        False,
        None,
    ),
    (
        "a place without service",
        400,
        google(400, "User location is not supported for the API use.", "FAILED_PRECONDITION"),
        "model_refused_request",
        False,
        None,
    ),
    (
        "too long a prompt",
        400,
        google(400, "The input token count (3475108) exceeds the maximum number of tokens allowed (1048576)."),
        "context_too_long",
        False,
        None,
    ),
    (
        "an overload",
        503,
        google(503, "The model is overloaded. Please try again later.", "UNAVAILABLE"),
        AWAY,
        True,
        None,
    ),
    ("an internal error", 500, google(500, "An internal error has occurred.", "INTERNAL"), AWAY, True, None),
    ("a deadline", 504, google(504, "The request timed out.", "DEADLINE_EXCEEDED"), AWAY, True, None),
)

_OPENAI: tuple[tuple[str, int, Any, str, bool, float | None, dict[str, str]], ...] = (
    (
        "a rate",
        429,
        openai(
            "Rate limit reached for gpt-5-mini on requests per min (RPM): Limit 3, Used 3. Please try again in 20s.",
            "requests",
            "rate_limit_exceeded",
        ),
        LIMITED,
        True,
        20.0,
        {"retry-after": "20"},
    ),
    (
        "a rate in milliseconds",
        429,
        openai("Rate limit reached", "tokens", "rate_limit_exceeded"),
        LIMITED,
        True,
        0.25,
        {"retry-after": "1", "retry-after-ms": "250"},
    ),
    (
        "a used-up account",
        429,
        openai(
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "insufficient_quota",
        ),
        LIMITED,
        False,
        None,
        {},
    ),
    (
        "a wrong key",
        401,
        openai("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
        NO_KEY,
        False,
        None,
        {},
    ),
    (
        "an unknown model",
        404,
        openai("The model `x` does not exist", "invalid_request_error", "model_not_found"),
        "model_not_found",
        False,
        None,
        {},
    ),
    (
        "too long a prompt",
        400,
        openai(
            "This model's maximum context length is 8192 tokens.", "invalid_request_error", "context_length_exceeded"
        ),
        "context_too_long",
        False,
        None,
        {},
    ),
    (
        "an overload",
        503,
        openai("The engine is currently overloaded, please try again later", "server_error"),
        AWAY,
        True,
        90.0,
        {"retry-after": "90"},
    ),
    ("Google's endpoint in this format", 429, [exhausted(*quota(MINUTE, retry="41s"))], LIMITED, True, 41.0, {}),
    ("a proxy's page", 502, "<html>Bad Gateway</html>", AWAY, True, None, {}),
)

_ANTHROPIC: tuple[tuple[str, int, Any, str, bool, float | None, dict[str, str]], ...] = (
    (
        "a rate",
        429,
        claude(
            "This request would exceed your organization's rate limit of 50 requests per minute", "rate_limit_error"
        ),
        LIMITED,
        True,
        41.0,
        {"retry-after": "41"},
    ),
    ("an overload", 529, claude("Overloaded", "overloaded_error"), AWAY, True, None, {}),
    ("a wrong key", 401, claude("invalid x-api-key", "authentication_error"), NO_KEY, False, None, {}),
    (
        "an empty account",
        400,
        claude(
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
            "invalid_request_error",
        ),
        NO_KEY,
        False,
        None,
        {},
    ),
    ("an unknown model", 404, claude("model: claude-x", "not_found_error"), "model_not_found", False, None, {}),
    (
        "too large a request",
        413,
        claude("Request exceeds the maximum size", "request_too_large"),
        "context_too_long",
        False,
        None,
        {},
    ),
    (
        "a bad request",
        400,
        claude("messages: at least one message is required", "invalid_request_error"),
        "model_refused_request",
        False,
        None,
        {},
    ),
)

_LOCAL: tuple[tuple[str, int, Any, str, bool, float | None, dict[str, str]], ...] = (
    (
        "llama.cpp while it loads",
        503,
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        AWAY,
        True,
        None,
        {},
    ),
    (
        "Ollama without the model",
        404,
        openai("model 'x' not found, try pulling it first", "not_found_error"),
        "model_not_found",
        False,
        None,
        {},
    ),
    ("vLLM with a key", 401, {"error": "Unauthorized"}, NO_KEY, False, None, {}),
)

ERRORS = tuple(
    RecordedError(
        name=f"{provider}: {row[0]}",
        provider=provider,
        status=row[1],
        body=row[2],
        code=row[3],
        again=row[4],
        wait=row[5],
        headers=row[6] if len(row) > 6 else {},
    )
    for provider, rows in (("gemini", _GEMINI), ("openai", _OPENAI), ("anthropic", _ANTHROPIC), ("local", _LOCAL))
    for row in rows
)

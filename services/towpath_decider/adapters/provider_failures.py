"""What a failed call of a model's API means, one rule for every provider.

The API's status and words decide whether asking again can help, the same everywhere. What an API says for programs
(Retry-After, Google's details of an error) is believed before its words. A context that is too long, a wrong key and a
refused request are never asked twice; a key never stands in a message.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from towpath_contracts.decisions.request import Usage
from towpath_decider.core.conversation import RATE_LIMITED, ModelCallFailure
from towpath_fabric.clock import wall

MESSAGE_CHARS = 500
"""How much of an API's words is repeated; some send whole pages."""

READ_CHARS = 16_384
"""How much of them is looked at: what a server says in an error may be megabytes, and all decisions wait meanwhile."""

ONE_CALL = Usage(model_calls=1)
"""A call of which nothing is known but that it was made."""

REFUSED_REQUEST = "model_refused_request"
"""The request itself is at fault: the provider may leave an option out, nobody else can do anything."""

UNAUTHORIZED = "model_unauthorized"
TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500

_REASONS = {
    401: UNAUTHORIZED,
    402: UNAUTHORIZED,
    403: UNAUTHORIZED,
    404: "model_not_found",
    408: "model_unavailable",
    409: "model_unavailable",
    413: "context_too_long",
    425: "model_unavailable",
    TOO_MANY_REQUESTS: RATE_LIMITED,
}

_CONTEXT_TOO_LONG = re.compile(
    r"context[ _](length|window|size|limit)|token count.{0,200}exceed|exceeds? the maximum number of (input )?tokens"
    r"|prompt is too long|input is too long",
    re.IGNORECASE,
)
_LIMIT_TOO_LARGE = re.compile(r"max_(completion_)?tokens\W.{0,60}too large", re.IGNORECASE | re.DOTALL)
"""vLLM's word where prompt and limit together do not fit: the prompt may fit all the same."""

_QUOTA_GONE = re.compile(r"insufficient[ _]quota|exceeded your current quota, please check your plan", re.IGNORECASE)
_NO_ACCESS = re.compile(r"api key (not valid|not found|expired)|credit balance is too low", re.IGNORECASE)
"""Some APIs say with 400 that the key is at fault, or what it is paid from."""

_SECONDS = re.compile(r"^(\d+(?:\.\d+)?)s?$")


PER_MINUTE_WAIT_S = 60.0
"""Where a quota per minute is used up and nobody says for how long: it is whole again after a minute at the latest."""

_PER_MINUTE = re.compile(r"per_?minute", re.IGNORECASE)
_PER_DAY = re.compile(r"per_?day", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetails:
    """What an error says for programs: how long to wait, whether a day's quota is used up, and its reasons."""

    retry_after_s: float | None = None
    daily_quota: bool = False
    reasons: tuple[str, ...] = ()


def how_to_set(variable: str) -> str:
    """Return how a key or an address comes into the process that asks the model."""
    return f"stop towpath up, export {variable}=…, and start it again; deployed, set it in the decider's environment"


def error_details(headers: Mapping[str, str], body: Any) -> ErrorDetails:
    """Read Retry-After, and Google's error details (google.rpc: RetryInfo, QuotaFailure, ErrorInfo) in *body*."""
    listed = tuple(_listed_details(body))
    waits = [requested_wait(headers), *(parse_seconds(str(detail.get("retryDelay", ""))) for detail in listed)]
    wait = max((found for found in waits if found is not None), default=None)
    quotas = tuple(
        str(violation.get("quotaId", ""))
        for detail in listed
        for violation in (detail["violations"] if isinstance(detail.get("violations"), list) else ())
        if isinstance(violation, dict)
    )
    a_day = any(_PER_DAY.search(quota) for quota in quotas)
    if wait is None and not a_day and any(_PER_MINUTE.search(quota) for quota in quotas):
        wait = PER_MINUTE_WAIT_S
    reasons = tuple(str(detail["reason"]) for detail in listed if detail.get("reason"))
    return ErrorDetails(retry_after_s=wait, daily_quota=a_day, reasons=reasons)


def _listed_details(body: Any) -> Iterator[Mapping[str, Any]]:
    """Google's own API has one error as its body, its endpoint in OpenAI's format a list of one."""
    for whole in body if isinstance(body, list) else [body]:
        inner = whole.get("error", whole) if isinstance(whole, dict) else None
        details = inner.get("details") if isinstance(inner, dict) else None
        yield from (one for one in details if isinstance(one, dict)) if isinstance(details, list) else ()


def failure_of_status(
    name: str,
    status: int,
    text: str,
    *,
    secret: str | None = None,
    details: ErrorDetails | None = None,
    key_name: str = "",
) -> ModelCallFailure:
    """Return what an answer with an error *status* means; *name* is the provider as people know it.

    *key_name* is the variable that its key is read from.
    """
    details = details or ErrorDetails()
    shown = text.replace(secret, "***") if secret else text
    text = text[:READ_CHARS]
    message = f"{name} answered {status}: {shown[:MESSAGE_CHARS]}"
    fits_without_limit = status < SERVER_ERROR and _LIMIT_TOO_LARGE.search(text)
    if status != TOO_MANY_REQUESTS and _CONTEXT_TOO_LONG.search(text) and not fits_without_limit:
        return ModelCallFailure(code="context_too_long", message=message, usage=ONE_CALL)
    code = _REASONS.get(status, "model_unavailable" if status >= SERVER_ERROR else REFUSED_REQUEST)
    if code == REFUSED_REQUEST and ("API_KEY_INVALID" in details.reasons or _NO_ACCESS.search(text)):
        code = UNAUTHORIZED
    if code == UNAUTHORIZED and key_name:
        message += f" (for a key that this API takes, {how_to_set(key_name)})"
    again = code in (RATE_LIMITED, "model_unavailable")
    wait = details.retry_after_s if again else None
    if wait is None and (details.daily_quota or _QUOTA_GONE.search(text)):
        again = False  # used up for long, and nobody says that waiting helps
    return ModelCallFailure(code=code, message=message, retryable=again, retry_after_s=wait, usage=ONE_CALL)


def failure_of_connection(name: str, error: Exception) -> ModelCallFailure:
    """Return the failure of a connection: nothing is known of the call, so it is asked again."""
    return _again(f"the connection to {name} failed", error)


def failure_of_answer(name: str, error: Exception) -> ModelCallFailure:
    """Return the failure for a body that is no answer of this API, such as a proxy's page of HTML."""
    return _again(f"{name}'s answer can't be read", error)


def _again(what: str, error: Exception) -> ModelCallFailure:
    message = f"{what}: {type(error).__name__}: {str(error)[:MESSAGE_CHARS]}"
    return ModelCallFailure(code="model_unavailable", message=message, retryable=True, usage=ONE_CALL)


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an API asks to wait (Retry-After as seconds or as a date, or Retry-After-Ms)."""
    asked = headers.get("retry-after", "")
    found = parse_seconds(asked)
    in_ms = parse_seconds(headers.get("retry-after-ms", ""))
    if in_ms is not None:
        return in_ms / 1000
    return found if found is not None or not asked else _until(asked)


def _until(date: str) -> float | None:
    try:
        at: datetime = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - wall()).total_seconds())


def parse_seconds(text: str) -> float | None:
    """Read `3`, `2.5` or `2.5s`."""
    match = _SECONDS.match(text.strip())
    return float(match.group(1)) if match else None

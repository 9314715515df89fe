"""What a failed call of a model's API means, one rule for every provider.

The API's status and words decide whether asking again can help, the same everywhere. A context that is too long, a
wrong key and a refused request are never asked twice; a key never stands in a message.
"""

import re
from collections.abc import Mapping

from towpath_contracts.decisions.request import Usage
from towpath_decider.core.conversation import ModelCallFailure

MESSAGE_CHARS = 500
"""How much of an API's words is repeated; some send whole pages."""

ONE_CALL = Usage(model_calls=1)
"""A call of which nothing is known but that it was made."""

REFUSED_REQUEST = "model_refused_request"
"""The request itself is at fault: the provider may leave an option out, nobody else can do anything."""

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500

_REASONS = {
    401: "model_unauthorized",
    402: "model_unauthorized",
    403: "model_unauthorized",
    404: "model_not_found",
    408: "model_unavailable",
    409: "model_unavailable",
    413: "context_too_long",
    425: "model_unavailable",
    TOO_MANY_REQUESTS: "model_rate_limited",
}

_CONTEXT_TOO_LONG = re.compile(
    r"context[ _](length|window|size|limit)|token count.*exceed|exceeds? the maximum number of (input )?tokens"
    r"|prompt is too long|input is too long",
    re.IGNORECASE,
)
_LIMIT_TOO_LARGE = re.compile(r"max_(completion_)?tokens\W.{0,60}too large", re.IGNORECASE | re.DOTALL)
"""vLLM's word where prompt and limit together do not fit: the prompt may fit all the same."""

_QUOTA_GONE = re.compile(r"insufficient[ _]quota|exceeded your current quota, please check your plan", re.IGNORECASE)
_SECONDS = re.compile(r"^(\d+(?:\.\d+)?)s?$")


def failure_of_status(
    name: str, status: int, text: str, *, secret: str | None = None, retry_after_s: float | None = None
) -> ModelCallFailure:
    """Return what an answer with an error *status* means; *name* is the provider as people know it."""
    shown = text.replace(secret, "***") if secret else text
    message = f"{name} answered {status}: {shown[:MESSAGE_CHARS]}"
    fits_without_limit = status < SERVER_ERROR and _LIMIT_TOO_LARGE.search(text)
    if status != TOO_MANY_REQUESTS and _CONTEXT_TOO_LONG.search(text) and not fits_without_limit:
        return ModelCallFailure(code="context_too_long", message=message, usage=ONE_CALL)
    code = _REASONS.get(status, "model_unavailable" if status >= SERVER_ERROR else REFUSED_REQUEST)
    again = code in ("model_rate_limited", "model_unavailable") and not _QUOTA_GONE.search(text)
    return ModelCallFailure(code=code, message=message, retryable=again, retry_after_s=retry_after_s, usage=ONE_CALL)


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
    """Return the seconds that an API asks to wait (Retry-After in seconds, or Retry-After-Ms), if it does."""
    found = parse_seconds(headers.get("retry-after", ""))
    in_ms = parse_seconds(headers.get("retry-after-ms", ""))
    return found if in_ms is None else in_ms / 1000


def parse_seconds(text: str) -> float | None:
    """Read `3`, `2.5` or `2.5s`."""
    match = _SECONDS.match(text.strip())
    return float(match.group(1)) if match else None

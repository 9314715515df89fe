"""The built-in toolset: `echo`, `clock.now`, `http.request`.

Built-in tools are permitted, ticketed and recorded like any other; nothing is allowed because it ships with us.
"""

import functools
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from towpath.tools.context import ToolContext
from towpath.tools.declaration import tool
from towpath.tools.egress import EgressClient
from towpath.tools.egress_settings import HttpEgressSettings
from towpath_fabric.clock import wall

TOOLSET = "builtin"


@functools.cache
def _egress() -> EgressClient:
    """Read the rules once: they are the operator's and do not change while the worker runs."""
    settings = HttpEgressSettings()
    return EgressClient(settings.rules(), max_bytes=settings.max_bytes)


class HttpToolResponse(BaseModel):
    """What a server answered; a body that is not text is left out and `text` is empty."""

    status: int
    headers: dict[str, str]
    text: str
    bytes: int
    truncated: bool


class CurrentTimeResult(BaseModel):
    """The time, in UTC."""

    iso: str
    epoch_s: float
    weekday: str


@tool(toolset=TOOLSET, effect_class="pure", timeout="5s", summary="Echo a value")
async def echo(value: Any) -> Any:
    """Return the value that was given.

    Args:
        value: Any JSON value.
    """
    return value


@tool(name="clock.now", toolset=TOOLSET, effect_class="pure", timeout="5s", polling=True, summary="Look at the clock")
async def clock_now() -> CurrentTimeResult:
    """Return the current date and time in UTC."""
    now = wall()
    return CurrentTimeResult(iso=now.isoformat(timespec="seconds"), epoch_s=now.timestamp(), weekday=now.strftime("%A"))


@tool(
    name="http.request",
    toolset=TOOLSET,
    effect_class="irreversible",
    timeout="60s",
    sensitive=True,
    summary="{method} {url}",
)
async def http_request(
    url: Annotated[str, Field(max_length=8_192)],
    *,
    ctx: ToolContext,
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET",
    headers: dict[str, str] | None = None,
    body: Annotated[str | None, Field(max_length=1_048_576)] = None,
    timeout_s: Annotated[float, Field(gt=0, le=55)] = 30.0,
) -> HttpToolResponse:
    """Fetch an address over HTTP. Only hosts that the operator has allowed can be reached.

    Args:
        url: Where to, with http:// or https://.
        method: What to do there.
        headers: Further headers.
        body: What to send, as text.
        timeout_s: After how many seconds to give up, redirects included.
    """
    sent = dict(headers or {})
    if method not in {"GET", "HEAD"}:
        sent.setdefault("Idempotency-Key", ctx.idempotency_key)
    fetched = await _egress().fetch(
        method,
        url,
        headers=sent,
        body=body.encode() if body is not None else None,
        timeout_s=min(timeout_s, ctx.remaining_s),
    )
    return HttpToolResponse(
        status=fetched.status,
        headers=fetched.headers,
        text=_text(fetched.data),
        bytes=len(fetched.data),
        truncated=fetched.truncated,
    )


def _text(data: bytes) -> str:
    """Return *data* as text, without a character that the limit cut in two; empty for what is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data[: error.start].decode("utf-8") if error.end == len(data) and error.start > len(data) - 4 else ""

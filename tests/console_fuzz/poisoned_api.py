"""An API in front of a gateway that answers as the gateway does, with every text made hostile.

What others may name or say reaches pages through answers of the API alone. Poisoning these tries every place at once,
also what a contract would not let in today. What the platform itself makes stays as it is: ids, times, and the words
of closed lists, which no data can choose.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_MADE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?|[0-9a-f]{32}|[0-9a-f]{64}"
)
"""Ids and times."""

CLOSED = frozenset({
    "status", "verdict", "gate_type", "effect", "effect_class", "phase", "event_type", "type", "kind", "state", "scope",
    "code", "method", "verb", "scopes", "roles", "gate_roles", "signed_in_by", "unit", "on_soft", "by", "op", "action",
    "since", "day", "channel", "consumer", "stream", "mode", "level", "restriction", "span", "text", "from",
    "signed_note",
})  # fmt: skip
"""Members whose values are words of the platform, or, as a policy is, are taken apart by rules of their own."""

FREE = frozenset({"args", "arguments", "labels", "result", "output", "payload", "params", "facts"})
"""Members whose value is whatever somebody sent; their own members are named by others too."""

ANYTHING = frozenset({"args", "arguments", "payload", "params"})
"""Those of them in which any value may stand."""

NAMED = frozenset({"properties", "equipped", "grants"})
"""Members whose members are named by others."""

Poison = Callable[[str], str]


def poisoned(value: Any, poison: Poison, free: object = ..., key: str = "") -> Any:
    """Return *value* with every text poisoned, and what may be anything replaced by *free* where that is given."""
    if key in ANYTHING and free is not ... and isinstance(value, dict):
        return {"<hostile-tag>": free}
    if isinstance(value, dict):
        named = (key in FREE or key in NAMED) and not all(name.isdigit() for name in value)
        return {poison(name) if named else name: poisoned(one, poison, free, name) for name, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one, poison, free, key) for one in value]
    if not isinstance(value, str) or key in CLOSED or _MADE.fullmatch(value):
        return value
    return poison(value)


class PoisonedApi:
    """Passes what it is asked on to *gateway*, and poisons the answer."""

    def __init__(self, gateway: httpx2.AsyncClient) -> None:
        self._gateway = gateway
        self._known: dict[tuple[str, bytes], httpx2.Response] = {}
        self.poison: Poison = str
        self.free: object = ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of the console."""
        request = Request(scope, receive)
        answer = await self._answer(request)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        asked = (request.url.path, request.scope["query_string"])
        found = self._known.get(asked) if request.method == "GET" else None
        if found is None:
            # As it was asked for: a decoded path may hold what no address can.
            query = asked[1] and b"?" + asked[1]
            target = httpx2.URL(raw_path=request.scope["raw_path"] + query)
            headers = {"Content-Type": request.headers.get("content-type", "application/json")}
            found = await self._gateway.request(request.method, target, content=await request.body(), headers=headers)
            if request.method == "GET":
                self._known[asked] = found
        if "json" not in found.headers.get("content-type", ""):
            return Response(found.content, found.status_code, {"content-type": found.headers.get("content-type", "")})
        told = found.json()
        if asked[0] not in UNTOUCHED:
            told = poisoned(told, self.poison, self.free)
        # Not a JSONResponse: what Python writes and reads as JSON has more numbers and texts than JSON.
        return Response(json.dumps(told), found.status_code, media_type="application/json")


UNTOUCHED = frozenset({"/v1/me", "/openapi.json", "/asyncapi.json"})
"""What the platform says of itself alone, and who looks on, who has to be let in."""

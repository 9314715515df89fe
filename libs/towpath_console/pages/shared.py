"""What several pages ask the API for."""

import asyncio
import re
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from towpath_console.api import ApiRefusalError

Found = TypeVar("Found")

FORBIDDEN = frozenset({403})
"""What a caller may not see is left out of a page that has other things to show."""

UNANSWERED = frozenset({503, 504})
"""Nobody who knows it answers."""


async def together(**asked: Awaitable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Ask for all at once; raises the ApiRefusalError of the first that is refused."""
    found = await asyncio.gather(*asked.values())
    return dict(zip(asked, found, strict=True))


async def if_allowed(asked: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Return what is asked for, or nothing where the caller may not see it."""
    try:
        return await asked
    except ApiRefusalError as error:
        if error.status not in FORBIDDEN:
            raise
        return {}


async def if_answered(asked: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Return what is asked for, or as `refusal` why the service that knows it does not answer now.

    While the platform is renewed, a service that is one version behind leaves unanswered what only the next one knows.
    """
    try:
        return await asked
    except ApiRefusalError as error:
        if error.status not in UNANSWERED:
            raise
        return {"refusal": dict(error.problem)}


def chosen(query: Mapping[str, str], *names: str) -> dict[str, str | None]:
    """Return those parameters of a query that the API knows by the same names."""
    return {name: query[name] or None for name in names if name in query}


_NAIVE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")


def with_zone(value: str) -> str:
    """Return a time with its zone: a browser's field has none, and is labelled as UTC."""
    return f"{value}Z" if _NAIVE.fullmatch(value) else value

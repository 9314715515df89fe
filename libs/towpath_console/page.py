"""What one page is made of."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from towpath_console.api import Api
from towpath_console.caller import ANYBODY, Caller


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows: `data` is what the API said and its JSON twin, `view` what only the drawing needs.

    `refresh_s` is how often it is looked at again while somebody looks on; None for what does not change. `status` is
    another than 200 where an action answers with a page because it did not do what was asked for.
    """

    title: str
    template: str
    data: Mapping[str, Any]
    view: Mapping[str, Any] = field(default_factory=dict)
    refresh_s: float | None = None
    status: int = 200


class Asked(NamedTuple):
    """What a page is made for: the caller's API, the parts of the path, and the query.

    Actions that need a scope know their `caller` too.
    """

    api: Api
    path: Mapping[str, str]
    query: Mapping[str, str]
    url: str
    caller: Caller = ANYBODY


class Done(NamedTuple):
    """Where the browser goes after an action, what is said there, and what it keeps of its own choices.

    It sends these back to the pages below `kept_path` alone.
    """

    location: str
    message: str = ""
    cookies: Mapping[str, str] = MappingProxyType({})
    kept_path: str = "/runs"


PageBuilder = Callable[[Asked], Awaitable[Page]]
Action = Callable[[Asked, Mapping[str, str]], Awaitable[Done | Page]]
"""What answers a question that is too long for an address answers with a page; what changes something, with Done."""


class Download(NamedTuple):
    """A file: its name, its media type, and its parts as they are made."""

    name: str
    kind: str
    parts: AsyncIterator[str]


class DownloadRoute(NamedTuple):
    """A file at a path; what refuses it does so before it begins."""

    path: str
    make: Callable[[Asked], Awaitable[Download]]


class PageRoute(NamedTuple):
    """A page at a path, in a section of the menu."""

    path: str
    build: PageBuilder
    section: str


class ActionRoute(NamedTuple):
    """What a form of a page is sent to.

    Who lacks `scope` is told so before anything is looked up or read: what is wrong with a form, or how things stand,
    is told to nobody who may not send it. Without one, the action changes nothing of the platform.
    """

    path: str
    act: Action
    scope: str
    section: str = ""

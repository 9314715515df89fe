"""Looks at every page of a console whose API answers hostile texts, and says what of a page does not hold."""

import asyncio
import itertools
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from time import process_time
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx2
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.console_fuzz.page_faults import page_faults
from tests.console_fuzz.poisoned_api import PoisonedApi
from tests.console_fuzz.texts import LONG_TEXTS, TEXTS, values
from tests.support.console.own_origin import origin_by_host
from tests.support.gateway.sse import frames

from towpath_console.sections import LIVE
from towpath_console.site import Console
from towpath_gateway.app.console import drawing_turns, form_turns

MAX_S = 10.0
"""Of the processor, for a page of 1 MB texts."""

WITHIN_S = 60
"""What a stream may take to send something, on a machine that others use too."""


MOST_OF_A_NAME = 128


class Trial(NamedTuple):
    """What is put in the place of each text that the API says, and of each value that may be anything."""

    name: str
    poison: Callable[[str], str] = str
    free: object = ...


def trials() -> list[Trial]:
    """Return all of them: each text behind what stood there, and in its place."""
    return [
        *(Trial(f"{name}, added", _added(text)) for name, text in TEXTS.items()),
        *(Trial(f"{name}, instead", _instead(text)) for name, text in TEXTS.items()),
        *(Trial(name, _where_long(text), text) for name, text in LONG_TEXTS.items()),
        *(Trial(name, free=value) for name, value in values().items()),
    ]


def short_trials() -> list[Trial]:
    """Return two that try most of it: every short text at once, with values that nobody expects, and addresses."""
    text = "".join(TEXTS.values())
    return [
        Trial("all texts, added", _added(text), list(values().values())),
        Trial("another host, instead", _instead(TEXTS["other host"])),
    ]


def seen_trials() -> list[tuple[Trial, Trial]]:
    """Return one for a browser, which tries most of it: what pages are opened with, and what their streams bring."""
    text = "".join(text for name, text in TEXTS.items() if name not in {"combining", "wide"})
    return [(Trial("all texts, added", _added(text)), Trial("all texts, instead", _instead(text)))]


def _added(text: str) -> Callable[[str], str]:
    return lambda said: f"{said}{text}"


def _where_long(text: str) -> Callable[[str], str]:
    """Put *text* where texts are that a contract lets be long: names are bounded."""
    return lambda said: text if len(said) > MOST_OF_A_NAME else said


def _instead(text: str) -> Callable[[str], str]:
    return lambda _: text


class PoisonedConsole:
    """A console at an address of its own, and the API that it asks."""

    def __init__(self, api: PoisonedApi, browser: httpx2.AsyncClient) -> None:
        self.api = api
        self.browser = browser
        self.streamed: Trial | None = None
        """What streams say from their beginning on, where it is another than the page says; drawn for each anew."""
        self._streams = itertools.count()

    def begin(self, trial: Trial) -> None:
        """Poison what the API says from now on as *trial* says."""
        self.api.poison, self.api.free = trial.poison, trial.free

    def open_stream(self, scope: Scope) -> None:
        """Let a stream begin that *scope* asks for.

        What a page drew is kept for the stream of the same caller: this one is asked for by another. It is sent the
        page whether or not that differs from what is shown.
        """
        if self.streamed is not None:
            self.begin(self.streamed)
            scope["query_string"] = scope["query_string"].partition(b"&seen=")[0]
            scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {next(self._streams)}".encode())]

    async def faults(self, path: str) -> list[str]:
        """Return what is wrong with the page at *path*, with its twin, and with what its stream sends."""
        began = process_time()
        page = await self.browser.get(path)
        took_s = process_time() - began
        found = [] if page.status_code < 500 else [f"answered {page.status_code}"]
        found += page_faults(page.text)
        if took_s > MAX_S:
            found.append(f"took {took_s:.1f} s")
        found += await self._twin_faults(path)
        if 'hx-sse:connect="/console/live?' in page.text:
            found += [f"stream: {one}" for one in await self._stream_faults(path)]
        return found

    async def _twin_faults(self, path: str) -> list[str]:
        answer = await self.browser.get(path, headers={"Accept": "application/json"})
        try:
            json.loads(answer.content, parse_constant=_refuse)
        except ValueError as error:
            return [f"twin: {error}"]
        return [] if answer.status_code < 500 else [f"twin: {answer.status_code}"]

    async def _stream_faults(self, path: str) -> list[str]:
        address = f"/console/live?{urlencode({'page': path})}"
        async with asyncio.timeout(WITHIN_S), self.browser.stream("GET", address) as stream:
            if stream.status_code >= 500:
                return [f"answered {stream.status_code}"]
            async for frame in frames(stream):
                if frame.event == "end":
                    break
                if frame.id:
                    return page_faults(frame.data)
        return ["nothing came"]


def _refuse(word: str) -> Any:
    msg = f"{word} is no JSON"
    raise ValueError(msg)


@asynccontextmanager
async def poisoned_console(gateway: httpx2.AsyncClient) -> AsyncIterator[PoisonedConsole]:
    """Serve a console whose API is that of *gateway*, poisoned."""
    api, stopping = PoisonedApi(gateway), asyncio.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    site = Console(api, stopping, origin_by_host, drawings=drawing_turns(), large_forms=form_turns())
    pages = site.application

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == LIVE:
            console.open_stream(scope)
        await pages(scope, receive, send)

    settings = uvicorn.Config(application, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(settings)
    task = asyncio.create_task(server.serve([listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with httpx2.AsyncClient(base_url=url, headers={"Accept": "text/html"}, timeout=120) as browser:
        console = PoisonedConsole(api, browser)
        yield console
    stopping.set()
    server.should_exit = True
    await task


async def try_all(
    console: PoisonedConsole, paths: Mapping[str, str], chosen: Iterable[Trial], told: Callable[[str], None] = str
) -> list[str]:
    """Return what does not hold, a line each; *told* hears of each trial."""
    wrong: list[str] = []
    for trial in chosen:
        console.begin(trial)
        found = [f"{trial.name}: {name}: {one}" for name, path in paths.items() for one in await console.faults(path)]
        wrong += found
        told(f"{trial.name}: {len(found)} faults on {len(paths)} pages")
    return wrong

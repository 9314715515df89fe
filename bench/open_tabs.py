"""Holds open pages of the console as browsers do, in a process of its own: for `console_tabs.py`.

Usage: `python open_tabs.py`, which reads on stdin what to open (one JSON line), and answers each further line with what
was counted since the last.
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlsplit

from towpath_embedded.platform import Platform

LOOKED_AT = {"/": 50, "/runs": 50, "/runs/RUN": 60, "/approvals": 40}
LOOK_S = 10.0
"""How long one tab is looked at before the next."""

OPEN_S = 300.0
"""How long is waited for all tabs to be open; how many were is in the result (`live`)."""

LONGEST_S = 1_200.0
"""How long tabs are held at most, whoever may have forgotten them."""


class Tab(NamedTuple):
    """One open page: its path, and whose it is."""

    path: str
    person: int


class Tabs:
    """Open pages of *url*, which are opened with *authorization*: what they were sent, counted."""

    def __init__(self, url: str, authorization: str, tabs: Sequence[Tab], *, one_in_view: bool) -> None:
        self.place = urlsplit(url)
        self.authorization = authorization
        self.tabs = tabs
        self.in_view = {tab: asyncio.Event() for tab in tabs}
        self.most_live = len({tab.person for tab in tabs}) if one_in_view else len(tabs)
        self.streams: dict[Tab, asyncio.StreamWriter] = {}
        self.loaded = 0
        self.events: Counter[str] = Counter()
        self.drawn: set[tuple[Tab, bytes]] = set()
        self.bytes = 0
        self.live = 0
        self.all_live = asyncio.Event()
        self._loads = asyncio.Semaphore(2)  # people open pages one after the other

    async def follow(self, tab: Tab) -> None:
        """Load the page, and follow it for ever."""
        found = None
        while found is None:
            with contextlib.suppress(OSError):
                async with self._loads:
                    page = await self._load(tab)
                if (found := re.search(rb"seen=(\w+)", page)) is None:
                    await asyncio.sleep(1)  # refused for now, or the run has ended
        self.loaded += 1
        seen, retry_s = found[1], 1.0
        while True:
            await self.in_view[tab].wait()
            counted = False
            with contextlib.suppress(OSError):
                reader, writer = await self._ask(tab, f"/console/live?page={quote(tab.path)}", seen)
                self.streams[tab] = writer
                if not self.in_view[tab].is_set():
                    writer.close()
                try:
                    while part := await reader.read(1 << 18):
                        self.bytes += len(part)
                        if not counted:
                            counted = True
                            self._count(1)
                        if wait := re.search(rb"retry: (\d+)", part):
                            retry_s = int(wait[1]) / 1000
                        if ids := re.findall(rb"(?:^|\n)id: (\w+)", part):
                            seen = ids[-1]
                            self.events[kind_of(tab.path)] += len(ids)
                            self.drawn |= {(tab, one) for one in ids}
                finally:
                    writer.close()
            self._count(-counted)
            if self.in_view[tab].is_set():
                await asyncio.sleep(retry_s * random.uniform(0.7, 1.3))

    async def look(self, person: int | None) -> None:
        """Bring one tab after the other of *person* into view, and close the stream of the last; None: all at once."""
        own = [tab for tab in self.tabs if person in {None, tab.person}]
        if person is None:
            for tab in own:
                self.in_view[tab].set()
            return
        for tab in itertools.cycle(own):
            self.in_view[tab].set()
            await asyncio.sleep(LOOK_S)
            self.in_view[tab].clear()
            if tab in self.streams:
                self.streams.pop(tab).close()

    def _count(self, more: int) -> None:
        self.live += more
        if self.live >= self.most_live and self.loaded == len(self.tabs):
            self.all_live.set()
        else:
            self.all_live.clear()

    async def _load(self, tab: Tab) -> bytes:
        reader, writer = await self._ask(tab, tab.path, None)
        page = await reader.read()
        writer.close()
        return page

    async def _ask(self, tab: Tab, path: str, seen: bytes | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.place.hostname, self.place.port, limit=1 << 20)
        last = f"Last-Event-ID: {seen.decode()}\r\n" if seen else "Connection: close\r\nAccept: text/html\r\n"
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {self.place.netloc}\r\nAuthorization: {self.authorization}\r\n"
            f"Cookie: person={tab.person}\r\n{last}\r\n".encode()
        )
        return reader, writer


def kind_of(path: str) -> str:
    """Name a page by what it shows."""
    return {"/": "overview", "/runs": "runs", "/approvals": "approvals"}.get(path, "run")


def tabs_of(run_ids: Sequence[str], people: int) -> list[Tab]:
    """Return all tabs, those of each kind in turns of *people*."""
    runs = iter(run_ids)
    paths = [path for path, number in LOOKED_AT.items() for _ in range(number)]
    paths = [path.replace("RUN", next(runs)) if "RUN" in path else path for path in paths]
    return [Tab(path, number % people) for number, path in enumerate(paths)]


async def hold_tabs() -> None:
    """Open the tabs that stdin tells of; each further line is answered with what was counted since the last."""
    told = json.loads(sys.stdin.readline())
    opened = [Tab(*one) for one in told["tabs"]]
    tabs = Tabs(told["url"], told["authorization"], opened, one_in_view=told["one_in_view"])
    people = sorted({tab.person for tab in opened}) if told["one_in_view"] else [None]
    tasks = [asyncio.create_task(work) for work in (*map(tabs.follow, opened), *map(tabs.look, people))]
    asyncio.get_running_loop().call_later(LONGEST_S, os._exit, 1)
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if command == "wait":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(tabs.all_live.wait(), OPEN_S)
        counted = {"events": dict(tabs.events), "drawn": len(tabs.drawn), "bytes": tabs.bytes, "live": tabs.live}
        tabs.events.clear()
        tabs.drawn.clear()
        tabs.bytes = 0
        print(json.dumps(counted), flush=True)
    for task in tasks:
        task.cancel()


class OpenTabs:
    """The process that holds the tabs, from here."""

    def __init__(self, platform: Platform, tabs: Sequence[Tab], *, one_in_view: bool) -> None:
        self._first = {
            "one_in_view": one_in_view,
            "url": platform.gateway_url,
            "authorization": platform.access.authorization().get("Authorization", "none"),
            "tabs": tabs,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(sys.executable, __file__, stdin=pipe, stdout=pipe)
        self._say(json.dumps(self._first))
        await self.told("wait")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()
        await self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def told(self, command: str) -> dict[str, Any]:
        """Return what was counted since the last time; with "wait" once all tabs are live."""
        assert self._process is not None and self._process.stdout is not None
        self._say(command)
        return json.loads(await self._process.stdout.readline())


if __name__ == "__main__":
    asyncio.run(hold_tabs())

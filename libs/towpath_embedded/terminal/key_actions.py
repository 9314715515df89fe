"""What the keys of `towpath up` do: read files again, open the console, ask the doctor, show logs, quit."""

import asyncio
import contextlib
import html
import json
import os
import sys
import webbrowser
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.cli.shared.text import one_line
from towpath_embedded.console import UpConsole
from towpath_embedded.platform import Platform
from towpath_embedded.refused_files import RefusedFiles, placed
from towpath_embedded.terminal.own_gateway import ANSWER_ERRORS, connect
from towpath_fabric.file_owners import write_private

if TYPE_CHECKING:
    from towpath_embedded.network_folder import NetworkFolderPublisher

KEYS: Mapping[str, str] = {
    "r": "reload",
    "o": "open console",
    "d": "doctor",
    "l": "logs",
    "q": "quit",
    "?": "help",
}
_HELP = (
    "r  publishes every network and applies the policy again, as if each file had just been saved",
    "o  opens the console in a browser, which is signed in by it",
    "d  has the doctor look at everything: towpath doctor",
    "l  shows the logs of all processes here, or hides them again",
    "q  stops all in order, as Ctrl-C does",
)
DOCTOR_S = 60.0
LINK_FILE = "open-console.html"
_LINK = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={}"><title>Towpath</title>\n'


class KeyActions:
    """The actions by their keys; one that is still under way is not begun twice.

    *folder* has the networks that are published from files, *policy* is the file that is followed, if there are any.
    """

    def __init__(
        self,
        platform: Platform,
        screen: UpConsole,
        refused: RefusedFiles,
        stopping: asyncio.Event,
        *,
        folder: "NetworkFolderPublisher | None",
        policy: Path | None,
    ) -> None:
        self._platform = platform
        self._screen = screen
        self._refused = refused
        self._stopping = stopping
        self._folder = folder
        self._policy = policy
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def by_key(self) -> dict[str, Callable[[], object]]:
        """Return what each key does."""
        return {
            "r": lambda: self._begin("r", self._reload),
            "o": lambda: self._begin("o", self._open_console),
            "d": lambda: self._begin("d", self._ask_doctor),
            "l": self._switch_logs,
            "q": self._stopping.set,
            "?": self._help,
        }

    async def stop(self) -> None:
        """End what is under way."""
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        (self._platform.data / LINK_FILE).unlink(missing_ok=True)

    def _begin(self, key: str, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if key not in self._under_way or self._under_way[key].done():
            self._under_way[key] = asyncio.create_task(action(), name=f"key {key}")

    def _help(self) -> None:
        for line in _HELP:
            self._screen.notice(line)

    def _switch_logs(self) -> None:
        self._screen.shows_logs = not self._screen.shows_logs
        self._screen.notice(f"logs are {'shown' if self._screen.shows_logs else 'hidden'}")

    async def _reload(self) -> None:
        """Publish and apply every file as if it had just been saved, whatever stands in its place now."""
        if self._folder is None and self._policy is None:
            self._screen.notice("there is no file to reload: neither --networks nor --policy was given")
        if self._folder is not None:
            self._folder.publish_again()
        if self._policy is not None:
            await self._apply(self._policy)

    async def _apply(self, policy: Path) -> None:
        try:
            body = {"text": await asyncio.to_thread(policy.read_text, "utf-8"), "source": str(policy)}
            async with connect(self._platform.client_url) as client:
                response = await client.post("/v1/policy", json=body)
                answer: Any = response.json()
            if response.is_success:
                self._refused.put(policy.name, ())
                changed = "" if answer["changed"] else ", as before"
                self._screen.notice(f"{policy.name} in force: version {answer['version']}{changed}")
                return
            faults = [one["detail"] for one in answer.get("errors", ())] or [answer["detail"]]
            self._refused.put(policy.name, [placed(policy.name, one_line(fault)) for fault in faults])
        except (*ANSWER_ERRORS, OSError) as error:
            self._screen.notice(f"{policy.name} was not applied: {type(error).__name__}: {one_line(error, 200)}")

    async def _open_console(self) -> None:
        """Open a browser; the code of the link is in a file, since any user may read the words of a command."""
        gateway = self._platform.gateway_url
        link = self._platform.access.sign_in_url(gateway)
        if not has_display(os.environ):
            self._screen.notice(f"no browser can be opened from here; open {link or gateway}")
            return
        target = gateway
        if link is not None:
            file = self._platform.data / LINK_FILE
            write_private(file, _LINK.format(html.escape(link)))
            target = file.as_uri()
        if not await asyncio.to_thread(webbrowser.open, target):
            self._screen.notice(f"no browser was found; open {link or gateway}")

    async def _ask_doctor(self) -> None:
        self._screen.notice("the doctor looks at everything …")
        token = self._platform.access.authorization().get("Authorization", "").removeprefix("Bearer ")
        asked = {"TOWPATH_SERVER": self._platform.gateway_url, **({"TOWPATH_API_KEY": token} if token else {})}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "towpath.cli", "doctor", "-o", "json"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self._platform.data.parent,
            env={**os.environ, **asked},
        )
        try:
            async with asyncio.timeout(DOCTOR_S):
                written, _ = await process.communicate()
            for line, style in doctor_lines(json.loads(written)["checks"]):
                self._screen.notice(line, style)
        except (TimeoutError, ValueError, KeyError, TypeError) as error:
            self._screen.notice(f"the doctor gave no answer: {type(error).__name__}; ask it: towpath doctor")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def doctor_lines(checks: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what is wrong, with its remedy, and how much was looked at, each with a style."""
    wrong = [check for check in checks if check["good"] is False]
    lines = [
        (f"✕ {one_line(check['check'])}: {one_line(check['detail'], 200)} · {one_line(check['remedy'], 200)}", "red")
        for check in wrong
    ]
    summary = f"✕ {len(wrong)} of {len(checks)} checks failed" if wrong else f"✓ {len(checks)} checks, nothing is wrong"
    return [*lines, (summary, "red" if wrong else "green")]


def has_display(environment: Mapping[str, str]) -> bool:
    """Return whether a browser would open in a window: without one it might take this very terminal."""
    known = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform != "linux" or any(environment.get(name) for name in known)

"""What the keys of `towpath up` do: read files again, open the console, ask the doctor, show logs, quit."""

import asyncio
import contextlib
import html
import json
import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.cli.shared.text import one_line
from towpath.client.http import error_of_response
from towpath.errors import TowpathError
from towpath_contracts.problems.input_faults import locate_fault
from towpath_contracts.problems.registry import Problem
from towpath_contracts.text import join_sentences
from towpath_embedded.console import UpConsole
from towpath_embedded.platform import Platform
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.terminal.own_gateway import ANSWER_ERRORS, connect
from towpath_fabric.file_owners import write_private

if TYPE_CHECKING:
    from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
    from towpath_embedded.terminal.worker_reload import WorkerReload

_KEY_TEXTS: Mapping[str, tuple[str, str]] = {
    "r": (
        "reload",
        "restarts the worker with its tools, publishes every network and applies the policy, as if each was just saved",
    ),
    "o": ("open console", "opens the console in a browser, by a link that signs in once"),
    "d": ("doctor", "has the doctor look at everything: towpath doctor"),
    "l": ("logs", "shows the logs of all processes here, or hides them again"),
    "q": ("quit", "stops all in order, as Ctrl-C does"),
    "?": ("help", "tells this"),
}
"""What each key is called in the line of keys, and what the help says of it."""

KEYS: Mapping[str, str] = {key: name for key, (name, _) in _KEY_TEXTS.items()}
_OF_THE_FILE = frozenset({"policy_invalid", "request_invalid", "request_too_large"})
"""Why a policy is refused for what stands in its file."""

_AGAIN = "Press r again; what is wrong: towpath doctor"
_KEY_MISSING = "Set TOWPATH_API_KEY before towpath up, or: towpath policy apply FILE --api-key KEY"
DOCTOR_S = 60.0
LINK_FILE = "open-console.html"
_LINK = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={}"><title>Towpath</title>\n'


class KeyActions:
    """The actions by their keys; one that is still under way is not begun twice.

    *folder* has the networks that are published from files, *policy* is the file that is followed, *worker* restarts
    the one with a person's own tools, if there are any.
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
        worker: "WorkerReload | None" = None,
    ) -> None:
        self._platform = platform
        self._screen = screen
        self._refused = refused
        self._stopping = stopping
        self._folder = folder
        self._policy = policy
        self._worker = worker
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
        for key, (_, what) in _KEY_TEXTS.items():
            self._screen.notice(f"{key}  {what}")

    def _switch_logs(self) -> None:
        self._screen.shows_logs = not self._screen.shows_logs
        self._screen.notice(f"logs are {'shown' if self._screen.shows_logs else 'hidden'}")

    async def _reload(self) -> None:
        """Serve, publish and apply every file as if it had just been saved, whatever stands in its place now."""
        if self._folder is None and self._policy is None and self._worker is None:
            self._screen.notice("there is no file to reload: neither --worker nor --networks nor --policy was given")
        if self._worker is not None:  # first: networks equip its tools
            await self._worker.restart()
        if self._folder is not None:
            self._folder.publish_again()
        if self._policy is not None:
            await self._apply(self._policy)

    async def _apply(self, policy: Path) -> None:
        try:
            body = {"text": await asyncio.to_thread(policy.read_text, "utf-8"), "source": str(policy)}
        except UnicodeDecodeError as error:
            self._refused.put(policy.name, [f"{policy.name}: {one_line(error, 200)}"])
            return
        except OSError as error:
            self._screen.notice(f"{policy.name} was not applied: it can't be read: {one_line(error, 200)}")
            return
        try:
            async with connect(self._platform.client_url) as client:
                response = await client.post("/v1/policy", json=body)
            if not response.is_success:
                raise error_of_response(response.status_code, response.content)
            answer: Any = response.json()
            in_force = (
                f"{policy.name} in force: version {answer['version']}{'' if answer['changed'] else ', as before'}"
            )
            self._refused.put(policy.name, ())
            for warning in answer.get("warnings", ()):
                self._screen.notice(locate_fault(policy.name, str(warning)), "yellow")
            self._screen.notice(in_force)
        except TowpathError as error:
            self._refuse(policy.name, error.problem)
        except (*ANSWER_ERRORS, OSError) as error:
            why = f"{type(error).__name__}: {one_line(error, 200)}"
            self._screen.notice(f"{policy.name} was not applied: {why}. {_AGAIN}")

    def _refuse(self, name: str, why: Problem) -> None:
        """Keep what is wrong with the file; what is wrong elsewhere says nothing of it, and is told alone."""
        if why.code in _OF_THE_FILE:
            faults = [one.detail for one in why.errors] or [why.detail]
            self._refused.put(name, [locate_fault(name, one_line(fault)) for fault in faults])
            return
        remedy = _KEY_MISSING if why.status == HTTPStatus.UNAUTHORIZED else _AGAIN if why.retryable else why.remedy
        self._screen.notice(join_sentences(f"{name} was not applied: {why.code}: {one_line(why.detail, 200)}", remedy))

    async def _open_console(self) -> None:
        """Open a browser; the code of the link is in a file, since any user may read the words of a command."""
        gateway = self._platform.gateway_url
        link = self._platform.access.sign_in_url(gateway)
        told = gateway if link is None else f"{link} (the link signs in once)"
        if not has_display(os.environ):
            self._screen.notice(f"no browser can be opened from here; open {told}")
            return
        target = gateway
        if link is not None:
            file = self._platform.data / LINK_FILE
            write_private(file, _LINK.format(html.escape(link)))
            target = file.as_uri()
        self._screen.notice(f"opening the console in a browser; where none opens it: {told}")
        loop = asyncio.get_running_loop()
        missing = partial(self._screen.notice, f"no browser was found; open {told}")
        # Some browsers are waited for until they are closed, which is not to hold up the end: no thread of the loop.
        threading.Thread(target=open_browser, args=(target, loop, missing), name="open browser", daemon=True).start()

    async def _ask_doctor(self) -> None:
        self._screen.notice("the doctor looks at everything …")
        process = None
        try:
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
            async with asyncio.timeout(DOCTOR_S):
                written, _ = await process.communicate()
            for line, style in doctor_lines(json.loads(written)["checks"]):
                self._screen.notice(line, style)
        except (OSError, ValueError, KeyError, TypeError) as error:  # also that it takes too long
            self._screen.notice(f"the doctor gave no answer: {type(error).__name__}; ask it: towpath doctor")
        finally:
            if process is not None:
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


def open_browser(target: str, loop: asyncio.AbstractEventLoop, missing: Callable[[], None]) -> None:
    """Open *target*, for as long as that takes, and have *loop* call *missing* where there is no browser."""
    try:
        is_opened = webbrowser.open(target)
    except (webbrowser.Error, OSError):
        is_opened = False
    if not is_opened:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(missing)


def has_display(environment: Mapping[str, str]) -> bool:
    """Return whether a browser would open in a window: without one it might take this very terminal."""
    known = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform != "linux" or any(environment.get(name) for name in known)

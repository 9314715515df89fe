"""`/livez`, `/readyz` and `/metrics` of every service, and the watchdog thread that ends a stuck process.

Live means that the event loop runs; ready means that every check passed just now. Requests that come together share one
run of the checks, and one rendering of the metrics. A process whose event loop is blocked is ended by a thread, since
nothing on the loop could do it; and by the kernel where a library lets no thread run.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import ipaddress
import json
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from towpath_fabric.clock import monotonic
from towpath_fabric.turns.shared_answers import SharedAnswer

Check = Callable[[], Awaitable[None]]
Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

CHECK_TIMEOUT_S = 2.0

RENDERS_EVERY_S = 0.25
"""A rendering takes milliseconds of the event loop."""

CHECKS_EVERY_S = 0.1
STUCK_AFTER_S = 15.0

ASKS_EVERY_S = 5.0
"""How often the watchdog wakes the event loop of an idle process."""


async def _answer(send: Send, status: int, body: bytes, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Health:
    """Answers the three paths; also an ASGI app of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._checks: dict[str, Check] = {}
        self._rendered = SharedAnswer(self._render, RENDERS_EVERY_S)
        self._readiness = SharedAnswer(self.readiness, CHECKS_EVERY_S)

    def check(self, name: str, check: Check) -> None:
        """Add a readiness check: it raises where the service is not ready."""
        self._checks[name] = check

    async def readiness(self) -> dict[str, str]:
        """Run every check; the value is `ok` or the error."""
        found: dict[str, str] = {}
        for name, check in self._checks.items():
            try:
                await asyncio.wait_for(check(), CHECK_TIMEOUT_S)
            except TimeoutError:
                found[name] = "no answer in time"
            except Exception as error:  # noqa: BLE001 - whatever a check raises, the answer is "not ready" and why
                found[name] = f"{type(error).__name__}: {error}"
            else:
                found[name] = "ok"
        return found

    async def livez(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 as long as the event loop runs."""
        await _answer(send, 200, b'{"status":"ok"}', "application/json")

    async def readyz(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 when every check passes, else 503 with what is missing."""
        checks = await self._readiness.get()
        status = 200 if all(value == "ok" for value in checks.values()) else 503
        await _answer(send, status, json.dumps({"checks": checks}).encode(), "application/json")

    async def metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the registry in Prometheus's text form."""
        await _answer(send, 200, await self._rendered.get(), CONTENT_TYPE_LATEST)

    async def _render(self) -> bytes:
        return generate_latest(self._registry)


class EventLoopWatchdog:
    """A thread that ends the process when the event loop was blocked for *stuck_after_s*: with status 70.

    It asks the event loop for an answer every *every_s*, and ends the process at most that much later. No thread can
    where a library computes without letting Python go on (one that holds the interpreter's lock, such as that of CEL):
    then the kernel ends the process with SIGALRM (`CpuTimer`). What the threads were doing is written to the log
    in both cases.
    """

    def __init__(self, stuck_after_s: float = STUCK_AFTER_S, every_s: float = ASKS_EVERY_S) -> None:
        self._stuck_after_s = stuck_after_s
        self._every_s = every_s
        self._answered = True
        self._stopped = threading.Event()

    async def run(self) -> None:
        """Answer for ever; cancel to stop."""
        loop = asyncio.get_running_loop()
        timer = CpuTimer(self._stuck_after_s + 2 * self._every_s)  # later than the thread, which ends it where it can
        threading.Thread(target=self._watch, args=(loop,), name="loop-watchdog", daemon=True).start()
        try:
            while True:
                timer.begin_anew()
                await asyncio.sleep(self._every_s)
        finally:
            timer.close()
            self._stopped.set()

    def _answer(self) -> None:
        self._answered = True

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        asked = last_check = monotonic()
        while not self._stopped.wait(self._every_s):
            now = monotonic()
            if now - last_check > 2 * self._every_s:  # the whole process was stopped (SIGSTOP, a sleeping laptop)
                asked = now
            last_check = now
            if self._answered:
                self._answered = False
                asked = now
                with contextlib.suppress(RuntimeError):  # the loop was closed just now
                    loop.call_soon_threadsafe(self._answer)
            elif now - asked > self._stuck_after_s:
                faulthandler.dump_traceback(file=sys.stderr)
                os._exit(70)


class CpuTimer:
    """Ends the process by SIGALRM once the thread that made this has computed for *seconds* since it last began anew.

    The kernel counts the time of that one thread on a processor, so a process that was stopped, a machine that slept,
    and other threads do not matter. Needs Linux, and a C library that has timers; elsewhere it does nothing. The main
    thread makes it, once per process.
    """

    _CLOCK_THREAD_CPUTIME_ID = 3

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer = ctypes.c_void_p()
        self._library = _timer_library() if sys.platform == "linux" else None
        if threading.current_thread() is not threading.main_thread():
            self._library = None
        if self._library is not None:
            made = self._library.timer_create(self._CLOCK_THREAD_CPUTIME_ID, None, ctypes.byref(self._timer)) == 0
            self._library = self._library if made else None
        if self._library is not None:
            with contextlib.suppress(OSError, ValueError):  # a program may have put something else in place of stderr
                faulthandler.register(signal.SIGALRM, file=sys.stderr, chain=True)  # its handler waits for no lock

    def begin_anew(self) -> None:
        """Count from 0 again."""
        if self._library is not None:
            whole, part = divmod(self._seconds, 1)
            interval_and_value = (ctypes.c_long * 4)(0, 0, int(whole), int(part * 1e9))
            self._library.timer_settime(self._timer, 0, ctypes.byref(interval_and_value), None)

    def close(self) -> None:
        """Never end the process."""
        if self._library is not None:
            self._library.timer_delete(self._timer)
            faulthandler.unregister(signal.SIGALRM)
            self._library = None


def _timer_library() -> ctypes.CDLL | None:
    """Return the library that has timers: that of C, before glibc 2.34 one beside it; None where neither has them."""
    for name in (None, "librt.so.1"):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            if all(hasattr(library, function) for function in ("timer_create", "timer_settime", "timer_delete")):
                return library
    return None


def refused_host(headers: Iterable[tuple[bytes, bytes]], known: Collection[str]) -> str | None:
    """Return why a request without a key is refused for its Host, or None; *known* are names that are answered to.

    A web page of another site reaches this machine through a name of its own that is made to point here (DNS
    rebinding), and the browser still sends that name. An address, or a name without a dot, can't be made to point
    elsewhere by a stranger; and a request without a Host is none of a browser.
    """
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    name = _host_name(hosts[0]) if hosts else ""
    if "." not in name or _is_address(name) or name in known:
        return None
    return f"{name!r} is not a name of this service: add it to TOWPATH_HTTP_HOSTS, or ask by address"


def _host_name(host: str) -> str:
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0].partition("%")[0]
    return text.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""A tool worker inside a program of one's own: the one of `towpath worker`, for tools that the program has made.

The package of the worker is above the SDK and imported when a worker starts, so that importing this costs nothing.
Nothing of the process is changed: logging, signals and environment stay the program's, unless it calls `run`.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from towpath.declared_places import checks_keywords, declared_place
from towpath.errors import DeclarationError, RefusedError, TowpathError, error_from
from towpath.hooks import Hook
from towpath.toolbox import WorkerTools
from towpath.tools.declaration import Tool, tool
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath_fabric.nats.bus import Bus
    from towpath_fabric.telemetry.recorder import SpanRecorder
    from towpath_worker.app.worker import ToolWorker
    from towpath_worker.settings import WorkerSettings


def _check_served(tools: object) -> None:
    """Raise DeclarationError, with the caller's line, for what is no list of tools and functions."""
    takes = f"{declared_place()}: Worker takes tools and functions, such as Worker([look])"
    if isinstance(tools, str | os.PathLike):
        msg = f"{takes}, not the text {str(tools)!r}; a file of tools is served by: towpath worker {tools}"
        raise DeclarationError(msg)
    if not isinstance(tools, Iterable):
        msg = f"{takes}, in a list; {tools!r} is none"
        raise DeclarationError(msg)
    if isinstance(tools, list | tuple) and (wrong := [one for one in tools if not callable(one)]):
        msg = f"{takes}; {wrong[0]!r} is none"
        raise DeclarationError(msg)


@checks_keywords
class Worker:
    """Serves tools: `async with Worker([look]): …` while the block runs, `Worker([look]).run()` until a signal.

    Plain functions become tools of *toolset*, and tools keep their own. What is not given is read from the environment,
    as `towpath worker` does: `TOWPATH_NATS_URL`, `TOWPATH_NATS_USER`, `TOWPATH_PROJECT`, `TOWPATH_WORKER_CONCURRENCY`.
    """

    def __init__(
        self,
        tools: Iterable["Tool[..., Any] | Callable[..., Any]"],
        *,
        url: str | None = None,
        user: str | None = None,
        password: str | None = None,
        project: str | None = None,
        toolset: str = "default",
        concurrency: int | None = None,
        hooks: Iterable[Hook] = (),
    ) -> None:
        """Take what to serve and where; raises DeclarationError for tools that can't be offered."""
        _check_served(tools)
        served = [one if isinstance(one, Tool) else tool(toolset=toolset)(one) for one in tools]
        if not served:
            msg = "a worker has at least one tool: Worker([my_function])"
            raise DeclarationError(msg)
        self._tools = WorkerTools(served)
        self._hooks = tuple(hooks)
        given = {
            "nats_url": url,
            "nats_user": user,
            "nats_password": password,
            "project": project,
            "worker_concurrency": concurrency,
        }
        self._given = {name: value for name, value in given.items() if value is not None}
        self._serving: asyncio.Task[None] | None = None
        self._worker: ToolWorker | None = None
        self._bus: Bus | None = None
        self._telemetry: SpanRecorder | None = None
        self._grace_s = 0.0

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM, with health paths and a log, as the process `towpath worker` does.

        Calls that run are given their time to end. Raises DeniedError where the broker refuses this login, RefusedError
        for files of a login that can't be used, and TowpathError for tools that the platform refuses. Where a tool
        ignores its timeout the process ends here: Python would wait for its thread for ever.
        """
        from towpath_fabric.service import Service  # noqa: PLC0415
        from towpath_worker.wiring import make_worker  # noqa: PLC0415

        settings = self._settings()
        with _login_files_refused():
            service = Service("worker", settings)
        worker = make_worker(service, settings, self._tools, self._hooks)
        code = service.run()
        if worker.overrun:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        if service.problem is not None:
            raise error_from(service.problem)
        if code:
            raise TowpathError(problem("service_failed", "the worker ended by an error, which its log has"))

    async def __aenter__(self) -> Self:
        """Start, and return once the platform has taken the tools; raises what `run` raises."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415

        from towpath_fabric.nats.bus import Bus  # noqa: PLC0415
        from towpath_fabric.telemetry.logs import get_logger  # noqa: PLC0415
        from towpath_fabric.telemetry.recorder import SpanRecorder  # noqa: PLC0415
        from towpath_worker.wiring import CLOSE_S, new_worker  # noqa: PLC0415

        settings, registry = self._settings(), CollectorRegistry()
        self._telemetry = SpanRecorder("worker", settings, registry)
        self._grace_s = max(0.5, settings.stop_grace_s - CLOSE_S)
        try:
            with _login_files_refused():
                self._bus = Bus("worker", settings, self._telemetry.requests)
            await self._bus.connect()
            self._worker = new_worker(
                self._bus, settings, self._tools, self._hooks, get_logger("worker"), registry, self._telemetry
            )
            self._serving = asyncio.create_task(self._worker.run(), name="worker")
            registered = asyncio.create_task(self._worker.registered.wait())
            await asyncio.wait({registered, self._serving}, return_when=asyncio.FIRST_COMPLETED)
            registered.cancel()
            if self._serving.done():
                await self._serving
        except BaseException as error:
            await self._close()
            found = _only(error)
            if isinstance(found, ProblemError):
                raise error_from(found.problem) from error
            raise
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Take nothing new, let running calls end within the grace period, and close; raises what ended the worker."""
        assert self._worker is not None and self._serving is not None
        ended = self._serving.done()
        try:
            if not ended:
                await self._worker.drain(self._grace_s)
        finally:
            await self._close()
        if ended and not self._serving.cancelled() and (failed := self._serving.exception()) is not None:
            raise _only(failed)

    async def _close(self) -> None:
        try:
            if self._serving is not None:
                self._serving.cancel()
                await asyncio.wait({self._serving})
        finally:
            if self._bus is not None:
                with contextlib.suppress(RuntimeError):  # it was never connected
                    await self._bus.close()
            if self._telemetry is not None:
                await self._telemetry.flush()

    def _settings(self) -> "WorkerSettings":
        from towpath_worker.settings import WorkerSettings  # noqa: PLC0415

        return WorkerSettings.load(**self._given).model_copy(update={"database_url": None})


@contextlib.contextmanager
def _login_files_refused() -> Iterator[None]:
    from towpath_fabric.nats.login import LoginFileError  # noqa: PLC0415

    try:
        yield
    except LoginFileError as error:
        raise RefusedError(problem("request_invalid", str(error))) from error


def _only(error: BaseException) -> BaseException:
    """Return the one error inside of a group, or *error* itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error

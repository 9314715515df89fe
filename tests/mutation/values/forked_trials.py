"""Runs tests against mutated modules in forks of one process that has pytest and other packages imported already.

A fork imports the mutated modules, and what needs them, anew; so every name in whatever module means the mutated
value, also where it was read when a class was made. It ends with the trial, so no trial is seen by another. While
tests run, all is as in the suite: one that fails in a trial without mutations can't tell anything about a mutant.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from tests.mutation.values.import_graph import ImportGraph

from towpath_fabric import garbage_collector

Sources = Mapping[str, tuple[Path, bytes]]
"""By their names, modules that are mutated: where each is, and what it holds."""


@dataclass(kw_only=True)
class TrialReport:
    """What pytest said: the tests that ran, those that failed and why, and the seconds that each file took."""

    ran: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    ended: bool = True


SHOWN_CHARS = 300
"""Of why a test failed."""


class _Watch:
    """Collects the reports of a trial, but for the failures of what is left out."""

    def __init__(self, leave_out: Collection[str]) -> None:
        self.report = TrialReport()
        self._leave_out = leave_out

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.report.ran.append(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        place = report.nodeid.partition("::")[0]
        self.report.seconds[place] = self.report.seconds.get(place, 0.0) + report.duration
        if report.failed and report.nodeid not in self.report.failed:
            self.report.failed.append(report.nodeid)
            self.report.why[report.nodeid] = _summary(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._leave_out:
            self.report.failed.append(report.nodeid)
            self.report.why[report.nodeid] = _summary(report)


def _summary(report: pytest.TestReport | pytest.CollectReport) -> str:
    lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return " ".join(lines)[:SHOWN_CHARS]


class _MutatedLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from its mutated source; tracebacks show the file as it is."""

    def __init__(self, name: str, path: Path, source: bytes) -> None:
        super().__init__(name, str(path))
        self._mutated = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._mutated, self.path, "exec", dont_inherit=True)


class _MutatedFinder(importlib.abc.MetaPathFinder):
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._sources:
            return None
        place, source = self._sources[fullname]
        loader = _MutatedLoader(fullname, place, source)
        folders = [str(place.parent)] if place.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, place, loader=loader, submodule_search_locations=folders
        )


class ForkedTrials:
    """Trials within the session of a pytest that has collected nothing itself."""

    def __init__(self, session: pytest.Session, graph: ImportGraph) -> None:
        self._session = session
        self._graph = graph

    def run(
        self,
        sources: Sources,
        places: Sequence[str],
        *,
        until_failure: bool,
        limit_s: float,
        only_collect: bool = False,
        leave_out: Collection[str] = (),
    ) -> TrialReport:
        """Run the tests of *places* but for *leave_out*, with the modules of *sources* in the place of those there."""
        said = forked(
            lambda: asdict(self._trial(sources, places, until_failure, only_collect, leave_out)), limit_s=limit_s
        )
        return TrialReport(**said) if said is not None else TrialReport(failed=[_HANGS.format(limit_s)], ended=False)

    def preload(self, names: Iterable[str]) -> None:
        """Import modules that later trials need and that none of them mutates."""
        with garbage_collector.paused():
            for name in sorted(names):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)

    def _trial(
        self,
        sources: Sources,
        places: Sequence[str],
        until_failure: bool,
        only_collect: bool,
        leave_out: Collection[str],
    ) -> TrialReport:
        if sources:
            _forget(self._graph.dependents(sources))
            sys.meta_path.insert(0, _MutatedFinder(sources))
        watch = _Watch(leave_out)
        self._session.config.pluginmanager.register(watch)
        with garbage_collector.paused():  # only while it imports: tests find the collector as it is in the suite
            found = [item for group in _by_file(places) for item in self._collected(group)]
        items = [item for item in found if item.nodeid not in leave_out]
        if not only_collect and not (until_failure and watch.report.failed):
            for number, item in enumerate(items):
                following = items[number + 1] if number + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if until_failure and watch.report.failed:
                    break
        return watch.report

    def _collected(self, places: Sequence[str]) -> list[pytest.Item]:
        """Return the tests of *places*, of one file; a test that noticed a mutant once may be gone by now."""
        try:
            return list(self._session.perform_collect(list(places)))
        except pytest.UsageError:
            return [item for place in places for item in self._collected([place])] if len(places) > 1 else []


def _by_file(places: Sequence[str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for place in places:
        groups.setdefault(place.partition("::")[0], []).append(place)
    return list(groups.values())


_HANGS = "not finished after {:.0f} s"


def _forget(names: Iterable[str]) -> None:
    """Have modules imported anew, and let those of them that measure something register their metrics anew."""
    loaded = [name for name in names if name in sys.modules]
    for name in loaded:
        del sys.modules[name]
        package, _, last = name.rpartition(".")
        if package in sys.modules and hasattr(sys.modules[package], last):
            delattr(sys.modules[package], last)
    if loaded and "prometheus_client" in sys.modules:
        registry = sys.modules["prometheus_client"].REGISTRY
        for collector in list(registry._collector_to_names):
            registry.unregister(collector)


def forked(do: Callable[[], object], *, limit_s: float) -> dict[str, Any] | None:
    """Return what *do* returns in a fork of this process, as JSON; None where it ends without, or too late."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_silent()
        code = 1
        try:
            os.setsid()
            with os.fdopen(writer, "w", encoding="utf-8") as out:
                json.dump(_done(do), out)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as received:
        said = _until_closed(received.fileno(), limit_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found: dict[str, Any] | None = json.loads(said) if said else None
    if found is not None and _BROKEN in found:
        raise RuntimeError(found[_BROKEN])
    return found


_BROKEN = "broken"


def _done(do: Callable[[], object]) -> object:
    """Tests report what they raise, so what comes out here is a mistake of the trial, and no test noticed anything."""
    try:
        return do()
    except Exception:  # noqa: BLE001 - told to whoever waits for the result
        return {_BROKEN: traceback.format_exc()}


def _until_closed(descriptor: int, limit_s: float) -> bytes:
    until = time.monotonic() + limit_s
    pieces: list[bytes] = []
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
    return b""


def _be_silent() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


class _Driver:
    """Takes the place of collection and of the run of pytest's session."""

    def __init__(self, drive: Callable[[pytest.Session], None]) -> None:
        self._drive = drive

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._drive(session)
        return True


def in_session(drive: Callable[[pytest.Session], None], root: Path, scratch: Path) -> None:
    """Call *drive* with the session of a pytest that is configured as the suite is."""
    words = ["-n", "0", "-q", "-p", "no:cacheprovider", f"--rootdir={root}", f"--basetemp={scratch}", "--capture=no"]
    with contextlib.chdir(root), contextlib.redirect_stdout(io.StringIO()):
        pytest.main(words, plugins=[_Driver(drive)])

"""Tells that files with tools, or the project's own, were saved while what was started goes on without that.

Nothing is imported here: a file is read as text, and what is told of it is what differs from the start. Its worker
imports it at the start alone, so a file that is saved, new or gone means nothing until then.
"""

import ast
import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from towpath.errors import RefusedError
from towpath.project.project_file import PROJECT_FILE, read_project, tool_files
from towpath_embedded.terminal.notice_limit import ShowLine
from towpath_embedded.terminal.served_tools import START_AGAIN

LOOK_S = 1.0
LARGEST_BYTES = 1024 * 1024
"""Of a larger file it is told that it was saved, and nothing of its functions."""


class FunctionNames(NamedTuple):
    """The functions of a file that have @tool above them, and the others."""

    tools: frozenset[str]
    plain: frozenset[str]


def tool_places(modules: Sequence[str]) -> list[Path]:
    """Return the files among *modules*, or the places of `towpath.yaml` where they were taken from these."""
    try:
        project = read_project(PROJECT_FILE) if PROJECT_FILE.exists() else None
    except (RefusedError, OSError):
        project = None
    if project is not None and project.tool_modules() == tuple(modules):
        return list(project.tools)
    return [Path(name) for name in modules if name.endswith(".py")]


class ToolFiles:
    """The files at *places* since the start; *show* gets a line and its style for each that is saved.

    *project* is the `towpath.yaml` that was read at the start, where one was.
    """

    def __init__(
        self, places: Sequence[Path], show: ShowLine, *, project: Path | None = None, look_s: float = LOOK_S
    ) -> None:
        self._places = places
        self._project = project
        self._show = show
        self._look_s = look_s
        self._started = {path: _text(path) for path in self._files()}
        self._seen = {path: _saved_at(path) for path in self._started}

    async def follow(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._look_s)
            self.look()

    def look(self) -> None:
        """Tell of each file that was saved, added or removed since the last look."""
        found = {path: _saved_at(path) for path in self._files()}
        for path in sorted(found.keys() | self._seen.keys()):
            if found.get(path) != self._seen.get(path):
                self._tell(path)
        self._seen = found

    def _tell(self, path: Path) -> None:
        before, now = self._started.get(path), _text(path)
        if before == now or (before and now == ""):  # it is being written
            return
        if path == self._project:
            self._show(f"{path.name} changed; start towpath up again to use it", "yellow")
            return
        if now is None:
            self._show(f"{path} is gone, and its worker goes on with it; {START_AGAIN}", "yellow")
            return
        try:
            changes = list(_changes(before or "", now))
        except SyntaxError as error:
            place = path if error.lineno is None else f"{path}:{error.lineno}"
            self._show(f"{place} is no Python: {error.msg}. Its worker would not start with it", "red")
            return
        except (ValueError, MemoryError, RecursionError) as error:  # null bytes, or nested too deeply
            self._show(f"{path} can't be read as Python: {error}. Its worker would not start with it", "red")
            return
        what = (
            "is new, and no worker has it"
            if before is None
            else "was saved, and its worker goes on with the file as it was"
        )
        self._show("; ".join([f"{path} {what}", *changes, START_AGAIN]), "yellow")

    def _files(self) -> list[Path]:
        tools = [path for place in self._places for path in tool_files(place)]
        return [path for path in [*tools, *([self._project] if self._project else [])] if path.is_file()]


def _changes(before: str, now: str) -> Iterator[str]:
    """Return what became of the tools of a file; raises SyntaxError for the new text alone."""
    new = function_names(now)
    try:
        old = function_names(before)
    except SyntaxError:
        old = FunctionNames(frozenset(), frozenset())
    told = (
        (old.tools & new.plain, "no @tool stands any more above"),
        (old.tools - new.tools - new.plain, "gone is"),
    )
    for names, words in told:
        if names:
            yield f"{words} {', '.join(sorted(names))}"
    if not before and not new.tools and new.plain:
        yield f"no @tool stands above {', '.join(sorted(new.plain))}"


def function_names(text: str) -> FunctionNames:
    """Return the functions at the top of a file, but for those that begin with `_`; raises SyntaxError."""
    tree = ast.parse(text) if len(text) <= LARGEST_BYTES else ast.Module([], [])
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    tools = frozenset(one.name for one in functions if any(map(_is_tool, one.decorator_list)))
    plain = frozenset(one.name for one in functions if not one.decorator_list and not one.name.startswith("_"))
    return FunctionNames(tools, plain)


def _is_tool(decorator: ast.expr) -> bool:
    """Return whether it is `@tool`, `@towpath.tool`, or either with arguments."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(called, ast.Name) and called.id == "tool") or (
        isinstance(called, ast.Attribute) and called.attr == "tool"
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:  # it is gone
        return None


def _saved_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0

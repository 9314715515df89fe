"""A saved file of MCP servers is served later where something else than the file kept it from being served."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.processes.supervisor import BUSY
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.terminal import mcp_reload, worker_replacement
from towpath_embedded.terminal.mcp_reload import McpReload
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_fabric.clock import wall

WAIT_S = 10


class Workers:
    """What a platform does of a worker's replacement: reads a file, and starts it."""

    def __init__(self) -> None:
        self.user_code = self
        self.started_at = wall() - timedelta(minutes=1)
        self.asked: list[Path] = []
        self.served: asyncio.Queue[Path] = asyncio.Queue()
        self.hindrances: list[Exception] = []
        self.hangs = False
        self.reading = asyncio.Event()

    async def inventory(self, _: str, launch: WorkerLaunch) -> Any:
        assert launch.mcp is not None
        self.asked.append(launch.mcp)
        self.reading.set()
        if self.hangs:
            await asyncio.Event().wait()
        return SimpleNamespace(toolsets=("desk",))

    async def replace_worker(self, _: str, launch: WorkerLaunch, __: Any) -> None:
        if self.hindrances:
            raise self.hindrances.pop()
        assert launch.mcp is not None
        self.served.put_nowait(launch.mcp)

    async def add_worker(self, launch: WorkerLaunch) -> None:
        await self.replace_worker("", launch, None)


class Shown:
    """A reload that follows *file*, or what *project* names, and what it tells."""

    def __init__(self, workers: Any, file: Path | None, project: Path | None = None) -> None:
        self.lines: list[str] = []
        self.told = asyncio.Event()
        self.refused: list[Any] = []
        refused = RefusedFiles(lambda *words: self.refused.append(words), lambda _: None)
        then: Any = (None, None, lambda: None)
        launch = WorkerLaunch(mcp=file)
        self.reload = McpReload(workers, launch, project, self._show, refused, ServedTools(), then)

    def _show(self, line: str, _: str) -> None:
        self.lines.append(line)
        self.told.set()

    async def until(self, done: Callable[[], Any]) -> Any:
        """Follow until *done*, which is awaited, returns."""
        following = asyncio.create_task(self.reload.follow())
        try:
            return await asyncio.wait_for(done(), WAIT_S)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


def save(file: Path, text: str) -> None:
    file.write_text(text)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "TRIED_AGAIN_S"):
        monkeypatch.setattr(worker_replacement, name, 0.01)
    monkeypatch.setattr(mcp_reload, "SETTLE_S", 0.01)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "servers.yaml"
    save(file, "servers: {}")
    return file


@pytest.mark.parametrize("hindrance", [OSError("no space left"), ProblemError(problem(BUSY, "3 are still busy"))])
async def test_a_file_that_could_not_be_served_is_tried_again_without_being_saved_and_that_is_told_once(
    file: Path, hindrance: Exception
) -> None:
    workers = Workers()
    workers.started_at = wall() + timedelta(minutes=1)
    shown = Shown(workers, file)
    save(file, "servers: {desk: {command: desk}}")
    workers.hindrances = [hindrance, hindrance]
    await shown.until(workers.served.get)
    assert len([line for line in shown.lines if "goes on with what it has, for now" in line]) == 1
    assert shown.refused == []


async def test_a_file_is_served_once_the_follower_that_failed_at_it_is_begun_again(file: Path) -> None:
    workers = Workers()
    shown = Shown(workers, file)
    save(file, "servers: {desk: {command: desk}}")
    workers.hindrances = [RuntimeError("a fault of the platform")]
    with pytest.raises(RuntimeError):
        await asyncio.wait_for(shown.reload.follow(), WAIT_S)
    assert await shown.until(workers.served.get) == file


async def test_a_file_that_was_saved_while_the_platform_started_is_served(file: Path) -> None:
    workers = Workers()
    assert await Shown(workers, file).until(workers.served.get) == file


async def test_a_file_that_is_saved_while_it_is_read_is_read_anew_without_waiting_for_that(file: Path) -> None:
    workers = Workers()
    workers.hangs = True

    async def mend() -> None:
        await workers.reading.wait()
        workers.hangs = False
        save(file, "servers: {desk: {command: desk}}")
        await workers.served.get()

    await Shown(workers, file).until(mend)
    assert workers.asked == [file, file]


async def test_the_file_that_the_project_names_now_is_served_and_one_beside_it_is_kept(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    workers, project, other = Workers(), file.parent / "towpath.yaml", file.parent / "other.yaml"
    workers.started_at = wall() + timedelta(minutes=1)
    save(project, "kind: Project\nmcp: servers.yaml\n")
    shown = Shown(workers, file, project)
    given = Shown(workers, other, project)
    save(project, "kind: Project\nmcp: other.yaml\n")

    async def change() -> Path:
        await asyncio.sleep(0.1)
        save(other, "servers: {}")
        return await workers.served.get()

    assert await shown.until(change) == other

    async def name_none() -> None:
        shown.told.clear()
        save(project, "kind: Project\n")
        await shown.told.wait()

    await shown.until(name_none)
    assert "towpath.yaml names no MCP servers any more" in shown.lines[-1]
    assert workers.served.empty()
    save(project, "kind: Project\nmcp: servers.yaml\n")

    async def change_other() -> Path:
        await asyncio.sleep(0.1)
        save(other, "servers: {desk: {command: desk}}")
        return await workers.served.get()

    assert await given.until(change_other) == other

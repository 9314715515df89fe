"""A restart of the worker that somebody asked for is done, also where something hinders it at first."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.processes.supervisor import BUSY
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.terminal import worker_reload, worker_replacement
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.terminal.tool_files import ToolFiles
from towpath_embedded.terminal.worker_reload import WorkerReload
from towpath_embedded.user_code_rights import WorkerInventory
from towpath_fabric.clock import wall

WAIT_S = 10


class Workers:
    """What a platform does of a worker's replacement."""

    def __init__(self) -> None:
        self.user_code = self
        self.hindrances: list[Exception] = []
        self.reading, self.served = asyncio.Event(), asyncio.Event()
        self.hangs = False

    def served_by(self, _: str) -> WorkerInventory:
        return WorkerInventory()

    async def inventory(self, *_: Any) -> WorkerInventory:
        self.reading.set()
        if self.hangs:
            await asyncio.Event().wait()
        return WorkerInventory(("orders",))

    async def replace_worker(self, *_: Any) -> None:
        if self.hindrances:
            raise self.hindrances.pop()
        self.served.set()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("LOOK_S", "TRIED_AGAIN_S"):
        monkeypatch.setattr(worker_replacement, name, 0.01)
    monkeypatch.setattr(worker_reload, "SETTLE_S", 0.01)
    save(tmp_path / "towpath.yaml", "kind: Project\n")
    return tmp_path / "towpath.yaml"


def save(file: Path, text: str) -> None:
    file.write_text(text)


def reload_of(workers: Any, project: Path) -> WorkerReload:
    files = ToolFiles(("orders",), (), project=project, since=wall() + timedelta(minutes=1))
    refused = RefusedFiles(lambda *_: None, lambda _: None)
    then: Any = (None, None, lambda: None)
    launch = WorkerLaunch(modules=("orders",))
    return WorkerReload(workers, launch, files, lambda *_: None, refused, ServedTools(), then)


async def served(workers: Workers, reload: WorkerReload) -> None:
    following = asyncio.create_task(reload.follow())
    try:
        await asyncio.wait_for(workers.served.wait(), WAIT_S)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize("hindrance", [OSError("no space left"), ProblemError(problem(BUSY, "3 are still busy"))])
async def test_a_restart_that_could_not_be_done_is_tried_again_without_a_saved_file(
    project: Path, hindrance: Exception
) -> None:
    workers = Workers()
    workers.hindrances = [hindrance]
    reload = reload_of(workers, project)
    await reload.restart()
    assert not workers.served.is_set()
    await served(workers, reload)


async def test_a_restart_during_which_the_project_is_saved_is_done_all_the_same(project: Path) -> None:
    workers = Workers()
    workers.hangs = True
    reload = reload_of(workers, project)
    restart = asyncio.create_task(reload.restart())
    await workers.reading.wait()
    workers.hangs = False
    save(project, "kind: Project\n# more\n")
    await restart
    assert not workers.served.is_set()
    await served(workers, reload)

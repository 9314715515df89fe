"""A saved file of MCP servers is served later where something else than the file kept it from being served."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.followers import keep_following
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.processes.supervisor import BUSY
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.terminal import mcp_reload
from towpath_embedded.terminal.mcp_reload import McpReload
from towpath_embedded.terminal.served_tools import ServedTools


@pytest.mark.parametrize("hindrance", [OSError("no space left"), ProblemError(problem(BUSY, "3 are still busy"))])
async def test_a_file_that_could_not_be_served_is_tried_again_without_being_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hindrance: Exception
) -> None:
    monkeypatch.setattr(mcp_reload, "LOOK_S", 0.01)
    monkeypatch.setattr(mcp_reload, "SETTLE_S", 0.01)
    left, told, served = [hindrance], [], asyncio.Event()

    async def inventory(*_: Any) -> Any:
        return SimpleNamespace(toolsets=("desk",))

    async def replace_worker(*_: Any) -> None:
        if left:
            raise left.pop()
        served.set()

    platform: Any = SimpleNamespace(user_code=SimpleNamespace(inventory=inventory), replace_worker=replace_worker)
    file = tmp_path / "servers.yaml"
    file.write_text("servers: {}")
    refused: list[Any] = []
    files = RefusedFiles(lambda *words: refused.append(words), lambda _: None)
    reload = McpReload(platform, WorkerLaunch(mcp=file), None, lambda *_: None, files, ServedTools())
    file.write_text("servers: {desk: {command: desk}}")
    follow = keep_following(
        "serving", lambda: reload.follow(None, None, lambda: None), lambda *words: told.append(words), again_s=0.01
    )
    following = asyncio.create_task(follow)
    try:
        await asyncio.wait_for(served.wait(), 10)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert len(told) == 1 and refused == []

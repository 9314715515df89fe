"""The example of docs/mcp.md as a new user starts it: a run that uses an MCP server, from HTTP to the record."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import httpx2
from tests.support.places import EXAMPLES

from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch

EXAMPLE = EXAMPLES / "mcp"
FINAL = {"completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"}


async def test_an_agent_keeps_notes_through_a_server_over_stdio(folder: Path) -> None:
    place = folder / "example"
    shutil.copytree(EXAMPLE, place)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    async with Platform(
        folder / "data",
        workers=[WorkerLaunch(mcp=place / "servers.yaml", environment={"PATH": path})],
        role_environment={"tas": {"TOWPATH_POLICY_FILE": str(place / "policy.yaml")}},
        durable=False,
        starts="fork",
    ) as platform:
        lines: list[str] = []
        await NetworkFolderPublisher(place, platform.client_url, lines.append).publish_changed()
        assert lines == ["network.yaml: network notes version 1"]
        async with httpx2.AsyncClient(base_url=platform.client_url, verify=False, timeout=60) as client:
            task = {
                "network": "notes",
                "user_message": "Write down that the lock keeper comes at seven.",
                "script": json.loads((place / "script.json").read_text()),
            }
            accepted = await client.post("/v1/runs", json=task)
            run = await ended(client, accepted.json()["run_id"])
            assert run["status"] == "completed", run
            assert run["final"] == {"message": "Written down: the lock keeper comes at seven."}
            tools = {one["name"]: one for one in (await client.get("/v1/tools")).json()["tools"]}
            assert tools["notes.add"]["discovered"] is True
            assert tools["notes.add"]["definition"].startswith("sha256:")
            entries = (await client.get("/v1/audit", params={"run_id": run["run_id"]})).json()["entries"]
            decided = [(one["tool"], one["verdict"]) for one in entries if one["phase"] == "decision"]
            assert sorted(decided) == [("notes.add", "allow"), ("notes.find", "allow")]
    assert json.loads((place / "notes.json").read_text()) == ["The lock keeper comes at seven."]


async def ended(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    for _ in range(900):
        run: dict[str, Any] = (await client.get(f"/v1/runs/{run_id}")).json()
        if run["status"] in FINAL:
            return run
        await asyncio.sleep(0.1)
    raise AssertionError(f"the run goes on: {run}")

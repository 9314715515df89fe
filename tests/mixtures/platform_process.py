"""A platform that is started by its command, as anybody would start it, and services of it that are killed.

Nothing of the platform is imported: addresses come from what `towpath up --json` prints, processes from /proc.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
START_S, STOP_S = 120, 60
KILLED = ("orchestrator", "tas", "decider", "worker", "log_writer", "gateway", "watchdog")
LONGEST_NAME = 15
"""Characters of a process's name that the kernel keeps."""


class PlatformProcess:
    """A running `towpath up`."""

    def __init__(self, process: asyncio.subprocess.Process, told: Mapping[str, Any]) -> None:
        self._process = process
        self.url: str = told["gateway_url"]
        self.authorization = Path(told["authorization_file"]).read_text("utf-8").partition(":")[2].strip()

    def kill(self, service: str) -> bool:
        """Kill a service with SIGKILL; False where it is not there just now."""
        name = f"towpath_{service}"[:LONGEST_NAME]
        for pid in _children(self._process.pid):
            if _name(pid) == name:
                os.kill(pid, signal.SIGKILL)
                return True
        return False


@asynccontextmanager
async def platform_process(
    policy: Mapping[str, Any], folder: Path, environment: Mapping[str, str]
) -> AsyncIterator[PlatformProcess]:
    """Start the platform with the tools of the mixtures, and stop it."""
    (folder / "policy.yaml").write_text(json.dumps(policy), "utf-8")
    command = shutil.which("towpath", path=str(Path(sys.executable).parent)) or "towpath"
    options = ("--ephemeral", "--json", "--single-person", "--port", "auto", "--nats-port", "auto")
    with (folder / "up.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(command, "up", *options, "--worker", str(HERE / "tools.py"), "--policy", str(folder / "policy.yaml")),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, **environment},
            cwd=folder,
        )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        if not line:
            raise RuntimeError((folder / "up.log").read_text("utf-8"))
        yield PlatformProcess(process, json.loads(line))
    finally:
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), STOP_S)


def _children(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.append(int(folder.name))
    return found


def _name(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""

"""A platform that serves the sample, as a process of its own: for tests that use it from outside, without a loop.

`python -m tests.support.platform.sample_platform FOLDER` prints the address of the gateway once all is ready, and
stops on SIGTERM. Its services are forked: how they are started is the matter of other tests.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.places import EXAMPLES, ROOT

from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

SAMPLE = EXAMPLES / "support"


def sample_platform(
    folder: Path,
    *,
    policy: Path = SAMPLE / "policy.yaml",
    tools: Sequence[Path] = (),
    **role_environment: Mapping[str, str],
) -> Platform:
    """Return a platform of one person with the sample's policy and tools, and *tools*.

    A role of *role_environment* has what is said there, and nothing of the sample's.
    """
    own = {
        "tas": {"TOWPATH_POLICY_FILE": str(policy), "TOWPATH_SINGLE_PERSON": "true"},
        "decider": {"TOWPATH_SCRIPT_DIR": str(SAMPLE)},
    }
    return Platform(
        folder / "data",
        environment={"SHOP_DATABASE": str(folder / "orders.sqlite3")},
        role_environment={**own, **role_environment},
        workers=[WorkerLaunch(modules=tuple(map(str, (SAMPLE / "tools.py", *tools))))],
        durable=False,
        starts="fork",
    )


KILLED = "the gateway was killed\n"


class ServedSample(NamedTuple):
    """A platform that serves the sample: its address, its data folder, and the process that holds it."""

    address: str
    data: Path
    process: "subprocess.Popen[str]"

    def kill_gateway(self) -> None:
        """Kill the gateway, which is started again; returns once it is dead."""
        self.process.send_signal(signal.SIGUSR1)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == KILLED


@contextlib.contextmanager
def served_sample() -> Iterator[ServedSample]:
    """Serve the sample from a process of its own."""
    with temporary_folder() as folder:
        command = [sys.executable, "-m", "tests.support.platform.sample_platform", folder]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://"), process.wait(timeout=60)
            yield ServedSample(address, Path(folder) / "data", process)
        finally:
            process.terminate()
            process.communicate(timeout=60)


async def serve(folder: Path) -> None:
    """Serve until told to stop."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    platform = sample_platform(folder)
    async with platform:
        told: list[str] = []
        await NetworkFolderPublisher(SAMPLE, platform.client_url, told.append).publish_changed()
        assert told == ["network.yaml: network support version 1"], told
        _tell(f"{platform.client_url}\n")
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _kill_gateway, platform)
        await stopped.wait()


def _kill_gateway(platform: Platform) -> None:
    platform.kill("gateway")
    _tell(KILLED)


def _tell(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))

"""The sample of `towpath up --sample`: its files, to be changed where they lie, and two runs for the first look.

Nothing here happens without the option, and nothing twice: files that are there stay, and runs are made on a platform
whose sample network has none.
"""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.local_access import NO_AUTHORITIES
from towpath_embedded.platform_state import DATABASE_FOLDER, lock_folder
from towpath_embedded.processes.supervisor import Notice

FOLDER = "sample"
NETWORK, MODEL = "support", "scripted:support"
LABEL = {"sample": "first-look"}
"""What the runs bear that nobody asked for, so that they can be told from those that somebody started."""

FINISHED, WAITING = "Refund order 8811", "Refund order 8813"
"""The policy allows the first refund, and a person is asked about the second."""

TIMEOUT_S, POLL_S = 10.0, 0.1


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """The sample in the data folder of a platform."""

    folder: Path

    @property
    def tools(self) -> str:
        """The file with its tools."""
        return str(self.folder / "tools.py")

    @property
    def policy(self) -> Path:
        """The file with its rules."""
        return self.folder / "policy.yaml"

    def environment(self) -> dict[str, str]:
        """Return what its worker is told: its orders are kept beside it."""
        return {"SHOP_DATABASE": str(self.folder / "orders.sqlite3")}


def installed_sample() -> Path:
    """Return the folder of the sample: installed with the platform, or in this checkout."""
    package = Path(__file__).parent
    for folder in (package / "samples" / "support", package.parents[1] / "examples" / "support"):
        if (folder / "network.yaml").is_file():
            return folder
    raise ProblemError(problem("file_missing", f"the sample is not beside {package}"))


def sample_in(data: Path) -> SampleFiles:
    """Copy the sample's files into *data*, those that are not there yet.

    Raises ProblemError where another platform runs on it, and where one has run without the sample: its policy would be
    replaced by the sample's.
    """
    files = SampleFiles(data.absolute() / FOLDER)
    with lock_folder(data.absolute()):
        if (data / DATABASE_FOLDER).is_dir() and not files.folder.is_dir():
            detail = (
                f"{data} has the runs and the policy of a platform without the sample, whose policy would replace it"
            )
            remedy = "Give the sample a folder of its own: --data FOLDER, or --ephemeral."
            raise ProblemError(problem("request_invalid", detail, remedy=remedy))
        files.folder.mkdir(exist_ok=True)
        for path in sorted(installed_sample().iterdir()):
            if path.is_file() and not (files.folder / path.name).exists():
                shutil.copyfile(path, files.folder / path.name)
    return files


async def first_look(client_url: str, notice: Notice) -> None:
    """Submit a run that ends and one that waits for a person, where there is none; what goes wrong is one notice."""
    try:
        async with httpx2.AsyncClient(
            base_url=client_url, verify=NO_AUTHORITIES, timeout=TIMEOUT_S, trust_env=False
        ) as api:
            if (await _get(api, f"/v1/runs?network={NETWORK}&limit=1"))["runs"]:
                return
            runs = [await _submit(api, message) for message in (FINISHED, WAITING)]
            async with asyncio.timeout(TIMEOUT_S):
                while not await _is_there(api, *runs):  # noqa: ASYNC110 - nothing here tells of it
                    await asyncio.sleep(POLL_S)
    except (httpx2.HTTPError, KeyError, ValueError, TimeoutError) as error:
        notice(f"the sample's first runs: {type(error).__name__}: {error}")


async def _submit(api: httpx2.AsyncClient, message: str) -> str:
    task = {"network": NETWORK, "user_message": message, "model": MODEL, "labels": LABEL}
    answer = await api.post("/v1/runs", json=task, headers={"Idempotency-Key": f"sample: {message}"})
    return str(answer.raise_for_status().json()["run_id"])


async def _is_there(api: httpx2.AsyncClient, finished: str, waiting: str) -> bool:
    run, gates = await asyncio.gather(
        _get(api, f"/v1/runs/{finished}"), _get(api, f"/v1/gates?status=pending&run_id={waiting}")
    )
    return run["status"] not in {"queued", "running"} and bool(gates["gates"])


async def _get(api: httpx2.AsyncClient, path: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(path)).raise_for_status().json()
    return found

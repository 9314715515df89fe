"""Publishes checkpoints outside of the database: to a file, the structured log, or an HTTP witness.

A checkpoint that can't be published is logged as a warning and never stops sealing: the next checkpoint covers it.
"""

import asyncio
from pathlib import Path

from towpath_fabric.telemetry.logs import Logger

WITNESS_TIMEOUT_S = 5.0


class CheckpointFilePublisher:
    """Appends every checkpoint to a file, in the form that `towpath audit verify --checkpoint` reads."""

    def __init__(self, path: Path, log: Logger) -> None:
        self._path = path
        self._log = log

    async def publish(self, note: str) -> None:
        try:
            await asyncio.to_thread(self._append, note)
        except OSError as error:
            self._log.warning("a checkpoint was not written", file=str(self._path), error=str(error))

    def _append(self, note: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{note}\n")


class CheckpointLogPublisher:
    """Writes every checkpoint into the service's structured log."""

    def __init__(self, log: Logger) -> None:
        self._log = log

    async def publish(self, note: str) -> None:
        self._log.info("audit checkpoint", note=note)


class CheckpointUrlPublisher:
    """Posts every checkpoint to a URL that the operator chose; redirects are not followed."""

    def __init__(self, url: str, log: Logger) -> None:
        self._url = url
        self._log = log

    async def publish(self, note: str) -> None:
        try:
            async with asyncio.timeout(WITNESS_TIMEOUT_S):  # httpx2's own timeout restarts with every byte
                await self._post(note)
        except TimeoutError:
            self._log.warning("the witness could not be reached", error=f"no answer in {WITNESS_TIMEOUT_S:g} s")

    async def _post(self, note: str) -> None:
        import httpx2  # noqa: PLC0415 - only a platform with a witness sends requests

        headers = {"Content-Type": "text/plain; charset=utf-8"}
        try:
            async with (
                httpx2.AsyncClient(timeout=WITNESS_TIMEOUT_S, follow_redirects=False) as client,
                client.stream("POST", self._url, content=note.encode(), headers=headers) as answer,
            ):
                pass  # its head says it all, and its body may have any length
        except httpx2.HTTPError as error:
            self._log.warning("the witness could not be reached", error=str(error) or type(error).__name__)
            return
        if not answer.is_success:
            self._log.warning("the witness refused a checkpoint", status=answer.status_code)

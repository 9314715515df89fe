"""One platform with the sample for all tests of the command line, and how they ask it."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.places import ROOT

from towpath.cli import main
from towpath_embedded.servers.postgres_identity import temporary_folder

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a platform that serves the sample."""
    with temporary_folder() as folder:
        command = [sys.executable, "-m", "tests.support.platform.sample_platform", folder]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://"), process.wait(timeout=60)
            yield address
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.fixture
def ask(server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run one command line with JSON output; gives the exit code and what was printed."""
    monkeypatch.setenv("TOWPATH_SERVER", server)

    def run(*words: str) -> tuple[int, Any]:
        code = main([*words, "-o", "json"])
        shown = capsys.readouterr()
        return code, json.loads(shown.out or shown.err)

    return run

"""One platform with the sample for all tests of the command line, and how they ask it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.platform.sample_platform import ServedSample, served_sample

from towpath.cli import main

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="session")
def served() -> Iterator[ServedSample]:
    """A platform that serves the sample."""
    with served_sample() as sample:
        yield sample


@pytest.fixture
def server(served: ServedSample) -> str:
    """Its address."""
    return served.address


@pytest.fixture
def ask(server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run one command line with JSON output; gives the exit code and what was printed."""
    monkeypatch.setenv("TOWPATH_SERVER", server)

    def run(*words: str) -> tuple[int, Any]:
        code = main([*words, "-o", "json"])
        shown = capsys.readouterr()
        return code, json.loads(shown.out or shown.err)

    return run

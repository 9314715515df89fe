"""A platform that does not start says why, with the last lines that it printed."""

import re
import subprocess
import sys
from typing import Any

import pytest

from towpath.client import embedded
from towpath.client.embedded import EmbeddedServer
from towpath.errors import UnavailableError

PRINTS = "import sys; [print('line', number, file=sys.stderr) for number in range(1, 26)]; sys.exit(3)"


def test_a_start_that_failed_is_told_with_the_last_twenty_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    popen = subprocess.Popen

    def start(_: Any, **given: Any) -> Any:
        return popen([sys.executable, "-S", "-c", PRINTS], **given)

    monkeypatch.setattr(embedded.subprocess, "Popen", start)
    with pytest.raises(UnavailableError) as failed, EmbeddedServer(()):
        raise AssertionError("it is no platform")
    said = str(failed.value)
    assert "the platform ended with status 3" in said
    assert [int(number) for number in re.findall(r"line (\d+)", said)] == [*range(6, 26)]

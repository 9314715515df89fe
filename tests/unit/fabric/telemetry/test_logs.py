"""Log lines: to be read on a terminal, JSON everywhere else, unless a setting says otherwise."""

import json
import os
import pty
import subprocess
import sys

import pytest

CODE = """
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.logs import configure_logging
log = configure_logging("worker", Settings())
log.warning("serves tools\x1b]0;x\x07", toolset="a\u202eb\x1b[2J", count=2)
try:
    raise ValueError("no")
except ValueError:
    log.exception("it broke")
"""


def written(to_terminal: bool, **settings: str) -> str:
    """Return what a process of its own writes to standard error, a terminal or a pipe."""
    environment = {**os.environ, **settings}
    command = [sys.executable, "-c", CODE]
    if not to_terminal:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                said += os.read(ours, 65_536)
            except OSError:  # the other side is closed
                break
        os.close(ours)
        assert process.wait(60) == 0
    return said.decode()


@pytest.mark.parametrize(("terminal", "settings"), [(False, {}), (True, {"TOWPATH_LOG_FORMAT": "json"})])
def test_programs_read_json(terminal: bool, settings: dict[str, str]) -> None:
    first, second = map(json.loads, written(terminal, **settings).splitlines())
    assert (first["count"], first["level"], first["role"]) == (2, "warning", "worker")
    assert "ValueError: no" in second["exception"]


@pytest.mark.parametrize(("terminal", "settings"), [(True, {}), (False, {"TOWPATH_LOG_FORMAT": "console"})])
def test_people_read_lines_without_what_a_terminal_would_obey(terminal: bool, settings: dict[str, str]) -> None:
    said = written(terminal, **settings)
    assert "warning" in said and "serves tools]0;x" in said and "count" in said and "{" not in said
    assert "ab[2J" in said and "\x1b[2J" not in said and "\x1b]" not in said and "\x07" not in said
    assert "Traceback" in said and "ValueError: no" in said, "with the stack, in lines"
    assert ("\x1b[" in said) is terminal, "colours are for terminals"

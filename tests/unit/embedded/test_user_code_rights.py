"""What a program with user code serves is found, whatever that code prints beside the answer."""

import asyncio
import sys
from pathlib import Path

import pytest

from towpath_embedded.processes.child_process import spawn
from towpath_embedded.processes.role_process import AgentLaunch, WorkerLaunch
from towpath_embedded.user_code_rights import ANSWER_LINES, agent_name_of, toolsets_of

TALKATIVE = "import atexit; print('hello', flush=True); atexit.register(print, 'bye'); "
OTHER = "print('{}', 7, [], sep=chr(10)); "
"""What JSON has, and is no answer."""


def command(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def toolsets(folder: Path, code: str) -> tuple[str, ...]:
    worker = WorkerLaunch(modules=("tools.py",), directory=folder)
    asked = toolsets_of(worker, command(code), output=folder / "log", environment={}, spawn=spawn)
    return asyncio.run(asked)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('print(\'["a", "b"]\')', ("a", "b")),
        (f"{TALKATIVE}print('[\"a\"]'); {OTHER}", ("a",)),
        (f"print('[\"a\"]'); print('x\\n' * {ANSWER_LINES - 1}, end='')", ("a",)),
        (f"print('[\"a\"]'); print('x\\n' * {ANSWER_LINES}, end='')", ()),
        (f"{TALKATIVE}print('[\"a\"]'); raise SystemExit(2)", ()),
        (TALKATIVE, ()),
    ],
)
def test_the_toolsets_are_found_though_the_code_prints_at_its_import_and_at_its_end(
    code: str, found: tuple[str, ...], tmp_path: Path
) -> None:
    assert toolsets(tmp_path, code) == found


def test_the_name_of_an_agent_is_found_likewise(tmp_path: Path) -> None:
    agent = AgentLaunch(target="agents.py:Reviewer")
    code = f"{TALKATIVE}print('\"reviewer\"'); {OTHER}"
    asked = agent_name_of(agent, command(code), output=tmp_path / "log", environment={}, spawn=spawn)
    assert asyncio.run(asked) == "reviewer"

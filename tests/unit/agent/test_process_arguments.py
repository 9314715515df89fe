"""A worker and an agent are given what the command line read, and have no parser of their own to import."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from towpath.cli import main
from towpath.process_arguments import AgentArguments, WorkerArguments
from towpath_agent.__main__ import main as agent_main
from towpath_embedded.processes.role_process import AgentLaunch, WorkerLaunch
from towpath_worker.__main__ import main as worker_main

ALL = "shop.tools b.py --concurrency 4 --mcp servers.yaml --sandbox preferred --builtin --toolsets --inspect"
READ = WorkerArguments(
    modules=("shop.tools", "b.py"), concurrency=4, mcp=Path("servers.yaml"), sandbox="preferred", builtin=True,
    toolsets=True, inspect=True,
)  # fmt: skip
AGENT = AgentArguments(target="a.py:A", count=2, concurrency=3, name_only=True)


@pytest.mark.parametrize(
    ("typed", "module", "read"),
    [
        (f"worker {ALL}", "towpath_worker", READ),
        (f"serve worker {ALL}", "towpath_worker", READ),
        ("worker", "towpath_worker", WorkerArguments()),
        ("agents serve a.py:A --count 2 --concurrency 3 --name-only", "towpath_agent", AGENT),
        ("agents serve a.py:A", "towpath_agent", AgentArguments(target="a.py:A")),
    ],
)
def test_a_process_is_given_all_that_was_typed(
    typed: str, module: str, read: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # no platform runs there
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, words: commands.append(words))
    assert main(typed.split()) == 0
    [words] = commands
    assert words[:4] == [sys.executable, "-P", "-m", module]
    assert type(read).handed_over(words[4:]) == read


def test_what_the_platform_starts_is_given_its_arguments_in_the_same_way() -> None:
    launch = WorkerLaunch(modules=("a", "b"), builtin=True, mcp=Path("m.yaml"), concurrency=2, sandbox="none")
    given = WorkerArguments(modules=("a", "b"), builtin=True, mcp=Path("m.yaml"), concurrency=2, sandbox="none")
    assert WorkerArguments.handed_over(launch.arguments()) == given
    assert WorkerArguments.handed_over(launch.arguments(names_only=True)) == given.model_copy(
        update={"inventory": True}
    )
    agent = AgentLaunch(target="a:A", concurrency=2)
    read = AgentArguments(target="a:A", concurrency=2)
    assert AgentArguments.handed_over(agent.arguments()) == read
    assert AgentArguments.handed_over(agent.arguments(names_only=True)) == read.model_copy(update={"name_only": True})


def test_what_somebody_typed_is_not_taken_for_a_document() -> None:
    assert WorkerArguments.handed_over(["shop.tools"]) is None
    assert WorkerArguments.handed_over(["shop.tools", "b.py"]) is None
    assert WorkerArguments().words() == ("--arguments", "{}")
    with pytest.raises(ValidationError, match="modles"):
        WorkerArguments.handed_over(["--arguments", '{"modles": []}'])


def test_a_process_that_is_given_its_arguments_imports_no_parser(tmp_path: Path) -> None:
    (tmp_path / "reviewer.py").write_text(
        "from towpath import BaseAgent\n\n\nclass Reviewer(BaseAgent):\n    name = 'reviewer'\n"
        "    async def plan(self, ctx, brief):\n        yield ctx.finish(output='done')\n"
    )
    agent = AgentArguments(target="reviewer.py:Reviewer", name_only=True).words()
    worker = WorkerArguments(builtin=True, toolsets=True).words()
    code = (
        "import sys, towpath_worker.__main__ as worker, towpath_agent.__main__ as agent\n"
        f"assert worker.main({worker}) == 0\nassert agent.main({agent}) == 0\n"
        "found = {'cyclopts', 'rich'} & {*sys.modules}\nassert not found, found\n"
    )
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ['["builtin"]', '"reviewer"']), done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--concurency", "3"], "Did you mean --concurrency?"),
        (["--concurrency", "many"], '"many"'),
        (["--sandbox", "perhaps"], "required"),
    ],
)
def test_what_is_typed_at_the_program_itself_is_read_by_the_same_parser(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        worker_main(words)
    assert ended.value.code == 2
    by_program = capsys.readouterr().err
    assert said in by_program
    with pytest.raises(SystemExit) as ended:
        main(["worker", *words])
    assert (ended.value.code, capsys.readouterr().err) == (2, by_program)


def test_an_agent_that_is_not_named_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        agent_main([])
    assert ended.value.code == 2
    assert "TARGET" in capsys.readouterr().err


def test_looking_at_servers_needs_their_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert worker_main(["--inspect"]) == 2
    assert "--inspect needs --mcp FILE" in capsys.readouterr().err

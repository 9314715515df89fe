"""A problem is explained with its cause and an example, and a start is told at once."""

import json
import subprocess
import sys

import pytest

from towpath.cli import main
from towpath.cli.administration import platform_start, process_commands
from towpath_contracts.problems.examples.problem_examples import EXAMPLES


@pytest.mark.parametrize("code", ["unavailable", "fence_raised"])
def test_a_problem_is_explained_with_cause_and_example(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", code, "-o", "table"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert EXAMPLES[code].cause in shown and EXAMPLES[code].example in shown


@pytest.mark.parametrize(
    ("words", "terminal", "told"),
    [
        ((), True, "  starting NATS, Postgres and every service; Ctrl-C ends it\n"),
        (("--only=gateway",), True, "  starting the services that were named; Ctrl-C ends them\n"),
        ((), False, ""),
        (("--json",), True, ""),
        (("-o", "json"), True, ""),
        (("--output=json",), True, ""),
        (("--help",), True, ""),
    ],
)
def test_a_start_is_told_at_once_to_a_person(
    words: tuple[str, ...],
    terminal: bool,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(platform_start, "replace_process", lambda *_: None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    process_commands.up(*words)
    assert capsys.readouterr().out == told


STARTED = """
import json, os, sys
def become(program, words):
    heavy = [name for name in ("cyclopts", "pydantic", "rich", "asyncio") if name in sys.modules]
    print(json.dumps({"words": words[1:], "heavy": heavy}))
    sys.exit(0)
os.execv = become
sys.argv = ["towpath", "up", "--port", "auto"]
from towpath.cli import main
main()
"""


def test_up_becomes_the_program_of_the_platform_before_anything_heavy_is_imported() -> None:
    run = subprocess.run([sys.executable, "-P", "-c", STARTED], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(run.stdout) == {
        "words": ["-P", "-m", "towpath_embedded", "up", "--port", "auto"],
        "heavy": [],
    }


INTERRUPTED = """
import sys
class CtrlC:
    def find_spec(self, name, *_):
        if name == "towpath.extras":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
from towpath.cli import main
sys.exit(main(["up"]))
"""


def test_ctrl_c_before_up_has_become_that_program_ends_it_without_a_traceback() -> None:
    words = [sys.executable, "-P", "-c", INTERRUPTED]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_start_that_lacks_a_package_is_refused_as_every_command_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(platform_start, "PLATFORM", "towpath_elsewhere")
    assert main(["up"]) == 2
    assert capsys.readouterr().err.startswith("binary_missing")

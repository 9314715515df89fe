"""The problems that people meet most are explained with their cause and an example that names what there is."""

import re

import pytest

from towpath.cli import main
from towpath.cli.administration import process_commands
from towpath.cli.administration.problem_examples import EXAMPLES
from towpath.cli.app import _COMMANDS, _PLATFORM, _PROCESSES
from towpath_contracts.problems.registry import REGISTRY

COMMANDS = {name.split()[0] for name, *_ in (*_COMMANDS, *_PLATFORM, *_PROCESSES)}


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_explained_problem_is_one_of_the_registry_and_its_commands_exist(code: str) -> None:
    found = EXAMPLES[code]
    assert code in REGISTRY and found.cause.endswith(".") and len(found.example) > 20
    assert set(re.findall(r"towpath ([a-z]+)", found.example)) <= COMMANDS


def test_a_problem_is_explained_with_cause_and_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "unavailable", "-o", "table"]) == 0
    shown = capsys.readouterr().out
    assert EXAMPLES["unavailable"].cause in shown and EXAMPLES["unavailable"].example in shown
    assert main(["explain", "fence_raised", "-o", "table"]) == 0
    assert "cause" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "terminal", "told"),
    [((), True, True), ((), False, False), (("--json",), True, False), (("--help",), True, False)],
)
def test_a_start_is_told_at_once_to_a_person(
    words: tuple[str, ...],
    terminal: bool,
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(process_commands, "replace_process", lambda *_: None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    process_commands.up(*words)
    assert ("starting NATS" in capsys.readouterr().out) is told

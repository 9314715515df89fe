"""A problem is explained with its cause and an example, and a start is told at once."""

import pytest

from towpath.cli import main
from towpath.cli.administration import process_commands
from towpath_contracts.problems.examples.problem_examples import EXAMPLES


@pytest.mark.parametrize("code", ["unavailable", "fence_raised"])
def test_a_problem_is_explained_with_cause_and_example(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", code, "-o", "table"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert EXAMPLES[code].cause in shown and EXAMPLES[code].example in shown


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

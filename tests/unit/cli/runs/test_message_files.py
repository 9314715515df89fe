"""`towpath run NETWORK -f FILE`: the message of a run from a file or from standard input."""

import io
from pathlib import Path

import pytest

from towpath.cli import main
from towpath.cli.runs.run_command import TaskOptions
from towpath_contracts.problems.registry import ProblemError


def test_the_message_is_the_text_of_the_file_or_of_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input.json"
    file.write_text('{"order": 8812}\n')
    assert TaskOptions(file=file).message("") == '{"order": 8812}'
    monkeypatch.setattr("sys.stdin", io.StringIO("Refund order 8812\n"))
    assert TaskOptions(file=Path("-")).message("") == "Refund order 8812"
    assert TaskOptions().message("as typed ") == "as typed "


def test_a_message_beside_a_file_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_text(" \n")
    with pytest.raises(ProblemError, match="there is no text in it"):
        TaskOptions(file=file).message("")
    with pytest.raises(ProblemError, match="both given"):
        TaskOptions(file=file).message("hello")


def test_a_file_that_is_not_there_is_told_before_a_platform_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "support", "-f", "/no/such.json", "--server", "http://127.0.0.1:9"]) != 0
    assert "/no/such.json" in capsys.readouterr().err


def test_services_that_are_part_of_others_are_told_with_these(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "console"]) == 3
    assert "served by towpath serve gateway" in " ".join(capsys.readouterr().err.split())
    assert main(["serve", "all"]) == 3
    assert "all of them run on one machine by towpath up" in " ".join(capsys.readouterr().err.split())

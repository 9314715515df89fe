"""What is said to words that are no command."""

import pytest

from towpath.cli import main


@pytest.mark.parametrize("typed", ["deploy", "start", "gates decide"])
def test_a_word_that_no_command_is_like_gets_the_commands_and_no_suggestion(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(typed.split())
    said = " ".join(capsys.readouterr().err.split())
    assert stopped.value.code == 2 and "Unknown command" in said and "There are" in said and "--help" in said
    assert "Did you mean" not in said


def test_a_word_without_a_near_command_gets_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gates", "decide"])
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert (
        "There are watch, notices, bulk, list, show, approve, deny, resolve, delegate." in said
        and "towpath gates --help says" in said
    )


def test_a_word_without_a_near_command_gets_the_groups_of_commands_and_where_all_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["deploy"])
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert '"deploy". towpath --help lists all commands' in said
    groups = said.partition("There are groups of them: ")[2].partition(".")[0].split(", ")
    assert {"runs", "gates", "networks", "policy"} <= {*groups} and not {"run", "up", "logs"} & {*groups}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["runs", "list", "--limit", "many"], '--limit takes a whole number, not "many": write e.g. --limit 4'),
        (
            ["policy", "check", "--network", "n", "--agent", "a", "--tool", "t", "--spent-usd", "x"],
            '--spent-usd takes a number, not "x": write e.g. --spent-usd 0.5',
        ),
        (["runs", "list", "--stauts", "failed"], "Did you mean --status?"),
    ],
)
def test_a_value_that_is_no_number_is_told_in_plain_words(
    typed: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(typed)
    assert expected in " ".join(capsys.readouterr().err.replace("│", " ").split())

"""What is said to words that are no command."""

import pytest

from towpath.cli import main
from towpath.cli.shared import usage_errors
from towpath.cli.shared.usage_errors import MAX_WORDS


def said_of(capsys: pytest.CaptureFixture[str], *typed: str) -> str:
    """Return what is said of *typed*, in one line without the panel's frame, which breaks sentences."""
    with pytest.raises(SystemExit) as stopped:
        main(typed)
    assert stopped.value.code == 2
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(("typed", "suggested"), [("deploy", "demo"), ("status", "streams")])
def test_a_word_that_no_command_is_like_gets_the_commands_and_no_suggestion(
    typed: str, suggested: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_of(capsys, typed)
    assert f'Unknown command "{typed}". towpath --help lists all commands' in said and "There are groups" in said
    assert "Did you mean" not in said
    monkeypatch.setattr(usage_errors, "_NEAR", 0)
    assert f'Did you mean "{suggested}"?' in said_of(capsys, typed), "the parser suggests it"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("rnus", "list"), 'Unknown command "rnus". Did you mean "runs"? towpath --help lists all commands.'),
        (("gates", "aprove"), 'command "aprove". Did you mean "approve"? towpath gates --help lists all commands.'),
    ],
)
def test_a_slip_gets_the_command_that_was_meant(
    typed: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in said_of(capsys, *typed)


def test_words_behind_all_that_a_command_takes_are_repeated_as_far_as_anybody_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = said_of(capsys, "runs", "show", "0192f3", "and", "more")
    assert "The command takes no more words, and there are: and more. Quote a text that has spaces" in said
    said = said_of(capsys, "runs", "show", "0192f3", *(f"w{number}" for number in range(MAX_WORDS + 1)))
    assert f"w{MAX_WORDS - 1} …. Quote" in said and f"w{MAX_WORDS}" not in said


def test_a_word_without_a_near_command_gets_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_of(capsys, "gates", "decide")
    assert (
        "There are watch, notices, bulk, list, show, approve, deny, resolve, delegate." in said
        and "towpath gates --help says" in said
    )


def test_a_word_without_a_near_command_gets_the_groups_of_commands_and_where_all_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = said_of(capsys, "deploy")
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
    assert expected in said_of(capsys, *typed)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["run", "shop", "Refund", "order", "8812"], "spaces: towpath run shop 'Refund order 8812';"),
        (["run", "shop", "Refund", "order", "--model", "a:b"], "as in towpath run support 'Refund order 8812';"),
    ],
)
def test_words_that_are_not_quoted_are_told_with_the_command_as_it_is_typed(
    typed: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in said_of(capsys, *typed)

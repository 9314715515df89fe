"""What is said to words that are no command."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from cyclopts import MissingArgumentError

from towpath.cli import main
from towpath.cli.app import make_app
from towpath.cli.shared import usage_errors
from towpath.cli.shared.usage_errors import (
    FOREIGN_COMMANDS,
    FOREIGN_OPTIONS,
    LISTS,
    LISTS_OF_COMMANDS,
    LISTS_OF_NAMES,
    MAX_WORDS,
    WRITTEN_BY,
    usage_panel,
)
from towpath_contracts.runs.statuses import FINAL_STATUSES, LIVE_STATUSES, RunStatus


def said_of(capsys: pytest.CaptureFixture[str], *typed: str) -> str:
    """Return what is said of *typed*, in one line without the panel's frame, which breaks sentences."""
    with pytest.raises(SystemExit) as stopped:
        main(typed)
    assert stopped.value.code == 2
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(("typed", "suggested"), [("stats", "streams")])
def test_a_word_that_no_command_is_like_gets_the_commands_and_no_suggestion(
    typed: str, suggested: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_of(capsys, typed)
    assert f'Unknown command "{typed}". towpath --help lists all commands and says what each does.' in said
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


def test_a_word_behind_a_group_that_is_a_command_too_gets_those_of_the_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = said_of(capsys, "demo", "storm")
    assert 'Unknown command "storm". There are run, crash, flood. towpath demo --help says what each does.' in said
    assert "did you mean 'crash'?" in said_of(capsys, "demo", "crush")


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


def test_a_word_without_a_near_command_gets_the_help_where_there_are_more_commands_than_anybody_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = said_of(capsys, "stats")
    assert 'Unknown command "stats". towpath --help lists all commands and says what each does. ' in f"{said} "
    assert "demo" not in said


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


def test_a_status_of_runs_that_there_is_not_is_told_and_finds_no_empty_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 'Did you mean "waiting"?' in said_of(capsys, "runs", "list", "--status", "wating")
    assert 'Did you mean "failed"?' in said_of(capsys, "runs", "bulk", "retry", "--status", "fialed")


def test_the_statuses_that_people_name_are_those_of_runs() -> None:
    assert set(get_args(RunStatus)) == FINAL_STATUSES | LIVE_STATUSES


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["run", "shop", "Refund", "order", "8812"], "spaces: towpath run shop 'Refund order 8812';"),
        (["config", "show", "foo"], "there are: foo. Quote a text that has spaces, as in towpath run support"),
        (["run", "shop", "Refund", "order", "--model", "a:b"], "as in towpath run support 'Refund order 8812';"),
    ],
)
def test_words_that_are_not_quoted_are_told_with_the_command_as_it_is_typed(
    typed: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in said_of(capsys, *typed)


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        (("approvals",), 'Unknown command "approvals": what waits for a person is listed by towpath gates list.'),
        (("approve", "7c1e"), "a call is approved by towpath gates approve ID"),
        (("db", "backup"), "the database is copied by towpath backup"),
        (("tools", "disable", "x"), "towpath switches pause tool NAME --reason WHY"),
        (("audit", "list"), "entries are listed by towpath audit search"),
        (("networks", "delete", "x"), "so none is deleted"),
        (("run", "support", "hi", "--budget", "0.5"), "Unknown option: --budget: what a run may spend is --usd 0.5."),
        (("run", "--network=support", "hi"), "the network is the first word"),
        (("worker", "tools.py", "--pool", "a"), "@tool(toolset=…)"),
        (("nats", "info"), "the broker is looked at by towpath doctor"),
        (("queues", "requeue", "7"), "towpath queues dead requeue ID"),
        (("audit", "verify", "--bundle", "x"), "the file is the first word, as in towpath audit verify bundle.jsonl"),
        (("stop",), "the platform of this folder is stopped by towpath down"),
        (("deploy",), "set up with deploy/compose.yaml of Towpath's repository; docs/guides/deploying.md there has"),
        (("help",), "each command is explained by towpath --help, one alone by --help behind it"),
        (("ps",), "what runs here is listed by towpath doctor"),
        (("status",), "how the platform stands is shown by towpath doctor"),
        (("dlq",), "what queues could not handle is listed by towpath queues dead list"),
        (("queues", "dlq"), "what queues could not handle is listed by towpath queues dead list"),
        (("gates", "edit", "7c1e"), "other arguments are approved by towpath gates approve ID --edit"),
        (("publish", "x.yaml"), "a network is published by towpath networks publish FILE"),
        (("validate", "x.yaml"), "a network is checked by towpath networks validate FILE"),
        (("runs", "start"), "There are "),
    ],
)
def test_a_word_of_another_tool_gets_the_command_that_does_it(
    typed: tuple[str, ...], instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert instead in said_of(capsys, *typed)


def test_what_is_written_instead_is_a_command_that_there_is() -> None:
    app = make_app()
    for said in (*FOREIGN_COMMANDS.values(), *FOREIGN_OPTIONS.values()):
        for words in re.findall(r"towpath ((?:[a-z]+ ?)+)", said):
            command = app
            for word in words.split():
                if word not in command:
                    break  # the sentence goes on
                command = command[word]
            assert command.default_command is not None, said


def test_a_choice_of_several_kinds_is_told_with_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_of(capsys, "gates", "list", "--status", "pendin")
    told = (
        "--status takes pending, approved, denied, expired, settled, void, all, not 'pendin'; did you mean 'pending'?"
    )
    assert told in said
    assert "Literal" not in said_of(capsys, "gates", "list", "--status", "foo")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        *(
            (
                ("gates", command),
                f'"gates {command}" parameter GATE requires an argument. Which there are: towpath gates list',
            )
            for command in ("approve", "deny", "show", "resolve", "delegate")
        ),
        (("runs", "show"), "parameter RUN requires an argument. Which there are: towpath runs list"),
        (("tools", "show"), "parameter NAME requires an argument. Which there are: towpath tools list"),
        (("audit", "show"), "parameter ENTRY requires an argument. Which there are: towpath audit search"),
    ],
)
def test_a_command_without_what_it_is_about_names_the_one_that_lists_it(
    typed: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in said_of(capsys, *typed)


def test_a_denial_without_its_gate_is_told_that_it_needs_a_reason_too(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_of(capsys, "gates", "deny")
    assert "towpath gates list. A reason is needed too: --reason WHY" in said
    assert "A reason" not in said_of(capsys, "gates", "approve")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("audit", "verify"), "Write it as in: towpath audit verify audit.jsonl --checkpoint kept.txt"),
        (("audit", "verify"), "; what is verified is written by: towpath audit export --file audit.jsonl"),
        (("policy", "explain"), "Which there are: towpath audit search --phase decision"),
        (("policy", "rollback"), "Which there are: towpath policy versions"),
        (("policy", "rule", "show"), "Which there are: towpath policy show"),
        (("policy", "check"), "Write it as in: towpath policy check --network support --agent billing --tool"),
        (("switches", "pause"), "Write it as in: towpath switches pause tool mail.send --reason"),
        (("runs", "bulk"), "Write it as in: towpath runs bulk cancel --network support --status waiting"),
    ],
)
def test_a_command_without_what_it_needs_is_shown_as_it_is_written(
    typed: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in said_of(capsys, *typed)


def test_every_command_that_needs_a_word_says_where_to_get_it_or_how_it_is_written() -> None:
    app, told = make_app(), 0
    for words in commands_of(app):
        try:
            app.parse_args(words, print_error=False, exit_on_error=False)
        except MissingArgumentError as error:
            told += 1
            said = str(usage_panel(error).renderable)
            assert "Which there are: towpath " in said or f"Write it as in: towpath {words[0]}" in said, (words, said)
    assert told > 60, "few commands were looked at"


def commands_of(app: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command."""
    below = [name for name in app if not name.startswith("-") and app[name].show]
    if words and app.default_command is not None:
        yield words
    for name in below:
        yield from commands_of(app[name], *words, name)


def test_a_new_name_is_looked_up_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Which there are" not in said_of(capsys, "new", "tool")
    assert "Which there are" not in said_of(capsys, "context", "add", "--server", "http://127.0.0.1:1")
    assert "Which there are: towpath context list" in said_of(capsys, "context", "remove")


@pytest.mark.parametrize(
    "listing", sorted({*LISTS.values(), *LISTS_OF_NAMES.values(), *LISTS_OF_COMMANDS.values(), *WRITTEN_BY.values()})
)
def test_what_lists_them_is_a_command(listing: str) -> None:
    words = listing.split()[1:]
    command, *_ = make_app().parse_args(words, print_error=False, exit_on_error=False)
    assert command.__name__, words

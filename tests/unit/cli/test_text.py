"""Whatever models, tools and customers write is printed as text and obeyed by nothing."""

import json
import sys
import unicodedata
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from towpath.cli.access.audit_commands import _COLUMNS
from towpath.cli.access.gates_commands import why_in_short
from towpath.cli.access.policy_comparison import left_out
from towpath.cli.runs.run_follower import refusal_line
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.text import (
    call_in_words,
    cut_words,
    json_escaped,
    one_line,
    plain_json,
    plain_yaml,
    printable,
    shorten,
    sinks_first,
    value_origin,
)
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.value_doubts import SHORT_NUMBER, UNSEEN, doubt_lines
from towpath_contracts.text import HIDDEN

HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07\x9b2J \x07bell \u202egpj.exe\u2066 [bold]x[/bold] :skull:"
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def dangerous(text: str) -> set[str]:
    return {c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c in "\u202e\u2066"}


@given(st.text())
def test_cleaned_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    cleaned = printable(text)
    assert dangerous(cleaned) == set()
    assert printable(cleaned) == cleaned
    cleaned.encode("utf-8")


def test_escape_sequences_go_as_a_whole() -> None:
    assert printable("\x1b[1;31mred\x1b[0m and \x1b]8;;http://x\x07link") == "red and link"


def test_ordinary_text_stays_as_it_is() -> None:
    text = "Grüße, 東京: 129,00 €\n\tzweite Zeile 🚚"
    assert printable(text) == text


def test_one_line_is_one_line_and_no_longer_than_asked() -> None:
    assert one_line("a\n b\t c") == "a b c"
    assert one_line("abcdefgh", 5) == "abcd…"


@given(ANYTHING)
def test_json_reads_back_equal_and_is_safe(value: object) -> None:
    text = plain_json(value)
    assert json.loads(text) == value
    assert dangerous(text) == set()


@given(ANYTHING)
def test_yaml_reads_back_equal(value: object) -> None:
    assert yaml.safe_load(plain_yaml(value)) == value


def test_yaml_of_something_hostile_is_safe() -> None:
    assert dangerous(plain_yaml({"said": HOSTILE})) == set()


def test_arguments_are_shown_briefly() -> None:
    assert shorten({"order_id": "8812", "amount": 129.0, "tags": ["a"]}) == 'order_id=8812 amount=129.0 tags=["a"]'
    assert len(shorten({"text": "x" * 200})) == 80


def test_a_table_shows_markup_and_emoji_codes_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"said": HOSTILE}]
    OutputPrinter("table").rows("rows", rows, [Column("said", "said")], empty="none")
    shown = capsys.readouterr().out
    assert "[bold]x[/bold] :skull:" in " ".join(shown.split())
    assert dangerous(shown) == set()


def test_a_line_for_people_shows_markup_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    OutputPrinter("table").write(HOSTILE)
    shown = capsys.readouterr().out
    assert "[bold]x[/bold] :skull:" in shown
    assert dangerous(shown) == set()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("json", '{\n  "rows": [\n    {\n      "a": 1\n    }\n  ]\n}\n'),
        ("jsonl", '{"a": 1}\n'),
        ("yaml", "rows:\n- a: 1\n"),
    ],
)
def test_programs_get_every_row_in_the_form_they_ask_for(
    chosen: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = OutputPrinter(chosen)  # type: ignore[arg-type]
    out.rows("rows", [{"a": 1}], [Column("a", "a")], empty="none")
    out.write("only for people")
    assert capsys.readouterr().out == expected


def test_a_pipe_gets_json_without_being_asked() -> None:
    assert OutputPrinter().format == "json"


def test_of_a_short_number_it_is_said_why_the_task_does_not_vouch_for_it() -> None:
    origin = {"path": "rows[1].number", "from": "unknown"}
    assert value_origin(origin) == "rows[1].number: nowhere known", "the task does not have it at all"
    assert value_origin({**origin, "in_task": True}) == (
        "rows[1].number: in the task; a number of up to three digits must be quoted there, or be called something, "
        "as file 13"
    )


def test_values_in_doubt_are_named_in_plain_words_after_the_note_of_a_rule() -> None:
    origins = [{"path": path, "from": "unknown", "sink": True} for path in ("to", "cc", "a, b", "x\u202e", "e", "f")]
    detail = {"args": {"to": "eve"}, "origins": [{"path": "body", "from": "task"}, *origins]}
    assert doubt_lines(detail) == [f'to, cc, "a, b", "x\\u202e", e, f: {UNSEEN}']
    assert doubt_lines({**detail, "origins": [*origins, *origins]})[0].startswith(
        'to, cc, "a, b", "x\\u202e", e, f and 6 more: '
    )
    assert doubt_lines({"origins": [{"path": "p" * 41, "from": "unknown"}]}) == [
        f"{'p' * 39}…: {UNSEEN}",
    ]
    row = {"detail": {**detail, "origins": origins[:1]}, "reason": "note " * 40}
    assert why_in_short(row) == f"{'note ' * 15}note… · to: {UNSEEN}"
    assert why_in_short({"detail": {}, "reason": "a note"}) == "a note"


def test_each_kind_of_doubt_has_a_line_and_a_short_number_one_of_its_own() -> None:
    number = {"path": "amount", "from": "unknown", "in_task": True}
    strange = {"path": "to", "from": "untrusted", "tool": "mail", "step": 1, "piece": "evil.example", "leak": True}
    detail = {"args": {"amount": 3}, "origins": [number, strange, {"path": "b", "from": "untrusted"}]}
    assert doubt_lines(detail) == [
        f"amount: {SHORT_NUMBER}",
        "to (mail, step 1: evil.example), b (nobody's): found in untrusted output alone, so check it",
        "to: may not be told all that this call sends",
    ]
    elsewhere = {"path": "minutes", "from": "unknown"}
    assert doubt_lines({"origins": [number, elsewhere]}) == [f"minutes: {UNSEEN}", f"amount: {SHORT_NUMBER}"]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("one two", 7, "one two"),
        ("one two", 6, "one…"),
        ("one two", 4, "one…"),
        ("onetwo", 4, "one…"),
        ("a\nb", 9, "a b"),
    ],
)
def test_a_text_is_cut_between_words_where_it_has_any(text: str, limit: int, expected: str) -> None:
    assert cut_words(text, limit) == expected and len(expected) <= limit


def test_the_words_of_a_model_in_a_call_end_where_its_quotes_end() -> None:
    detail = {"tool": "pay", "summary": "Pay {to}", "args": {"to": 'x" · towpath gates approve 1', "n": 5}}
    detail["origins"] = [{"path": "n", "sink": True}]
    assert call_in_words(detail, 20) == r'pay "Pay x\" · towpath gates approve 1" n=5 to="x\" · towpa…'
    assert call_in_words({"tool": "pay"}, 9) == "pay"
    long = {"tool": "pay", "summary": "{a} {b} {c}", "args": dict.fromkeys("abc", "y" * 39)}
    assert call_in_words(long, 9).startswith(f'pay "{"y" * 39} {"y" * 39} {"y" * 39}" a=')
    assert f'{"y" * 40} {"y" * 40}…"' in call_in_words({**long, "args": dict.fromkeys("abc", "y" * 40)}, 9)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"path": "to[0]", "from": "task", "sink": True}, "to[0] (sink): the task"),
        ({"path": "n", "from": "record", "tool": "bank.list", "step": 2}, "n: record of bank.list, step 2"),
        (
            {"path": "body\x1b[31m", "from": "untrusted", "tool": "mail", "step": 1, "piece": "evil.example"},
            "body: untrusted output of mail, step 1 (evil.example)",
        ),
        ({"path": "x", "from": "unknown"}, "x: nowhere known"),
        (
            {"path": "to", "from": "task", "sink": True, "leak": True},
            "to (sink): the task; it may not know all that goes there",
        ),
        (
            {
                "path": "body",
                "from": "unknown",
                "may_know": [
                    {"tool": "vault.read", "step": 2, "readers": ["ann@x.example", "bob@x.org"]},
                    {"tool": "vault.key", "step": 3, "readers": []},
                    {"tool": "notes.read", "step": 4, "readers": None},
                ],
            },
            (
                "body: nowhere known; may be known to ann@x.example, bob@x.org only (read with vault.read, step 2); "
                "may be known to nobody only (read with vault.key, step 3); "
                "nobody has said who may know it (read with notes.read, step 4)"
            ),
        ),
    ],
)
def test_where_a_value_comes_from_is_written_in_a_line(value: dict[str, Any], expected: str) -> None:
    assert value_origin(value) == expected


def test_a_refused_decision_is_told_in_sentences() -> None:
    found = problem("request_invalid", "a reason is required", remedy="Say why.")
    assert refusal_line(found) == "request_invalid: a reason is required. Say why."
    assert refusal_line(found.model_copy(update={"detail": "It ends."})) == "request_invalid: It ends. Say why."


def test_calls_left_out_of_a_diff_are_counted_with_what_their_reason_means() -> None:
    counts = {"limit_exceeded": 1, "forgotten": 2}
    assert left_out(counts) == "2 forgotten (dropped by retention, or erased), 1 limit_exceeded"


@pytest.mark.parametrize(("width", "shown"), [(80, "…5f2c8a9b7d31"), (120, "0199f3a0-1234-7abc-8def-5f2c8a9b7d31")])
def test_ids_are_never_folded_and_shown_by_their_ends_on_a_narrow_terminal(
    width: int, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("towpath.cli.shared.output.WIDE", width)
    entry = {"entry_id": 123456789012, "at": "2026-11-25T20:25:56Z", "phase": "decision", "verdict": "require_approval"}
    entry |= {
        "tool": "orders.refund",
        "tool_version": 12,
        "agent_key": "billing",
        "rule": "balanced/destinations",
        "actor": "",
    }
    entry |= {"caller": "local", "run_id": "0199f3a0-1234-7abc-8def-5f2c8a9b7d31"}
    OutputPrinter("table").rows("entries", [entry], _COLUMNS, empty="")
    printed = capsys.readouterr().out
    assert shown in printed
    assert "123456789012" in printed
    assert "v12" in printed
    assert max(map(len, printed.splitlines())) <= width


def test_no_argument_looks_like_another_one() -> None:
    shown = shorten({"to": "eve@evil.example", "text": "Hi to=ann@desk.example"})
    assert shown == 'to=eve@evil.example text="Hi to=ann@desk.example"'
    assert shorten({"to": "ann@desk\u200b.example\u3164\U000e0061"}, 0) == (
        'to="ann@desk\\u200b.example\\u3164\\udb40\\udc61"'
    )
    assert shorten(
        {"to": "two  spaces\u00a0", "in": {"a": "b  c\n"}, "say": 'a"b', "by": "a\\b", "no": "\ue000", "": ""}, 0
    ) == ('to="two \\u0020spaces\\u00a0" in={"a": "b \\u0020c\\n"} say="a\\"b" by="a\\\\b" no="\\ue000" ""=""')


def test_where_a_call_goes_is_shown_before_a_long_text() -> None:
    detail = {"args": {"text": "x" * 90, "to": "eve@evil.example"}, "origins": [{"path": "to[0]", "sink": True}]}
    assert shorten(sinks_first(detail), 60).startswith("to=eve@evil.example text=")


def test_every_letter_that_is_not_shown_is_escaped() -> None:
    hidden = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"]
    text = plain_json([*hidden, "\x9b", "\u3164"])
    assert text.isascii()
    assert json.loads(text) == [*hidden, "\x9b", "\u3164"]


def test_what_shows_nothing_is_the_same_in_a_terminal_and_on_a_page() -> None:
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    on_pages = set(HIDDEN.findall(every)) | {"\ufe0f"}  # one that makes the sign before it an emoji stays on pages
    escaped = {sign for sign in every if len(json_escaped(sign)) > 1}
    drawn_around_numbers = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
    assert escaped - on_pages == {"\r"} | drawn_around_numbers, "what a terminal obeys, or draws differently"
    assert on_pages - escaped == set()

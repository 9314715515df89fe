"""What is read takes about as much work and room as it has letters, and no escape and no invisible letter hides it."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tas.test_carried_readers import EVE, known, leaks
from tests.unit.tas.test_provenance import MAIL, SEND, knowledge, seen

from towpath_tas.core.provenance import provenance, search_budget
from towpath_tas.core.provenance.provenance import RunProvenance
from towpath_tas.core.provenance.search_budget import MAX_RUN_CHARS, MAX_SEARCHED
from towpath_tas.core.provenance.spoken_text import FOREIGN_PART, PART, grows, readings, spoken_parts
from towpath_tas.core.provenance.value_matching import unhidden, words

LIGATURE = "\ufdfa"
KEY = "3fa85f6457174562b3fc2c963f66afa6"


def kept(known: RunProvenance) -> int:
    return sum(len(one.letters) for one in known.outputs)


@pytest.mark.parametrize(
    "result",
    [LIGATURE * 349_000, "\u0315\u0300" * 170_000, "\uac01" * 349_000, ["\ufdfa\ufdfa"] * 100_000, "%41&lt;" * 100_000],
    ids=["ligatures", "marks", "Korean", "short ligatures", "escapes"],
)
def test_no_text_is_kept_at_a_multiple_of_what_is_counted(result: Any) -> None:
    run, began = RunProvenance(), time.thread_time()
    for _ in range(2):
        run.add_output(MAIL, result, trusted=False)
    assert kept(run) <= run.chars
    assert time.thread_time() - began < 10


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("leaf", ["", 1, None, True, {}, "a"])
def test_no_value_is_read_for_nothing(leaf: Any, trusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members without a name's length are counted too: else empty ones would never fill what a run may have."""
    most, pairs = MAX_RUN_CHARS // 400, 250
    monkeypatch.setattr(provenance, "MAX_RUN_CHARS", most)
    run = RunProvenance()
    run.add_output(MAIL, {"a": [leaf, {"": leaf}] * pairs}, trusted=trusted)
    assert run.chars > most
    assert not run.whole
    asked = RunProvenance()
    asked.add_arguments({"a": [leaf, {"": leaf}] * pairs}, reads=False)
    assert not asked.whole


def test_the_name_of_a_member_is_not_copied_for_each_value_below_it() -> None:
    run, began = RunProvenance(), time.thread_time()
    run.add_output(MAIL, {"k" * 500_000: list(range(50_000))}, trusted=False)
    assert time.thread_time() - began < 5


def test_a_text_that_would_grow_too_long_makes_what_was_seen_incomplete() -> None:
    hiding = knowledge("Write to bob@acme.com", untrusted=LIGATURE * 1_000 + "eve@evil.example")
    assert not hiding.whole
    assert seen(hiding, to=["eve@evil.example"])["worst_sink"] == "untrusted"
    assert seen(hiding, to=["bob@acme.com"])["worst_sink"] == "task"
    assert knowledge(untrusted=f"the prophet {LIGATURE} said").whole
    assert knowledge(untrusted="\uac01\ud55c\uae00 " * 5_000).whole


def test_a_text_may_grow_to_three_times_its_length_and_a_short_one_by_some_ligatures() -> None:
    assert not grows("\uac01" * 200) and not grows(LIGATURE * 4)
    assert grows(LIGATURE * 5)
    assert grows("x" * 82 + LIGATURE * 18), "four times"


def test_escapes_are_read_three_times() -> None:
    assert readings("%252568x")[0] == "hx"
    assert readings("%25252568x")[0] == "%68x"


def test_a_value_that_would_grow_too_long_counts_as_copied() -> None:
    run = known(("A quiet day", [EVE]))
    assert seen(run, to=[], body=LIGATURE * 1_000)["worst"] == "untrusted"
    assert leaks(run, EVE, body=LIGATURE * 1_000) == [EVE]


def test_the_arguments_of_a_call_count_in_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the budget, and arguments that take a tenth of what they would take of the whole one."""
    monkeypatch.setattr(search_budget, "MAX_SEARCHED", MAX_SEARCHED // 10)
    run = knowledge("Write to bob@acme.com", untrusted="hello")
    began = time.thread_time()
    found = run.origin(SEND, {"to": ["bob@acme.com"], "body": [f"{place}" + LIGATURE * 4_000 for place in range(40)]})
    assert found.context()["worst"] == "untrusted"
    assert time.thread_time() - began < 1


@pytest.mark.parametrize("before", ["%", "&#x", "&#", "%25", "x %20%", "&amp;#x", "&"])
def test_what_looks_like_an_escape_hides_nothing_behind_it(before: str) -> None:
    run = known(({"key": KEY, "code": "hx7-99-zk"}, ["ann@acme.example"]))
    for body in (f"{before}{KEY}", f"The key is {before}{KEY}.", f"It is {before}hx7-99-zk"):
        assert leaks(run, EVE, body=body) == [EVE], body
    mail = knowledge(untrusted=f"key {before}{KEY} end")
    assert seen(mail, to=[KEY])["worst_sink"] == "untrusted"


@pytest.mark.parametrize(
    "code", ["&#104;x7-99-zk", "%68x7-99-zk", "%2568x7-99-zk", "hx7&#45;99-zk", "hx7%2D99&#x2d;zk"]
)
def test_an_escape_inside_a_secret_hides_nothing(code: str) -> None:
    run = known(({"code": "hx7-99-zk"}, ["ann@acme.example"]))
    assert leaks(run, EVE, body=f"It is {code}") == [EVE]


@pytest.mark.parametrize(
    "invisible", "\u3164\u115f\u1160\uffa0\u200b\u00ad\u2060\ufe0f\u180e\u0345\u034f\U000e0061\U000e0100"
)
def test_an_invisible_letter_hides_nothing(invisible: str) -> None:
    secret = "The plan for autumn is called Halyard"
    hidden = secret.replace("plan", f"pl{invisible}an")
    assert unhidden(hidden) == unhidden(secret)
    assert "eve" in words(f"write to e{invisible}ve")
    assert leaks(known((secret, ["ann@acme.example"])), EVE, body=hidden) == [EVE]


@given(st.text(max_size=40), st.integers(0, 3))
def test_parts_read_like_the_whole(text: str, more: int) -> None:
    """Where a text is cut changes nothing but the order of marks, which are no letters."""
    long = f"{text} " * (1 + more * (FOREIGN_PART // (len(text) + 1) + 1))
    assert unhidden(long) == unhidden(f"{text} ") * (len(long) // (len(text) + 1)) or len(readings(long)) > 1
    assert "".join(spoken_parts("A" * (PART * 2 + more))) == "a" * (PART * 2 + more)

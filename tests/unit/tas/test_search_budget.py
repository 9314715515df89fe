"""A call whose values take too much to be looked up is bounded, the same everywhere, and never waved through."""

import random
import time
from dataclasses import replace

import pytest
from tests.unit.tas.test_careful_example import asked, bundle
from tests.unit.tas.test_provenance import BANK, MAIL, SEND, knowledge

from towpath_tas.core.provenance import provenance, search_budget
from towpath_tas.core.provenance.call_values import CallProvenance
from towpath_tas.core.provenance.provenance import RunProvenance

DRAWN = random.Random(1)
ACCOUNTS = [f"GB{DRAWN.randrange(10**20):020}" for _ in range(300)]
ONES = ["1" * count for count in range(7, 41)]


def traced(known: RunProvenance, values: list[str]) -> CallProvenance:
    return known.origin(SEND, {"to": values})


def limited(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(search_budget, "MAX_SEARCHED", most)
    monkeypatch.setattr(provenance, "MAX_SEARCHED", most)


@pytest.mark.parametrize(
    ("task", "values", "word"),
    [
        ("a " * 45_000, [f"v{place}@x.example" for place in range(499)], "unknown"),
        ("word12 " * 15_400, ACCOUNTS, "unknown"),
        (" ".join(f"x{one}" for one in ACCOUNTS) * 15, ACCOUNTS, "unknown"),
        ("1" * 90_000, [*ONES, *(f"{one}2" for one in ONES)], "unknown"),
        ("file 7 " * 13_000, [str(place) for place in range(100, 500)], "unknown"),
    ],
    ids=["names", "accounts", "accounts inside words", "ones", "short numbers"],
)
def test_many_values_and_a_long_task_take_little(
    monkeypatch: pytest.MonkeyPatch, task: str, values: list[str], word: str
) -> None:
    """A fifth of the budget at most: the text is searched only for what passes one look into a set."""
    limited(monkeypatch, 40_000_000)
    found = traced(knowledge(task), values)
    assert found.context()["sinks"] == [word]
    assert not found.too_costly


@pytest.mark.parametrize("marks", ["\u0315\u0316", "\u0f73", "a\u093f"])
def test_marks_without_end_take_little_wherever_they_stand(marks: str) -> None:
    """The library sorts those of one letter in a time that grows with the square of their number."""
    text = "a" + marks * (80_000 // len(marks))
    known = knowledge(f"Write to ann@acme.com {text}")
    began = time.thread_time()
    known.add_output(BANK, {"name": f"b{text}"}, trusted=True)
    known.add_arguments({"body": f"c{text}"}, reads=False)
    found = known.origin(SEND, {"to": ["ann@acme.com"], "body": f"d{text}"})
    assert time.thread_time() - began < 5
    assert [found.context()["args"][name] for name in ("to", "body")] == ["task", "unknown"]


def test_long_arguments_are_looked_up_in_a_thread_whatever_was_read_before() -> None:
    known = knowledge("Write to ann@acme.com")
    assert known.takes_long(100_000)
    assert not known.takes_long(1_000)


def test_what_the_budget_does_not_reach_counts_as_untrusted(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 50_000)
    known = knowledge("Write to ann@acme.com")
    known.add_output(MAIL, "lorem ipsum " * 1_000, trusted=False)
    found = traced(known, [f"v{place}@x.example" for place in range(10)])
    labels = [one.label for one in found.values]
    assert (labels[0], labels[-1], sorted(set(labels))) == ("unknown", "untrusted", ["unknown", "untrusted"])
    assert labels == [one.label for one in traced(known, [f"v{place}@x.example" for place in range(10)]).values]
    assert not found.too_costly
    assert traced(known, ["ann@acme.com"] * 400).context()["sinks"] == ["task"], "the same value is looked up once"
    assert traced(known, [f"v{place}@x.example" for place in range(400)]).too_costly


def test_a_call_is_denied_that_would_take_more_than_three_times_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 100_000)
    known = knowledge()
    known.add_output(MAIL, "lorem ipsum " * 1_000, trusted=False)
    for values in range(20, 80):
        found = traced(known, [f"v{place}@x.example" for place in range(values)])
        unseen = sum(one.label == "untrusted" for one in found.values)
        assert found.too_costly is (unseen * (known.chars + known.task_chars) > 300_000)
    assert found.too_costly


def test_one_text_can_not_spend_more_than_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 50_000)
    known = knowledge()
    known.add_output(MAIL, "lorem ipsum " * 1_000, trusted=False)
    found = known.origin(SEND, {"body": "".join(f"The sentence with number {place} in it.\n" for place in range(100))})
    assert found.context()["args"] == {"body": "untrusted"}


def test_a_call_that_exceeds_the_budget_by_far_is_denied_with_its_own_code() -> None:
    query = asked("mail.send", {"to": ["ann@acme.com"]})
    costly = CallProvenance(values=(), too_costly=True)
    decision = bundle().authorize(replace(query, origin={}, call_origin=costly))
    assert decision.denial is not None
    assert (decision.effect, decision.denial.violation_type) == ("deny", "too_costly")
    assert "fewer or shorter arguments" in decision.denial.suggestion


def test_long_searches_are_left_to_a_thread() -> None:
    assert not knowledge("Write to ann@acme.com", untrusted="x" * 10_000).takes_long(500)
    assert knowledge("a " * 45_000).takes_long(10)
    assert knowledge(untrusted="x " * 500_000).takes_long(500)

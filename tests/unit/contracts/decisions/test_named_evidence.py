"""What counts as naming evidence: a listed name that stands alone in the text."""

import time

import pytest

from towpath_contracts.decisions.evidence import EvidenceSearch, evidence_fault
from towpath_contracts.decisions.request import DecisionKind

CALL = "0193aaaa-0000-7000-8000-000000000001"
NAMES = (CALL, "report.md", "a b.txt", "out/plan")


@pytest.mark.parametrize(
    "text",
    [
        f"call {CALL} says so",
        f"see {CALL}.",
        "report.md",
        "In report.md.",
        "(`report.md`)",
        "a b.txt, line 3",
        "out/plan",
    ],
)
def test_a_name_that_stands_alone_is_named(text: str) -> None:
    assert EvidenceSearch(NAMES).is_named_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I said so",
        CALL[:-1],
        f"{CALL}0",
        "myreport.md",
        "report.mdx",
        "report.md.bak",
        "docs/report.md",
        "out/planned",
    ],
)
def test_words_and_parts_of_longer_names_name_nothing(text: str) -> None:
    assert not EvidenceSearch(NAMES).is_named_in(text)


def test_a_name_of_plain_words_is_quoted_or_all_of_the_text() -> None:
    """Who acts chooses the names of files: one that sentences hold anyway shows nothing."""
    names = ("report", "I read it")
    assert not EvidenceSearch(names).is_named_in("The report is clear: I read it.")
    for text in ("report", "see `report`", 'the file "I read it"'):
        assert EvidenceSearch(names).is_named_in(text)


def test_an_answer_is_told_which_of_its_claims_lack_evidence() -> None:
    assessment = {"evidence": [{"name": CALL, "what": "call of edit, step 1"}], "text_criteria": [0, 2]}
    met = {"met": True, "evidence": "it is so"}
    criteria = [{"criterion": 0, **met}, {"criterion": 1, **met}, {"criterion": 2, "met": True, "evidence": CALL}]
    fault = evidence_fault(DecisionKind.VALIDATE, {"criteria": criteria}, assessment)
    assert fault.startswith("criteria.0.evidence: name one of the listed evidence") and ";" not in fault
    assert "evidence: name" in evidence_fault(DecisionKind.PROGRESS, {"progress": 1}, assessment)
    for answer in ({"progress": 0.9}, {"progress": None}, {"progress": 1, "evidence": f"by {CALL}"}):
        assert evidence_fault(DecisionKind.PROGRESS, answer, assessment) == ""


def test_nothing_is_asked_for_where_nothing_need_or_can_be_named() -> None:
    answer = {"criteria": [{"criterion": 0, "met": True, "evidence": ""}]}
    for assessment in (None, {}, {"evidence": [], "text_criteria": [0]}):
        assert evidence_fault(DecisionKind.VALIDATE, answer, assessment) == ""


def test_names_that_are_costly_to_look_for_take_a_bounded_time() -> None:
    """Whoever acts chooses names, and a judge writes texts: both may be such that each look takes long."""
    names = [*("." * dots + sign for sign in "abcdefghij" for dots in range(79, 59, -1)), "z9"]
    text = "".join("." * 79 + f"{sign}y " for sign in "abcdefghij")
    text = "." * (3_950 - len(text)) + text + " z9"
    judged = [{"criterion": number, "met": True, "evidence": text} for number in range(64)]
    assessment = {"evidence": [{"name": name, "what": "file"} for name in names], "text_criteria": [*range(64)]}
    began = time.process_time()
    fault = evidence_fault(DecisionKind.VALIDATE, {"criteria": judged}, assessment)
    assert time.process_time() - began < 0.5
    assert "criteria.0." not in fault and "criteria.63." in fault


def test_long_texts_of_many_criteria_are_looked_at_whole() -> None:
    """What an honest judge writes of a run with many files is far within the budget."""
    search = EvidenceSearch(f"out/part-{number}.md" for number in range(264))
    said = "It is in the last part that was written, see out/part-263.md. " * 4
    assert all(search.is_named_in(said) for _ in range(64))

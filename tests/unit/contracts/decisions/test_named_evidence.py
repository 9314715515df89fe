"""What counts as naming evidence: a listed name that stands alone in the text."""

import pytest

from towpath_contracts.decisions.evidence import evidence_fault, names_any
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
    assert names_any(text, NAMES)


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
    assert not names_any(text, NAMES)


def test_a_name_of_plain_words_is_quoted_or_all_of_the_text() -> None:
    """Who acts chooses the names of files: one that sentences hold anyway shows nothing."""
    names = ("report", "I read it")
    assert not names_any("The report is clear: I read it.", names)
    for text in ("report", "see `report`", 'the file "I read it"'):
        assert names_any(text, names)


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

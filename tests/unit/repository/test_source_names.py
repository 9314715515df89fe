"""The page of the source designs: every feature has its row, and every test that a row names is there."""

import re
from collections import Counter

import pytest
from tests import rows
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "sources.md").read_text("utf-8")
ROW = re.compile(r"^\| ([A-F]\d+) \| (.+) \| `([\w/]+\.py)::(\w+)` \|$", re.MULTILINE)
FEATURES = {"A": 15, "B": 13, "C": 13, "D": 13, "E": 11, "F": 8}
"""How many each letter has in the source designs; what the product promises beyond them is in rows.yaml alone."""


def test_every_feature_of_the_source_designs_has_one_row() -> None:
    wanted = [f"{letter}{number}" for letter, count in FEATURES.items() for number in range(1, count + 1)]
    assert [row for row, *_ in ROW.findall(PAGE)] == wanted
    assert len(wanted) == 73


@pytest.mark.parametrize(("row", "file", "name"), [(row, file, name) for row, _, file, name in ROW.findall(PAGE)])
def test_a_feature_names_a_test_that_bears_it(row: str, file: str, name: str) -> None:
    assert f"tests/{file}::{name}" in {test.place for test in rows.tests_of(row)}


def test_a_term_of_a_design_is_explained_once() -> None:
    terms = Counter(re.findall(r"^\| (.+?) \| .+? \|.*\|$", PAGE.partition("## The 73 features")[0], re.MULTILINE))
    repeated = {term for term, times in terms.items() if times > 1} - {"there", "---", "`agent_id`"}
    assert not repeated, "`agent_id` alone is a word of two designs"

"""The generated pages of docs/reference are what the code says now, and their hand-written parts cover all of it."""

import pytest
from tests.docs_site.page_list import DOCS
from tests.docs_site.reference import GENERATED, WRITE, generated_text
from tests.docs_site.reference.policy_page import ABOUT, NAMES

import towpath
from towpath_contracts.files.policy_document import DocumentRule
from towpath_tas.core.policy.condition_work import VARIABLES


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    written = (DOCS / "reference" / name).read_text("utf-8")
    assert written == generated_text(name), f"docs/reference/{name} is stale; write it again: {WRITE}"


def test_the_policy_page_explains_every_key_and_every_name_of_conditions() -> None:
    assert tuple(ABOUT) == tuple(DocumentRule.model_fields)
    assert set(NAMES) == VARIABLES


def test_the_sdk_page_has_every_public_name() -> None:
    page = (DOCS / "reference" / "sdk.md").read_text("utf-8")
    assert [name for name in towpath.__all__ if f"\n## {name}\n\n```text\n" not in page] == []

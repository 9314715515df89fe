"""What the pages say about the tree is true."""

import re

from tests.support.places import ROOT

from towpath_contracts.streams import STREAMS

HEADS = ("README.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md", "deploy/README.md")
PAGES = [*(ROOT / name for name in HEADS), *sorted((ROOT / "docs").rglob("*.md"))]
README_LINES = 150
MADE_LATER = {"deploy/secrets"}
"""Made by a command of deploy/, never in git."""
IN_THE_TREE = re.compile(r"`((?:libs|services|tests|docs|deploy|bench|examples)/[\w./-]+)`")


def test_every_path_that_a_page_names_is_there() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in IN_THE_TREE.findall(page.read_text("utf-8"))
        if path.rstrip("/") not in MADE_LATER and not (ROOT / path.rstrip("/")).exists()
    ]
    assert missing == []


def test_the_architecture_page_names_every_stream_with_its_subjects() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \|", text, re.MULTILINE))
    assert rows == {stream.name: stream.subjects[0] for stream in STREAMS}


def test_the_architecture_page_names_every_table_of_its_owner() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for file in ROOT.glob("services/*/migrations/*.sql"):
        for schema, table in re.findall(r"(?mi)^CREATE TABLE (\w+)\.(\w+)", file.read_text("utf-8")):
            if not table.endswith("_default"):
                assert re.search(rf"`(?:{schema}\.)?{table}`", text), f"{schema}.{table}"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= README_LINES


def test_every_decision_stands_in_the_list() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8")))
    assert listed == {path.name for path in folder.glob("[0-9]*.md")}

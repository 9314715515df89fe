"""Whatever can grow stands on the page about storage, with what bounds it."""

import re

from tests.support.places import ROOT

from towpath_contracts.streams import MIB, STREAMS

PAGE = (ROOT / "docs" / "storage.md").read_text("utf-8")
TABLE = re.compile(r"(?i)CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+\.\w+)(?! PARTITION OF)\b")
STORED_ELSEWHERE = re.compile(r"\b(?:create_)?(?:key_value|object_store)\(")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_table_has_one_row_that_says_what_bounds_it() -> None:
    sources = [*ROOT.glob("services/*/migrations/*.sql"), ROOT / "libs/towpath_fabric/postgres/migrations.py"]
    made = [table for file in sources for table in TABLE.findall(file.read_text("utf-8"))]
    found = rows("Tables")
    assert sorted(row[0].strip("`") for row in found) == sorted(made)
    assert all(len(row) == 3 and all(row) for row in found)


def test_every_stream_has_its_size_and_its_age() -> None:
    ages = {0: "until it is handled", 3_600: "an hour, and the last message of each subject", 86_400: "24 hours"}
    assert rows("Streams") == [
        [f"`{one.name}`", f"{one.max_bytes // MIB} MiB", ages[int(one.max_age_s)]] for one in STREAMS
    ]


def test_nothing_is_stored_in_buckets_of_the_broker() -> None:
    sources = [*ROOT.glob("libs/**/*.py"), *ROOT.glob("services/**/*.py")]
    assert [str(file) for file in sources if STORED_ELSEWHERE.search(file.read_text("utf-8"))] == []

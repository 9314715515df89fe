"""Moments on the command line: some have to be the same whenever they are said."""

from datetime import UTC, datetime

import pytest

from towpath.cli.shared.times import parse_moment, parse_time
from towpath_contracts.problems.registry import ProblemError


def test_a_moment_without_an_offset_is_meant_in_utc() -> None:
    assert parse_moment("2026-11-27T08:00", "--at") == datetime(2026, 11, 27, 8, tzinfo=UTC)
    assert parse_moment("2026-11-27T08:00+01:00", "--at") == datetime(2026, 11, 27, 7, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2h", " 30d ", "yesterday", ""])
def test_what_is_another_moment_each_time_is_refused(text: str) -> None:
    with pytest.raises(ProblemError) as refused:
        parse_moment(text, "--at")
    assert refused.value.problem.code == "request_invalid"


def test_elsewhere_an_age_will_do() -> None:
    assert parse_time("2h", "--since") is not None

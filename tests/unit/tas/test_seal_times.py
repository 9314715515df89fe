"""When a checkpoint may be signed: by the sealer's own clock, while it and Postgres's agree, and never backwards."""

from datetime import UTC, datetime, timedelta

import pytest

from towpath_audit.retention import CLOCK_ALLOWANCE
from towpath_tas.core.seal_times import MAX_CLOCK_DIFFERENCE, clock_problem, seal_time

NOW = datetime(2026, 11, 24, tzinfo=UTC)
LITTLE = timedelta(seconds=1)


@pytest.mark.parametrize("sign", [1, -1])
def test_nothing_is_signed_while_the_clocks_differ(sign: int) -> None:
    assert clock_problem(NOW, NOW + sign * MAX_CLOCK_DIFFERENCE) is None
    assert "in Postgres" in str(clock_problem(NOW, NOW + sign * (MAX_CLOCK_DIFFERENCE + LITTLE)))


def test_nothing_is_signed_before_the_last_checkpoint_but_for_the_difference_of_clocks() -> None:
    assert clock_problem(NOW, NOW, NOW - timedelta(days=400)) is None
    assert clock_problem(NOW, NOW, NOW + MAX_CLOCK_DIFFERENCE) is None
    assert "which is later" in str(clock_problem(NOW, NOW, NOW + MAX_CLOCK_DIFFERENCE + LITTLE))


def test_signed_times_never_fall() -> None:
    assert seal_time(NOW, None) == NOW
    assert seal_time(NOW, NOW - LITTLE) == NOW
    assert seal_time(NOW, NOW + LITTLE) == NOW + LITTLE


def test_a_verifier_allows_for_what_two_replicas_may_differ_by() -> None:
    assert CLOCK_ALLOWANCE == 3 * MAX_CLOCK_DIFFERENCE

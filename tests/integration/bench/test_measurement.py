"""A peer is measured in a process of its own, on a Postgres of its own; what fails says why."""

import sys
from pathlib import Path

import pytest

from comparison.environments import Environment
from comparison.figures import METRICS, figures_of
from comparison.measurement import Manner, MeasurementError, measure_peer

MANNER = Manner(quick=True, realtime=False)


async def test_a_peer_is_measured_with_its_postgres() -> None:
    """This environment has what the bare Postgres needs."""
    measured = await measure_peer("postgres", Environment(Path(sys.executable), None), MANNER)
    figures = figures_of("postgres", measured)
    assert figures.keys() == {metric.key for metric in METRICS} - {"cpu_ms_without_client"}
    assert all(value > 0 for value in figures.values())
    assert measured["together"]["cpu_ms_per_step_by_process"].keys() == {"client", "postgres"}
    assert (measured["realtime"], measured["together"]["runs"]) == (False, 50)
    assert "asyncpg" in measured["versions"]


async def test_a_peer_that_fails_says_why() -> None:
    """The package of DBOS is not installed here."""
    with pytest.raises(MeasurementError, match="No module named 'dbos'"):
        await measure_peer("dbos", Environment(Path(sys.executable), None), MANNER)

"""What a wait that is over says of the run: what it waits for, where somebody tells that at once."""

import asyncio
from typing import Any

import pytest
from tests.unit.gateway.protocols.test_a2a import RUN, view

from towpath import RunTimeoutError
from towpath.client import run_controls
from towpath.client.run_controls import timeout_of
from towpath.errors import error_from
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.views import RunView


class Looks:
    """A way to a platform that tells of one run, refuses to, or is silent."""

    def __init__(self, told: RunView | Exception | None) -> None:
        self._told = told

    async def get(self, _run_id: Any) -> RunView:
        if self._told is None:
            await asyncio.Event().wait()
        if not isinstance(self._told, RunView):
            raise self._told or AssertionError
        return self._told


async def told(found: RunView | Exception | None) -> str:
    error = await timeout_of(Looks(found), RUN)  # type: ignore[arg-type]
    assert isinstance(error, RunTimeoutError) and error.problem.run_id == str(RUN)
    return str(error.problem.detail)


async def test_a_run_that_did_not_end_in_time_says_first_what_it_waits_for() -> None:
    waits = ("tool: no worker takes calls of the toolset orders", "approval: large")
    assert (
        await told(view("running", waits=waits))
        == f"run {RUN} did not end in time: it is running and waits for {waits[0]}"
    )


@pytest.mark.parametrize("found", [view("running"), error_from(problem("unavailable", "away"))])
async def test_a_run_that_tells_nothing_did_not_end_in_time(found: RunView | Exception) -> None:
    assert await told(found) == f"run {RUN} did not end in time"


async def test_a_silent_platform_is_waited_for_no_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_controls.LAST_LOOK_S == 2
    monkeypatch.setattr(run_controls, "LAST_LOOK_S", 0.01)
    assert await told(None) == f"run {RUN} did not end in time"

"""How long a run may be active: by its task, its network, its kind, and what the platform allows at most."""

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.engine.machine import agent, snapshot

from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.run_limits import MAX_TIMEOUT_MS
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.core.run_times import USUAL_TIMES, RunTimes, times_of
from towpath_orchestrator.core.tasks import check_task
from towpath_orchestrator.settings import OrchestratorSettings

MINUTE_MS = 60_000
SWARM = CompiledSwarm.model_validate({"mode": "handoff", "members": ("a",), "stages": (("a",),), "handoffs": {"a": ()}})


def network(timeout_ms: int | None = None, swarm: CompiledSwarm | None = None) -> NetworkSnapshot:
    return snapshot(agent("a"), swarm=swarm, timeout_ms=timeout_ms)


def task(**given: Any) -> SubmitTask:
    return SubmitTask.model_validate({"network": "desk", "user_message": "x", **given})


@pytest.mark.parametrize(
    ("given", "minutes"),
    [
        ({}, 5),
        ({"goal": {"goal": "tests pass"}}, 30),
        ({"plan": {"prompt": "Do it."}}, 60),
        ({"background": {"objective": "review"}}, MAX_TIMEOUT_MS / MINUTE_MS),
    ],
)
def test_c3_a_run_has_the_time_that_is_usual_for_its_kind(given: dict[str, Any], minutes: float) -> None:
    """Row C3: a run ends at its deadline, also where nobody has set one."""
    assert USUAL_TIMES.of(task(**given), network()) == minutes * MINUTE_MS


def test_a_swarm_has_more_time_than_one_agent() -> None:
    assert USUAL_TIMES.of(task(), network(swarm=SWARM)) == 30 * MINUTE_MS


def test_a_network_says_otherwise_and_a_task_goes_before_it() -> None:
    assert USUAL_TIMES.of(task(goal={"goal": "g"}), network(7_000)) == 7_000
    assert USUAL_TIMES.of(task(timeout_ms=9_000), network(7_000)) == 9_000
    assert USUAL_TIMES.of(task(plan={"prompt": "p", "timeout_ms": 5_000}), network()) == 5_000, (
        "a plan's can only lower"
    )


def test_whoever_runs_the_platform_sets_other_times_and_the_longest() -> None:
    settings = OrchestratorSettings(embedded=True, goal_timeout_ms=2_000, max_timeout_ms=5_000)
    times = times_of(settings)
    assert times.of(task(goal={"goal": "g"}), network()) == 2_000
    assert times.of(task(), network(9_000)) == times.of(task(background={"objective": "o"}), network()) == 5_000
    refused = check_task(task(timeout_ms=5_001), network(), settings)
    assert refused is not None
    assert [(one.pointer, one.code, one.detail) for one in refused.errors] == [
        ("/timeout_ms", "limit_exceeded", "a run has at most 5000 ms of active time here")
    ]
    assert check_task(task(timeout_ms=5_000), network(), settings) is None


def test_no_setting_raises_the_cap() -> None:
    with pytest.raises(ValidationError):
        OrchestratorSettings(embedded=True, max_timeout_ms=MAX_TIMEOUT_MS + 1)
    assert RunTimes().longest_ms == MAX_TIMEOUT_MS

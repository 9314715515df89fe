"""Each phase of the benchmark of scale measures something, with few runs, and its page shows it."""

from typing import Any

from growth.page import text
from growth.platform import QUICK, scene
from scale import ALONE, measure_replicas

FEW = QUICK._replace(replicas=(2,), together=4, warm_up=1, lengths=(10, 20), queued=30, executed=20)._replace(
    active=5, parked=6, few=2, idle_s=0.2
)
HEAD = {"date": "2026-01-02", "machine": "one processor", "quick": True}


async def test_replicas_are_measured_with_their_conflicts() -> None:
    found = (await measure_replicas(FEW))["2"]
    assert found["runs"] == 4
    assert min(found["steps_per_s"], found["cpu_ms_per_step"], found["reloads_per_1000_steps"]) > 0
    assert found["conflicts_per_1000_steps"] >= 0
    assert "| conflicts per 1,000 steps |" in text({**HEAD, "replicas": {"2": found}})


async def test_long_queued_and_parked_runs_are_measured() -> None:
    async with scene(FEW, active=FEW.active) as at:
        found: dict[str, Any] = {name: await measure(at, FEW) for name, measure in ALONE.items()}
    lengths, ends = found["length"]["lengths"], found["length"]["ends"]
    assert lengths.keys() == {"10", "20"}
    assert all(value > 0 for row in lengths.values() for value in row.values())
    assert ends["steps"] == 2
    long = found["queued"]["long"]
    # One caller's runs of one network hold four fifths of the room.
    assert (long["queued"], found["queued"]["short"]["queued"]) == (26, 16)
    assert long["memory_mb_queued"]["orchestrator"] > 0
    many = found["parked"]["many"]
    assert (many["parked"], many["wakes"]) == (6, 2)
    assert 0 < many["wake_ms_p50"] <= many["wake_ms_max"]
    page = text({**HEAD, **found})
    assert [line for line in page.splitlines() if line.startswith("###")] == [
        "### Length of a run",
        "### Queued runs",
        "### Parked runs",
    ]

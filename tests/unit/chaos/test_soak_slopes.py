"""What a soak says of samples: that a leak is one, that a restart, a cache that fills and noise are none."""

import asyncio
import random
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from tests.chaos.soak.curves import soak_svg
from tests.chaos.soak.mixture import SHARES, kind_of, task_of
from tests.chaos.soak.report import growing, growth_report
from tests.chaos.soak.run import stop_all, targets
from tests.chaos.soak.slopes import LEAST_SPAN, LIMITS, WARM_UP_RUNS, WARM_UP_S, growth_slopes, weighted_quantiles

from towpath_contracts.tasks import SubmitTask
from towpath_embedded.chaos.faults import SERVICES

Sample = dict[str, Any]
RATE = 100
EVERY_S = 10


def samples(minutes: float, *, leak: float = 0.0, noise: float = 3.0, killed_after_s: float = 0.0) -> list[Sample]:
    """Samples of a service that holds 80 MiB, 40 of which come while it warms up, and *leak* more per 10,000 runs."""
    chance, found = random.Random(7), []
    for number in range(int(minutes * 60 / EVERY_S)):
        at, life = float(number * EVERY_S), int(number * EVERY_S // killed_after_s) if killed_after_s else 0
        lived = at - life * killed_after_s
        held = 40 + 40 * min(1.0, lived / WARM_UP_S) + leak * lived * RATE / 10_000 + chance.uniform(-noise, noise)
        use = {"anon_mib": held, "fds": 30.0 + chance.choice((0, 1)), "threads": 9.0, "cpu_s": lived / 2}
        found.append(
            {
                "at": at,
                "work": {"done": at * RATE, "under_way": 100, "waited_s": at / 2},
                "services": {"orchestrator": use},
                "pids": {"orchestrator": 100 + life},
                "database": {"bytes": 1e6 + at * RATE * 1024, "wal": at * RATE * 4096, "wal_files": 2**25},
                "tables": {"runs.run": {"bytes": 1e6 + at * RATE * 512}, "small": {"bytes": 8192}},
                "streams": {"EVENTS": {"bytes": at * RATE * 100, "messages": 5, "redelivered": 2}},
            }
        )
    return found


def verdicts(found: list[Sample]) -> dict[str, str]:
    return {slope.measure: slope.verdict for slope in growth_slopes(found)}


def test_what_warms_up_and_wavers_is_flat() -> None:
    assert verdicts(samples(20)) == {"anon_mib": "flat", "fds": "flat", "threads": "flat"}


def test_a_slow_leak_is_found_among_noise_of_many_times_its_size() -> None:
    slope = growth_slopes(samples(30, leak=2.0))[0]
    assert (slope.service, slope.measure, slope.verdict) == ("orchestrator", "anon_mib", "grows")
    assert slope.slope == pytest.approx(2.0, abs=0.3)
    assert slope.low < slope.slope < slope.high


def test_a_leak_is_found_although_each_process_is_killed_before_it_shows() -> None:
    slope = growth_slopes(samples(60, leak=3.0, noise=1.0, killed_after_s=600))[0]
    assert slope.slope == pytest.approx(3.0, abs=0.3)
    assert slope.verdict == "grows"


def test_processes_that_begin_anew_are_no_growth_and_no_shrinking() -> None:
    slope = growth_slopes(samples(60, noise=0.5, killed_after_s=600))[0]
    assert slope.verdict == "flat"
    assert slope.slope == pytest.approx(0.0, abs=0.2)


def test_a_life_that_is_too_short_is_not_judged() -> None:
    short = (max(WARM_UP_S, WARM_UP_RUNS / RATE) + (LEAST_SPAN - 2 * RATE * EVERY_S) / RATE) / 60
    assert set(verdicts(samples(short, leak=50)).values()) == {"too short to tell"}
    assert verdicts(samples(short + 1, leak=50))["anon_mib"] == "grows"
    assert growth_slopes(samples(1, leak=50)) == []


@pytest.mark.parametrize(("measure", "limit"), LIMITS.items())
def test_what_may_be_added_by_ten_thousand_runs_is_limited(measure: str, limit: float) -> None:
    for times, verdict in ((0.8, "flat"), (1.2, "grows")):
        found = samples(20)
        for sample in found:
            sample["services"]["orchestrator"][measure] = 50 + times * limit * sample["work"]["done"] / 10_000
        assert verdicts(found)[measure] == verdict


def test_quantiles_are_of_the_weight() -> None:
    assert weighted_quantiles([(3.0, 1.0), (1.0, 1.0), (2.0, 98.0)], 0.005, 0.5, 1.0) == [1.0, 2.0, 3.0]


def test_a_report_tells_rates_costs_and_what_is_left() -> None:
    found = growth_report(samples(20, leak=4.0))
    assert found["rate"]["runs_per_s"] == RATE
    assert found["rate"]["no_room_share"] == 0.5
    assert found["cpu_ms_per_run"] == {"orchestrator": pytest.approx(500 / RATE, abs=0.01), "all": 5.0}
    assert found["stored"]["database_kib_per_run"] == 1.0
    assert found["stored"]["wal_kib_per_run"] == 4.0
    assert found["stored"]["table_bytes_per_run"]["runs.run"] == 512
    assert found["stored"]["stream_bytes_per_run"] == {"EVENTS": 100.0}
    assert found["stored"]["redelivered"] == {"EVENTS": 2}
    assert [sentence.split(" grows")[0] for sentence in growing(found)] == ["orchestrator: anon_mib"]
    assert growing(growth_report(samples(20))) == []


def test_the_time_of_every_life_of_a_process_is_counted() -> None:
    cost = growth_report(samples(60, killed_after_s=600))["cpu_ms_per_run"]["orchestrator"]
    assert cost == pytest.approx(500 / RATE, rel=0.02)


def test_the_curves_are_drawn_also_of_samples_that_lack_something() -> None:
    found = samples(5)
    del found[3]["tables"], found[4]["streams"], found[5]["services"]["orchestrator"]
    drawn = soak_svg(found, [60.0, 120.0], "a & b")
    root = ET.fromstring(drawn)
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a & b" in texts and "largest tables, MiB" in texts
    assert drawn == soak_svg(found, [60.0, 120.0], "a & b")
    assert drawn.count('class="kill"') == 2 * 8
    assert "nan" not in drawn


def test_every_run_is_a_task_of_a_kind_drawn_by_seed_and_number() -> None:
    assert sum(SHARES.values()) == 100
    numbers = range(2_000)
    kinds = [kind_of(number, 1) for number in numbers]
    assert set(kinds) == set(SHARES)
    assert kinds == [kind_of(number, 1) for number in numbers] != [kind_of(number, 2) for number in numbers]
    keys = {SubmitTask.model_validate(task_of(number, 1)).idempotency_key for number in numbers}
    assert len(keys) == len(numbers)


def test_every_part_is_killed_in_turn_and_the_database_rarely() -> None:
    drawn = targets(3)
    first = {next(drawn) for _ in range(len(SERVICES) + 2)}
    assert first == {*SERVICES, "nats", "postgres"}
    assert {next(drawn) for _ in range(2 * (len(SERVICES) + 1))} == {*SERVICES, "nats"}


async def test_what_ended_by_a_fault_is_told_and_what_is_stopped_is_not() -> None:
    async def fail() -> None:
        raise TimeoutError("nothing lives")

    tasks = [asyncio.create_task(fail()), asyncio.create_task(asyncio.sleep(3600))]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert await stop_all(*tasks) == ["TimeoutError: nothing lives"]
    assert all(task.done() for task in tasks)

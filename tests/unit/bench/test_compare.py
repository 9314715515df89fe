"""What the command makes of measurements, and of those that it has stored."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from compare import compared, stored


def measured(cost: float, *, others: float = 0.0, realtime: bool = True, **more: Any) -> dict[str, Any]:
    together = {"steps_per_s": 1 / cost, "cpu_ms_per_step": cost, "cpu_ms_per_step_without_client": cost}
    return {
        "realtime": realtime,
        "alone": {"ms_per_step_p50": cost},
        "together": {**together, "cpu_share_of_others": others},
        "memory": {"pss_mb": cost},
        **more,
    }


MEASUREMENTS = {
    "pure": {1: measured(2.0, others=0.25), 2: measured(3.0)},
    "dbos": {1: measured(1.0, others=0.5, versions={"dbos": "3.4.0"})},
}


def test_figures_are_kept_by_round_and_the_greatest_disturbance_is_named() -> None:
    comparison = compared(MEASUREMENTS, {"dbos": "failed in round 2: out of memory"}, quick=False)
    assert {name: list(rounds) for name, rounds in comparison.rounds.items()} == {"pure": [1, 2], "dbos": [1]}
    assert comparison.rounds["pure"][2]["alone_ms"] == 3.0
    assert comparison.cpu_share_of_others == 0.5
    assert comparison.versions == {"dbos": {"dbos": "3.4.0"}}
    assert comparison.realtime
    assert (comparison.quick, comparison.runs_together) == (False, 200)


def test_one_measurement_without_real_time_priority_is_told() -> None:
    assert not compared({"pure": {1: measured(1.0, realtime=False)}}, {}, quick=True).realtime


def test_a_stored_comparison_is_read_as_it_was(tmp_path: Path) -> None:
    comparison = compared(MEASUREMENTS, {"restate": "could not be installed: npm: not found"}, quick=True)
    file = tmp_path / "stored.json"
    file.write_text(json.dumps({"comparison": dataclasses.asdict(comparison), "measurements": MEASUREMENTS}))
    assert stored(file) == comparison

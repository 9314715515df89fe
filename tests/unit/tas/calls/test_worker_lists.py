"""Worker processes as they are listed: each with its toolsets, and how many toolsets found no room."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.tools.workers import ListWorkers
from towpath_tas.app.worker_instances import WorkerInstances

AT = datetime(2026, 11, 26, 12, tzinfo=UTC)


def row(number: int, found: int) -> dict[str, Any]:
    """Return a row of a process with two toolsets."""
    return {
        "worker_id": f"{number // 2:032x}", "toolset": f"t{number % 2}", "name": "w", "host": "", "version": "",
        "slots": 4, "calls": 0, "idle": False, "started_at": AT, "heard_at": AT, "drained_at": None,
        "drained_by": "", "reason": "", "gone": False, "found": found,
    }  # fmt: skip


@pytest.mark.parametrize(("found", "left_out"), [(0, 0), (1_000, 0), (1_001, 1), (1_500, 500)])
async def test_a_thousand_toolsets_are_listed_and_the_others_counted(found: int, left_out: int) -> None:
    async def fetch(_query: str, _project: str, _gone_s: float, _forgotten_s: float, most: int) -> list[Any]:
        return [row(number, found) for number in range(min(found, most))]

    listed = await WorkerInstances(SimpleNamespace(fetch=fetch)).list(ListWorkers(project="shop"))  # type: ignore[arg-type]
    assert sum(len(one.toolsets) for one in listed.workers) == min(found, 1_000) and listed.left_out == left_out

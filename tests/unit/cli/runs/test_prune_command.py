"""A batch of runs that is not gone after long is not waited for any more."""

from typing import Any

import pytest

from towpath.cli.runs import prune_command
from towpath_contracts.problems.registry import ProblemError, problem


class BusyPlatform:
    """Refuses a batch as long as the one before is under way."""

    def __init__(self) -> None:
        self.asked = 0

    async def request(self, _method: str, _path: str, *, body: dict[str, Any]) -> Any:
        self.asked += 1
        raise ProblemError(problem("prune_under_way", f"the batch behind {body['behind']}"))


async def test_a_batch_that_is_never_gone_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 300))
    monkeypatch.setattr(prune_command, "LOOK_S", 0)
    monkeypatch.setattr(prune_command, "monotonic", lambda: next(now))
    platform = BusyPlatform()
    with pytest.raises(ProblemError, match="prune_under_way"):
        await prune_command._next_batch(platform, {"behind": None})
    assert platform.asked == 4, "until 900 s are over"

"""What `towpath runs diff` reads: history follows a run, and a run that has just ended is compared as a whole."""

from typing import Any

import pytest

from towpath.cli.runs import comparison_command
from towpath.cli.runs.comparison_command import recorded_steps

VIEW = {"run_id": "a", "seq": 7}


class LaggingHistory:
    """Answers with what history has at each look; the last one again."""

    def __init__(self, *seqs: int) -> None:
        self._seqs = list(seqs)
        self.looks = 0

    async def get(self, path: str, **_params: Any) -> dict[str, Any]:
        assert path == "/v1/runs/a/history"
        self.looks += 1
        seq = self._seqs.pop(0) if len(self._seqs) > 1 else self._seqs[0]
        return {"steps": [{"step_number": 0}] if seq > 3 else [], "next_after_step": None, "seq": seq}


async def test_a_run_is_read_again_until_history_has_all_of_it() -> None:
    history = LaggingHistory(3, 5, 7)
    part = await recorded_steps(history, VIEW, 10)
    assert (part.seq, len(part.steps), history.looks) == (7, 1, 3)
    ahead = LaggingHistory(9)
    assert ((await recorded_steps(ahead, VIEW, 10)).seq, ahead.looks) == (9, 1), "a run that has gone on meanwhile"


async def test_history_that_does_not_come_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_command, "HISTORY_LAG_S", 0.3)
    assert (await recorded_steps(LaggingHistory(3), VIEW, 10)).seq == 3

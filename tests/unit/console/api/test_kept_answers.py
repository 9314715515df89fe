"""Answers that are kept for a moment: each caller's own, for as long as they may be old."""

from typing import Any

import pytest

from towpath_console import kept_answers
from towpath_console.kept_answers import KeptAnswers


class Asking:
    """Counts how often it is asked, and answers with the number."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"times": self.times}


async def test_an_answer_is_asked_for_again_only_once_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now, ask, kept = [100.0], Asking(), KeptAnswers()
    monkeypatch.setattr(kept_answers, "monotonic", lambda: now[0])
    found = []
    for now[0] in (100.0, 114.9, 115.0, 129.9):
        found.append((await kept.get("mine", ask))["times"])
    assert found == [1, 1, 2, 2]
    assert (await kept.get("another's", ask))["times"] == 3, "nobody is told what another was told"


@pytest.mark.parametrize(("took", "until"), [(0.01, 15.0), (0.1, 100.0), (0.7, 600.0)])
async def test_what_takes_long_to_answer_is_asked_for_more_rarely(
    monkeypatch: pytest.MonkeyPatch, took: float, until: float
) -> None:
    now, kept = [100.0], KeptAnswers()
    monkeypatch.setattr(kept_answers, "monotonic", lambda: now[0])
    asking = Asking()

    async def slowly() -> dict[str, Any]:
        now[0] += took
        return await asking()

    await kept.get("mine", slowly)
    for later, times in ((until - 0.5, 1), (until + 0.5, 2)):
        now[0] = 100.0 + took + later
        assert (await kept.get("mine", slowly))["times"] == times


async def test_the_answer_asked_for_longest_ago_makes_room() -> None:
    ask, kept = Asking(), KeptAnswers()
    for number in range(257):
        await kept.get(number, ask)
    assert (await kept.get(1, ask))["times"] == 2 and (await kept.get(0, ask))["times"] == 258


async def test_a_refusal_is_not_kept() -> None:
    kept = KeptAnswers()

    async def refuse() -> dict[str, Any]:
        raise LookupError

    with pytest.raises(LookupError):
        await kept.get("mine", refuse)
    assert await kept.get("mine", Asking()) == {"times": 1}

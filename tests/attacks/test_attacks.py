"""Every attack of the corpus is stopped, and one that works is told; `python -m tests.attacks` tries the timed ones."""

import httpx2
from tests.attacks.attack import Attack, AttackWorkedError, Position, refused_as, require
from tests.attacks.catalogue import catalogue
from tests.attacks.target import Target
from tests.attacks.trials import try_all


async def test_every_attack_that_is_not_timed_is_stopped() -> None:
    chosen = [one for one in catalogue().values() if not one.timed]
    trials = await try_all(chosen, told=lambda _: None)
    assert [trial.line for trial in trials if not trial.stopped] == []
    assert {trial.attack.position for trial in trials} == {*Position}


async def test_an_attack_that_works_or_can_not_be_tried_is_told() -> None:
    async def works(target: Target) -> str:
        raise AttackWorkedError(f"{target.url} is mine")

    async def can_not_be_tried(target: Target) -> str:
        raise OSError(f"no way to {target.folder}")

    async def never_comes_to_it(target: Target) -> str:
        require(target.effects(), "nothing was sent")
        return "nobody reads this"

    async def meets_an_outage(target: Target) -> str:
        return refused_as(httpx2.Response(503, json={"code": "unavailable"}), "forbidden")

    tried = (works, can_not_be_tried, never_comes_to_it, meets_an_outage)
    made = [Attack(one.__name__, Position.OUTSIDER, False, one) for one in tried]
    trials = await try_all(made, told=lambda _: None)
    assert [trial.stopped for trial in trials] == [False] * 4
    assert "is mine" in trials[0].line
    assert "could not be tried: OSError" in trials[1].line
    assert "could not be tried: ValueError: nothing was sent" in trials[2].line
    assert "could not be tried: ValueError: refused as unavailable" in trials[3].line
    assert refused_as(httpx2.Response(403, json={"code": "forbidden"}), "forbidden") == "forbidden"

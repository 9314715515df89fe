"""Every attack of the corpus is stopped, and one that works is told; `python -m tests.attacks` tries the timed ones."""

from tests.attacks.attack import Attack, AttackWorkedError, Position
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

    made = [Attack(one.__name__, Position.OUTSIDER, False, one) for one in (works, can_not_be_tried)]
    trials = await try_all(made, told=lambda _: None)
    assert [trial.stopped for trial in trials] == [False, False]
    assert "is mine" in trials[0].line
    assert "could not be tried: OSError" in trials[1].line

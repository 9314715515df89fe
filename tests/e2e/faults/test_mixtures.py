"""A few random mixtures of all that the platform has, with kills; `python -m tests.mixtures` is the long form."""

from tests.mixtures.__main__ import play


async def test_mixtures_lose_nothing_double_nothing_and_never_wait_in_silence() -> None:
    figures = await play(0, 16, at_once=8, kills=3, say=lambda _: None)
    assert figures["found"] == []
    assert figures["counts"]["kills"] and figures["counts"]["cancels"] and figures["counts"]["forks"]
    assert figures["effects"] > 20

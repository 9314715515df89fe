"""Families of runs that ask for other things and get the same answer: what the detector `results` is for."""

from random import Random

from tests.loops.families.shapes import third
from tests.loops.traces import AFTER_LATEST, Loop, call, looping, page, words


@looping
def the_same_page_again(rng: Random) -> Loop:
    """The tool takes no notice of the page that it is asked for."""
    result, first = page(rng), rng.randrange(3)
    turns = [call("list", {"page": first + number, "size": 8}, result) for number in range(3 + AFTER_LATEST)]
    return third(turns)


@looping
def other_words_for_the_same_search(rng: Random) -> Loop:
    result = page(rng, 4)
    turns = [call("search", {"query": words(rng, rng.randrange(2, 5))}, result) for _ in range(3 + AFTER_LATEST)]
    return third(turns)


@looping
def the_same_search_but_for_its_timing(rng: Random) -> Loop:
    result = page(rng, 4)
    turns = [
        call("search", {"query": words(rng, 4)}, {**result, "took_ms": rng.randrange(1000)})
        for _ in range(3 + AFTER_LATEST)
    ]
    return third(turns)

"""Families of runs whose steps come round: what the detector `cycle` is for."""

from random import Random

from tests.loops.families.shapes import READERS, args_of
from tests.loops.traces import WORDS, Loop, Turn, call, decided, failed, fresh, looping, page, route, word, words

ROUNDS = 4
"""Rounds that a trace of a cycle goes on for."""


def _in_time(length: int) -> int:
    """Steps of a cycle of *length* after which it must have been found."""
    return 3 * length if length <= 3 else 2 * length + 1


def _varied(rng: Random, length: int) -> list[Turn]:
    """*length* different steps, each with its own unchanging outcome; now and then one of them fails."""
    turns = []
    for number in range(length):
        args, name = {**args_of(rng), "number": number}, rng.choice(READERS)
        fails = number and rng.random() < 0.2
        turns.append(call(name, args, failed(f"{words(rng, 3)} {'x' * number}") if fails else page(rng, 3)))
    return turns


def _cycle(turns: list[Turn]) -> Loop:
    """Repeat *turns*: found when they have come round twice at the earliest."""
    length = len(turns)
    return Loop(turns=tuple(turns * ROUNDS), earliest=2 * length, latest=_in_time(length))


@looping
def cycle_of_2(rng: Random) -> Loop:
    return _cycle(_varied(rng, 2))


@looping
def cycle_of_3(rng: Random) -> Loop:
    return _cycle(_varied(rng, 3))


@looping
def cycle_of_4(rng: Random) -> Loop:
    return _cycle(_varied(rng, 4))


@looping
def cycle_of_5(rng: Random) -> Loop:
    return _cycle(_varied(rng, 5))


@looping
def cycle_of_6(rng: Random) -> Loop:
    return _cycle(_varied(rng, 6))


@looping
def cycle_with_volatile_results(rng: Random) -> Loop:
    """The results differ in nothing but how long they took, and which request they were."""
    length = rng.randrange(2, 4)
    steps = [(rng.choice(READERS), {**args_of(rng), "number": n}, page(rng, 3)) for n in range(length)]
    turns = []
    for _ in range(ROUNDS):
        for tool, args, result in steps:
            told = {"took_ms": rng.randrange(1000), "request_id": fresh(rng)}
            turns.append(call(tool, args, {**result, **told}))
    return Loop(turns=tuple(turns), earliest=2 * length, latest=_in_time(length))


@looping
def cycle_with_polls(rng: Random) -> Loop:
    """Polling inside a cycle does not hide it, however often it is done."""
    steps = _varied(rng, 2)
    turns: list[Turn] = []
    own: list[int] = []
    for turn in steps * ROUNDS:
        own.append(len(turns) + 1)
        turns += [turn] + [call("job", {"job": fresh(rng)}, {"state": "running"})] * rng.randrange(3)
    return Loop(turns=tuple(turns), earliest=own[3], latest=own[_in_time(2) - 1])


@looping
def edits_that_undo_each_other(rng: Random) -> Loop:
    path, texts = f"src/{fresh(rng)}.py", rng.sample(WORDS, 2)
    return _cycle([call("write", {"path": path, "text": text}, {"written": True}) for text in texts])


@looping
def edit_and_test_in_circles(rng: Random) -> Loop:
    """Two edits in turn, and the tests never change their mind."""
    path, report = f"src/{fresh(rng)}.py", {"failed": rng.randrange(1, 9), "names": words(rng, 3)}
    tested = call("test", {"suite": "unit"}, report)
    first, second = (call("write", {"path": path, "text": words(rng, 4)}, {"written": True}) for _ in range(2))
    return _cycle([first, tested, second, tested])


@looping
def write_and_read_back_in_circles(rng: Random) -> Loop:
    path, text = fresh(rng), words(rng, 6)
    return _cycle([call("write", {"path": path, "text": text}, {"written": True}), call("read", {"path": path}, text)])


@looping
def an_error_and_a_step_that_does_nothing(rng: Random) -> Loop:
    """The step in between succeeds, and so the errors are never three in a row."""
    message, idle = f"{word(rng)} has no {word(rng)}", call("think", {"about": words(rng, 2)}, "ok")
    turns = []
    for _ in range(ROUNDS + 1):
        turns += [call("write", args_of(rng), failed(message)), idle]
    return Loop(turns=tuple(turns), earliest=4, latest=_in_time(2))


@looping
def two_refusals_in_turn(rng: Random) -> Loop:
    return _cycle([route("nobody"), Turn(text=decided("RESPOND", {"answer": "no payload"}))])


@looping
def handing_over_after_the_same_look(rng: Random) -> Loop:
    """Each agent looks at the same thing before it hands over: looking is no progress."""
    looks = {key: call("read", {"path": fresh(rng)}, page(rng)) for key in ("lead", "writer")}
    turn = [looks["lead"], route("writer", "yours"), looks["writer"], route("lead", "yours")]
    return Loop(turns=tuple(turn * ROUNDS), earliest=8, latest=_in_time(4))

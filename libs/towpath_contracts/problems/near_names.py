"""Which of these names was probably meant?

Names come from workers, models and callers, who can choose them so that comparing two takes long. So only the starts of
the first few hundred are looked at, by the letters and pairs of letters that they share; only the few that are most
alike are compared letter by letter.
"""

import heapq
import re
from collections.abc import Callable, Collection, Iterable
from difflib import SequenceMatcher
from itertools import islice
from operator import add

MAX_NAMES = 500
"""Names among which one is looked for."""

MAX_CHARS = 64
"""Of each name; what comes after is not compared."""

COMPARED = 5
"""Names that are compared letter by letter."""

SUGGESTED = 5
"""Faults of one request for which it is said which of all names was meant; of others, which missing one."""

MAX_MISMATCHES = 20
"""Wrong names of one input that are compared letter by letter with none found; behind these no more are compared."""

_SHARED = 0.25
"""Names that share fewer of their letters and pairs of letters are never compared letter by letter."""

_ALIKE = 0.6
"""From which likeness on a name is suggested."""


def nearest_name(wanted: str, names: Iterable[str]) -> str | None:
    """Return the one of *names* that is most like *wanted*; None where none is much like it."""
    alike, exactly = shared_letters(wanted), likeness(wanted)
    near = heapq.nlargest(COMPARED, islice(names, MAX_NAMES), key=alike)
    best = max(near, key=exactly, default=None)
    return best if best is not None and exactly(best) >= _ALIKE else None


def pair_names(wrong: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Return which of *names* each of *wrong* probably means, each meant once; those that mean none are left out.

    However many there are, it takes as long as those of one request may: MAX_NAMES of either are looked at, and
    behind MAX_MISMATCHES that were compared letter by letter in vain no more are.
    """
    known = {name: _letters(name) for name in islice(names, MAX_NAMES)}
    free = set(known)
    pairs: dict[str, str] = {}
    mismatches = 0
    for word in islice(wrong, MAX_NAMES):
        if not free or mismatches == MAX_MISMATCHES:
            break
        own = _letters(word)
        shares = {name: _share(own, others) for name, others in known.items()}
        near = max(shares, key=shares.__getitem__)
        if shares[near] < _SHARED or near not in free:
            continue
        if likeness(word)(near) >= _ALIKE:
            pairs[word] = near
            free.remove(near)
        else:
            mismatches += 1
    return pairs


def suggest_name(wrong: str, known: Iterable[str], *, shown: Callable[[str], str] = repr, otherwise: str = "") -> str:
    """Return the end of a sentence about the unknown *wrong*: a question with the name that was probably meant.

    *shown* writes the name as it is to be put; where none is near, the end is *otherwise*.
    """
    near = nearest_name(wrong, known)
    return f"; did you mean {shown(near)}?" if near is not None else otherwise


def suggest_or_list(wrong: str, known: Collection[str], *, shown: Callable[[str], str] = repr) -> str:
    """Return the end of a sentence about the unknown *wrong*: what was probably meant, or all that there are."""
    return suggest_name(wrong, known, shown=shown, otherwise=f"; there are {', '.join(known) or 'none'}")


def name_meant(wrong: str, signs: str = "_.:/-") -> str:
    """Return the end of a sentence about a text that is no name: one of letters, digits and *signs* that is like it."""
    joined = name_like(wrong, signs)
    return f"; did you mean {joined!r}?" if joined else ""


def name_like(wrong: str, signs: str) -> str:
    """Return a name of letters, digits and *signs* that is like *wrong*; nothing where that is not ASCII."""
    joined = re.sub(rf"[^a-zA-Z0-9{re.escape(signs)}]+", "_", wrong).strip(signs)
    return joined if wrong.isascii() else ""


def unknown_agent(wrong: str, agents: Collection[str]) -> str:
    """Return that no agent of a network is called *wrong*, and which one may be meant."""
    return f"no agent is called {wrong!r}{suggest_or_list(wrong, agents)}"


def shared_letters(wanted: str) -> Callable[[str], float]:
    """Return what says, from 0 to 1 and in the time of reading it, how much of its letters a name shares with this."""
    own = _letters(wanted)
    return lambda name: _share(own, _letters(name))


def likeness(wanted: str) -> Callable[[str], float]:
    """Return what says, from 0 to 1, how alike a name is letter by letter; a quarter of a millisecond at most."""
    matcher = SequenceMatcher(b=wanted[:MAX_CHARS])

    def alike(name: str) -> float:
        matcher.set_seq1(name[:MAX_CHARS])
        return matcher.ratio()

    return alike


def _share(one: set[str], other: set[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other) or 1)


def _letters(name: str) -> set[str]:
    start = name[:MAX_CHARS]
    return {*start, *map(add, start, start[1:])}

"""What the deciders of a platform may ask of one provider together: calls at a time, and in a minute. Pure.

The sum of what is given never exceeds the limit. Calls at a time are slots, leased by each decider for seconds; a
minute is a sliding one, kept in pieces, and what was given counts for a whole minute from the end of its piece.
"""

from dataclasses import dataclass

from towpath_contracts.decisions.provider_limits import ProviderLimit, ProviderUse, ProviderUseSlice, SlotHolder

LEASE_S = 5.0
"""How long a decider that says nothing keeps its slots: as late as they come back when it is killed."""

INTERVAL_S = 5
"""A minute is kept in pieces of this length; what is given for later use is used within one, or given back."""

MINUTE_S = 60 + INTERVAL_S

LONGEST_PAUSE_S = 60.0
"""Of what a provider may ask for: a wrong number must not stop everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    """What one decider says and asks for at *now*, the broker's time.

    It is `busy` with so many calls and could be with `wants`. It asks for `requests` and `tokens`, of which the first
    call needs `least`. It gives back what it did not use; less than 0 is what it used without having been given it.
    `pause_s` is what the provider asked for.
    """

    me: str
    now: float
    busy: int = 0
    wants: int = 0
    requests: int = 0
    tokens: int = 0
    least: int = 0
    back_requests: int = 0
    back_tokens: int = 0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitGrant:
    """What it gets: slots in all, requests and tokens of the minute, and how long nothing may be asked."""

    slots: int
    requests: int
    tokens: int
    pause_s: float


def grant_request(shared: ProviderUse, wish: LimitRequest, limit: ProviderLimit) -> tuple[ProviderUse, LimitGrant]:
    """Return what all know after *wish*, and what it gets."""
    others = {name: one for name, one in shared.holders.items() if name != wish.me and one.until >= wish.now}
    slots = _grant_slots(shared.holders.get(wish.me), others, wish, limit.concurrency)
    held = max(wish.busy, slots)
    mine = {wish.me: SlotHolder(slots=held, wants=wish.wants, until=wish.now + LEASE_S)} if wish.wants or held else {}
    pause = max(shared.paused_until, wish.now + min(wish.pause_s, LONGEST_PAUSE_S) if wish.pause_s else 0.0)
    given, requests, tokens = _grant_minute(shared.given, wish, limit)
    after = ProviderUse(holders={**others, **mine}, given=given, paused_until=pause)
    return after, LimitGrant(slots=slots, requests=requests, tokens=tokens, pause_s=max(0.0, pause - wish.now))


def _grant_slots(mine: SlotHolder | None, others: dict[str, SlotHolder], wish: LimitRequest, most: int | None) -> int:
    """Give no more than a fair share where all want more than there is, and never what somebody else holds."""
    if most is None:
        return max(wish.busy, wish.wants)
    free = most - sum(one.slots for one in others.values())
    share = fair_share(most, [one.wants for one in others.values()], wish.wants)
    if share or not wish.wants:
        return max(0, min(share, free))
    waits = any(one.wants and not one.slots for one in others.values())
    holds = mine is not None and mine.slots > 0
    return 0 if holds and waits else max(0, min(1, free))  # fewer slots than deciders: they go round


def fair_share(most: int, others: list[int], own: int) -> int:
    """Divide *most* so that nobody gets more than it wants and nobody could get more but from one who has less."""
    left, asking = most, sorted([*others, own])
    for place, wanted in enumerate(asking):
        even = left // (len(asking) - place)
        if wanted > even:
            return min(own, even)
        left -= wanted
    return own


def _grant_minute(
    given: tuple[ProviderUseSlice, ...], wish: LimitRequest, limit: ProviderLimit
) -> tuple[tuple[ProviderUseSlice, ...], int, int]:
    pieces = {one.at: (one.requests, one.tokens) for one in given if one.at + MINUTE_S > wish.now}
    at = int(wish.now // INTERVAL_S) * INTERVAL_S
    for unit, back in ((0, wish.back_requests), (1, wish.back_tokens)):
        _add_to_intervals(pieces, at, unit, -back)
    used = [sum(piece[unit] for piece in pieces.values()) for unit in (0, 1)]
    requests = _available(wish.requests, 1, limit.requests_per_minute, used[0])
    tokens = _available(wish.tokens, wish.least, limit.tokens_per_minute, used[1])
    if (wish.requests and not requests) or (wish.least and not tokens):
        requests = tokens = 0  # one without the other would only be kept from others
    for unit, more in ((0, requests), (1, tokens)):
        _add_to_intervals(pieces, at, unit, more)
    kept = tuple(ProviderUseSlice(at=at, requests=r, tokens=t) for at, (r, t) in sorted(pieces.items()) if r or t)
    return kept, requests, tokens


def _add_to_intervals(pieces: dict[int, tuple[int, int]], at: int, unit: int, more: int) -> None:
    """Add to the newest piece; what is given back is taken from the newest ones, none of which falls below 0."""
    for place in [at] if more > 0 else sorted(pieces, reverse=True):
        here = list(pieces.get(place, (0, 0)))
        change = more if more > 0 else -min(here[unit], -more)
        here[unit] += change
        more -= change
        pieces[place] = here[0], here[1]


def _available(wanted: int, least: int, limit: int | None, used: int) -> int:
    """Return how much of *wanted* there is; less than *least* is of no use."""
    if limit is None:
        return wanted
    left = limit - used
    return min(wanted, left) if left >= min(least, limit) and left > 0 else 0

"""How deciders share the limits of a provider: concurrent calls, and requests and tokens per minute. Pure.

The sum of what is granted never exceeds the limit. Concurrent calls are slots, leased by each decider for seconds.
The minute slides: it is kept in intervals, and what was granted counts for a whole minute from its interval's end.
"""

from dataclasses import dataclass

from towpath_contracts.decisions.provider_limits import (
    DeciderSlots,
    ProviderLimit,
    ProviderLimitState,
    ProviderUseSlice,
)

LEASE_S = 5.0
"""How long a silent decider keeps its slots: they come back so long after it was killed."""

INTERVAL_S = 5
"""Length of an interval of the minute; what is reserved ahead is used within one, or returned."""

MINUTE_S = 60 + INTERVAL_S

LONGEST_PAUSE_S = 60.0
"""The longest pause that a provider may ask for: a wrong number must not stop everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    """What one decider reports and asks for at *now*, the broker's time.

    It has `busy` calls under way and could have `wants`. It asks for `requests` and `tokens`, of which the first call
    needs `min_tokens`. It returns what it did not use; negative values are use that was not granted before.
    `pause_s` is what the provider asked for.
    """

    decider: str
    now: float
    busy: int = 0
    wants: int = 0
    requests: int = 0
    tokens: int = 0
    min_tokens: int = 0
    returned_requests: int = 0
    returned_tokens: int = 0
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimitShare:
    """What a decider gets: its slots in all, requests and tokens of the minute, and for how long to make no call."""

    slots: int
    requests: int
    tokens: int
    pause_s: float


def grant_request(
    shared: ProviderLimitState, request: LimitRequest, limit: ProviderLimit
) -> tuple[ProviderLimitState, ProviderLimitShare]:
    """Return the shared use after *request*, and what is granted."""
    others = {name: one for name, one in shared.holders.items() if name != request.decider and one.until >= request.now}
    slots = _grant_slots(shared.holders.get(request.decider), others, request, limit.concurrency)
    held = max(request.busy, slots)
    mine = (
        {request.decider: DeciderSlots(slots=held, wants=request.wants, until=request.now + LEASE_S)}
        if request.wants or held
        else {}
    )
    pause = max(shared.paused_until, request.now + min(request.pause_s, LONGEST_PAUSE_S) if request.pause_s else 0.0)
    given, requests, tokens = _grant_minute(shared.given, request, limit)
    after = ProviderLimitState(holders={**others, **mine}, given=given, paused_until=pause)
    return after, ProviderLimitShare(
        slots=slots, requests=requests, tokens=tokens, pause_s=max(0.0, pause - request.now)
    )


def _grant_slots(
    mine: DeciderSlots | None, others: dict[str, DeciderSlots], request: LimitRequest, limit: int | None
) -> int:
    """Give no more than a fair share where all want more than there is, and never what somebody else holds."""
    if limit is None:
        return max(request.busy, request.wants)
    free = limit - sum(one.slots for one in others.values())
    share = fair_share(limit, [one.wants for one in others.values()], request.wants)
    if share or not request.wants:
        return max(0, min(share, free))
    waits = any(one.wants and not one.slots for one in others.values())
    holds = mine is not None and mine.slots > 0
    return 0 if holds and waits else max(0, min(1, free))  # fewer slots than deciders: they go round


def fair_share(limit: int, others: list[int], own: int) -> int:
    """Divide *limit* so that nobody gets more than it wants and nobody could get more but from one who has less."""
    left, asking = limit, sorted([*others, own])
    for place, wanted in enumerate(asking):
        even = left // (len(asking) - place)
        if wanted > even:
            return min(own, even)
        left -= wanted
    return own


def _grant_minute(
    given: tuple[ProviderUseSlice, ...], request: LimitRequest, limit: ProviderLimit
) -> tuple[tuple[ProviderUseSlice, ...], int, int]:
    intervals = {one.at: (one.requests, one.tokens) for one in given if one.at + MINUTE_S > request.now}
    at = int(request.now // INTERVAL_S) * INTERVAL_S
    for unit, back in ((0, request.returned_requests), (1, request.returned_tokens)):
        _add_to_intervals(intervals, at, unit, -back)
    used = [sum(interval[unit] for interval in intervals.values()) for unit in (0, 1)]
    requests = _available(request.requests, 1, limit.requests_per_minute, used[0])
    tokens = _available(request.tokens, request.min_tokens, limit.tokens_per_minute, used[1])
    if (request.requests and not requests) or (request.min_tokens and not tokens):
        requests = tokens = 0  # one without the other would only be kept from others
    for unit, more in ((0, requests), (1, tokens)):
        _add_to_intervals(intervals, at, unit, more)
    kept = tuple(ProviderUseSlice(at=at, requests=r, tokens=t) for at, (r, t) in sorted(intervals.items()) if r or t)
    return kept, requests, tokens


def _add_to_intervals(intervals: dict[int, tuple[int, int]], at: int, unit: int, more: int) -> None:
    """Add to the newest piece; what is given back is taken from the newest ones, none of which falls below 0."""
    for place in [at] if more > 0 else sorted(intervals, reverse=True):
        here = list(intervals.get(place, (0, 0)))
        change = more if more > 0 else -min(here[unit], -more)
        here[unit] += change
        more -= change
        intervals[place] = here[0], here[1]


def _available(wanted: int, min_tokens: int, limit: int | None, used: int) -> int:
    """Return how much of *wanted* there is; less than *min_tokens* is of no use."""
    if limit is None:
        return wanted
    left = limit - used
    return min(wanted, left) if left >= min(min_tokens, limit) and left > 0 else 0

"""What deciders may ask of a provider together: nothing they do in any order exceeds a limit."""

import random
from dataclasses import replace

from towpath_contracts.decisions.provider_limits import ProviderLimit, ProviderLimitState
from towpath_decider.core.rate_policy import LEASE_S, MINUTE_S, LimitRequest, fair_share, grant_request

SLOTS = ProviderLimit(concurrency=7)
MINUTE = ProviderLimit(requests_per_minute=40, tokens_per_minute=5_000)


def test_slots_are_divided_fairly_and_nobody_gets_more_than_it_wants() -> None:
    assert fair_share(10, [], 4) == 4
    assert fair_share(10, [2], 20) == 8
    assert fair_share(10, [20], 2) == 2
    assert fair_share(10, [20, 20], 20) == 3
    assert fair_share(10, [1, 20], 20) == 4
    assert fair_share(2, [5, 5], 5) == 0


def test_whatever_deciders_do_they_never_hold_more_slots_than_there_are() -> None:
    """Each begins and ends calls as it likes within its slots; some die, and are counted until their lease is over."""
    for seed in range(30):
        chance = random.Random(seed)
        shared, now = ProviderLimitState(), 1_000.0
        slots: dict[str, int] = dict.fromkeys("abc", 0)
        busy: dict[str, int] = dict.fromkeys("abc", 0)
        renewed = dict.fromkeys("abc", now)
        limit = 0
        for _ in range(400):
            now += chance.random() / 3
            decider = chance.choice("abc")
            if now - renewed[decider] > LEASE_S:  # died meanwhile: whoever starts anew has no calls
                busy[decider] = slots[decider] = 0
            if chance.random() < 0.05:
                renewed[decider] = now - LEASE_S
            busy[decider] = chance.randrange(slots[decider] + 1) if slots[decider] else max(0, busy[decider] - 1)
            request = LimitRequest(
                decider=decider, now=now, busy=busy[decider], wants=busy[decider] + chance.randrange(9)
            )
            shared, grant = grant_request(shared, request, SLOTS)
            slots[decider], renewed[decider] = grant.slots, now
            held = {name: max(busy[name], slots[name]) for name in slots if now - renewed[name] <= LEASE_S}
            assert sum(held.values()) <= 7
            limit = max(limit, sum(held.values()))
        assert limit == 7


def test_slots_go_round_where_there_are_fewer_than_deciders() -> None:
    one = ProviderLimit(concurrency=1)
    shared, turns = ProviderLimitState(), []
    busy = {"a": 0, "b": 0, "c": 0}
    for place in range(60):
        decider = "abc"[place % 3]
        shared, grant = grant_request(
            shared, LimitRequest(decider=decider, now=place / 10, busy=busy[decider], wants=5), one
        )
        if grant.slots:
            turns.append(decider)
        assert sum(holder.slots for holder in shared.holders.values()) <= 1
    assert set(turns) == set("abc")


def test_no_minute_has_more_requests_and_tokens_than_the_limit() -> None:
    """What is taken is used within seconds or given back; every sliding minute is counted by when it was used."""
    for seed in range(20):
        chance = random.Random(seed)
        shared, now, used = ProviderLimitState(), 50_000.0, []
        for _ in range(600):
            now += chance.random() * 2
            need = chance.randrange(50, 900)
            asked = chance.randrange(1, 4)
            request = LimitRequest(decider="a", now=now, requests=asked, tokens=need * asked, min_tokens=need)
            shared, grant = grant_request(shared, request, MINUTE)
            assert grant.requests == 0 or grant.tokens >= min(need, 5_000)
            calls = min(grant.requests, grant.tokens // need)
            used += [(now, need)] * calls
            back = replace(request, requests=0, tokens=0, min_tokens=0, returned_requests=grant.requests - calls)
            shared, _ = grant_request(shared, replace(back, returned_tokens=grant.tokens - calls * need), MINUTE)
            minute = [tokens for at, tokens in used if at > now - 60]
            assert len(minute) <= 40
            assert sum(minute) <= 5_000
        assert sum(tokens for _, tokens in used) > 0.6 * 5_000 * (now - 50_000) / MINUTE_S


def test_what_was_used_without_having_been_given_counts_and_what_comes_back_late_does_not() -> None:
    limit = ProviderLimit(tokens_per_minute=1_000)
    shared, _ = grant_request(
        ProviderLimitState(), LimitRequest(decider="a", now=100.0, tokens=600, min_tokens=600), limit
    )
    shared, _ = grant_request(shared, LimitRequest(decider="a", now=101.0, returned_tokens=-300), limit)
    shared, grant = grant_request(shared, LimitRequest(decider="b", now=102.0, tokens=200, min_tokens=200), limit)
    assert grant.tokens == 0
    shared, grant = grant_request(
        shared,
        LimitRequest(decider="b", now=100.0 + MINUTE_S, returned_tokens=900, tokens=1_000, min_tokens=1_000),
        limit,
    )
    assert grant.tokens == 1_000, "a new minute"
    _, grant = grant_request(shared, LimitRequest(decider="b", now=101.0 + MINUTE_S, tokens=1, min_tokens=1), limit)
    assert grant.tokens == 0, "what an old minute gives back makes none of this larger"


def test_a_pause_is_kept_and_ends() -> None:
    shared, grant = grant_request(ProviderLimitState(), LimitRequest(decider="a", now=10.0, pause_s=600.0), SLOTS)
    assert grant.pause_s == 60, "a provider that asks for more has a wrong number"
    shared, grant = grant_request(shared, LimitRequest(decider="b", now=40.0, pause_s=1.0), SLOTS)
    assert grant.pause_s == 30
    _, grant = grant_request(shared, LimitRequest(decider="b", now=71.0), SLOTS)
    assert grant.pause_s == 0

"""What the watchdog finds in labelled traces, and what it leaves alone."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from tests.loops.driver import RUN, WORLD, Drive
from tests.loops.labels import FAMILIES
from tests.loops.traces import BENIGN, Turn, benign_trace, call, failed, page, words

from towpath_contracts import facts
from towpath_contracts.runs.raw_events import RawEntry
from towpath_engine.advance import advance
from towpath_watchdog.core.findings import Finding, findings
from towpath_watchdog.core.trace import WatchedRun

SEEDS = range(3)
assert FAMILIES


class Watched(Drive):
    """A run through the real machine, watched from outside."""

    def __init__(self) -> None:
        self.trace = WatchedRun(run_id=RUN, project="default")
        self.reports: list[tuple[int, Finding]] = []
        super().__init__()

    def _feed(self, fact: facts.AnyFact) -> None:
        self.now += timedelta(seconds=1)
        entries, _, self.state = advance(self.state, fact, self.now)
        for entry in entries:
            event = entry.event.model_dump(mode="json")
            self.trace.observe(RawEntry(seq=entry.seq, at=entry.at, event=event))
        found = findings(self.trace)
        if found:
            self.reports.append((self.trace.actions[-1].step, found[0]))
            self.trace.begin_window()

    def all_of(self, turns: Sequence[Turn]) -> list[tuple[int, Finding]]:
        """Take *turns* until the run ends; return what was found, with the step in which it was."""
        for turn in turns:
            if self.state.is_final:
                break
            self.take(turn)
        return self.reports


def rephrasings(rng: Random, count: int) -> list[str]:
    """The same words in another order, with another filler."""
    asked, fillers = words(rng, 6).split(), ("the", "please", "now", "all", "again")
    return [" ".join([*rng.sample(asked, 6), fillers[number]]) for number in range(count)]


def similar_searches(rng: Random) -> list[Turn]:
    return [call("search", {"query": q}, f"nothing was found for {q}") for q in rephrasings(rng, 5)]


def similar_failures(rng: Random) -> list[Turn]:
    """Each time another number, and each time an error whose wording the run machine does not know."""
    found = words(rng, 7).split()
    return [
        call("fetch", {"host": "db", "port": 5432, "user": "me", "wait": n}, failed(" ".join(rng.sample(found, 7))))
        for n in range(5)
    ]


def a_cycle_in_other_words(rng: Random) -> list[Turn]:
    turns = []
    for one, other in zip(rephrasings(rng, 3), rephrasings(rng, 3), strict=True):
        turns += [
            call("search", {"query": one}, f"nothing was found for {one}"),
            call("read", {"path": "notes", "about": other}, f"no line of the notes is about {other}"),
        ]
    return turns


def the_same_few_things_in_any_order(rng: Random) -> list[Turn]:
    """Neither alike in a row nor a cycle: but after a while nothing is new."""
    seen = [(tool, {"path": words(rng, 2)}, page(rng, 3)) for tool in ("read", "list", "check")]
    order = [0, 1, 2, 1, 0, 2, 2, 0, 1, 0, 2, 1]
    return [call(*seen[n]) for n in order]


LABELLED = {
    similar_searches: ("similar_actions", 5),
    similar_failures: ("similar_actions", 5),
    a_cycle_in_other_words: ("cycle", 6),
    the_same_few_things_in_any_order: ("stalled_progress", 12),
}
"""What is found, and in which step at the latest."""


@pytest.mark.parametrize("family", LABELLED, ids=lambda family: family.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_goes_round_in_other_words_is_found(family: Any, seed: int) -> None:
    name, latest = LABELLED[family]
    (report, *_) = Watched().all_of(family(Random(f"{family.__name__}:{seed}")))
    assert (report[1].name, report[0] <= latest) == (name, True), report
    if name == "similar_actions":
        assert 0.7 < report[1].score <= 1


STALLS = "two_forbidden_kinds_in_turn"
"""No loop, and the machine lets it be; but eight denied steps had nothing new, which the watchdog tells."""


@pytest.mark.parametrize("name", sorted(BENIGN.keys() - {STALLS}))
def test_what_only_looks_like_a_loop_is_left_alone(name: str) -> None:
    for seed in SEEDS:
        found = Watched().all_of(benign_trace(name, seed).turns)
        nagging = [f for _, f in found if not any(WORLD.tools[t].polling for t in f.tools if t in WORLD.tools)]
        assert nagging == [], (seed, nagging)


def test_steps_of_denials_alone_are_told_as_a_stall_and_as_nothing_else() -> None:
    found = [Watched().all_of(benign_trace(STALLS, seed).turns) for seed in range(10)]
    assert {one.name for reports in found for _, one in reports} == {"stalled_progress"}


def seen(*events: dict[str, Any]) -> WatchedRun:
    """The trace of a run with these events."""
    trace = WatchedRun(run_id=RUN, project="default")
    for event in events:
        trace.observe(RawEntry.model_validate({"seq": trace.seq + 1, "at": "2026-11-22T12:00:00Z", "event": event}))
    return trace


def measured(*scores: float) -> list[dict[str, Any]]:
    return [{"type": "progress_measured", "step": n, "source": "tests", "score": s} for n, s in enumerate(scores, 1)]


def test_progress_that_stands_still_for_eight_steps_is_a_stall() -> None:
    assert findings(seen(*measured(0.2, *[0.2] * 7))) == ()
    (found,) = findings(seen(*measured(0.2, *[0.2] * 8)))
    assert (found.name, found.steps, found.score, found.since) == ("stalled_progress", 8, 0.2, 2)
    assert findings(seen(*measured(0.2, *[0.2] * 7, 0.3, *[0.3] * 7))) == (), "a better score begins anew"
    assert findings(seen(*measured(0.5, *[0.4] * 8))), "a worse one does not"


GATE = {"gate_id": "01930000-0000-7000-8000-000000000001", "gate_type": "approval", "reason": "?"}
OPENED = {"type": "gate_opened", **GATE, "expires_at": "2026-11-23T12:00:00Z"}
CLOSED = {"type": "gate_closed", "gate_id": GATE["gate_id"], "verdict": "approved"}


def test_nothing_is_found_while_a_person_is_asked_and_their_decision_begins_a_new_window() -> None:
    still = measured(0.2, *[0.2] * 8)
    assert findings(seen(*still, OPENED)) == ()
    assert findings(seen(*still, OPENED, CLOSED)) == ()
    assert findings(seen(*still, OPENED, CLOSED, *measured(*[0.2] * 8)))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "loop_detected", "detector": "calls", "signature": "s", "count": 3, "action": "nudge"},
        {"type": "watchdog_reported", "finding": "cycle", "key": "cycle:a", "step": 3, "action": "nudge"},
    ],
)
def test_what_was_answered_already_is_not_found_again(event: dict[str, Any]) -> None:
    still = measured(0.2, *[0.2] * 8)
    assert findings(seen(*still, event)) == ()
    assert findings(seen(*still, event, *measured(*[0.2] * 8)))


def test_events_nobody_can_read_are_passed_over() -> None:
    trace = seen({"type": "tool_call_finished"}, {"type": 7}, {}, {"type": "from_the_future", "step": "x"})
    assert (trace.seq, findings(trace)) == (4, ())

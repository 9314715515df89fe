"""Properties over hostile histories: noise around a valid order changes nothing, and every run comes to an end.

The world of `tests.support.engine.world` loses, repeats, delays and forges; after every single fact the watch of
`tests.support.engine.invariants` compares the machine with its own reading of the log.
"""

import functools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid5

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.engine.machine import RUN, START, Machine, snapshot
from tests.support.engine.world import T, World, strange_facts

from towpath_contracts import facts
from towpath_contracts.events.log import COMPARISON_IGNORES, LogEntry
from towpath_engine.advance import advance
from towpath_engine.replay import create, fold, replay
from towpath_engine.state.run import dump_state

ROUGH_TURNS = 40
CALM_TURNS = 400
PROFILE = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


below = functools.cache(lambda count: st.integers(0, count - 1))
"""Making a strategy costs as much as drawing from it."""


class Drawn:
    """Choices that hypothesis makes, and shrinks."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, items: Sequence[T]) -> T:
        return items[self._data.draw(below(len(items)))]

    def happens(self, percent: int) -> bool:
        return self._data.draw(below(100)) >= 100 - percent


def lived(data: st.DataObject, *, rough: int = ROUGH_TURNS) -> World:
    """Return a run with its world after *rough* turns, and then, in peace, to its end."""
    chance = Drawn(data)
    network = snapshot(max_steps=chance.pick((3, 6, 12)), force_respond=chance.happens(30))
    options: dict[str, Any] = {"max_tool_errors": chance.pick((2, 8)), "context_limit": chance.pick((0, 80, 32_768))}
    if chance.happens(80):
        options["system_params"] = {"account": "acme"}
    if chance.happens(35):
        criteria = [{"when": "results.exists(r, r.result == 'ok')"}, {"text": "It is well done."}]
        options |= {
            "kind": "goal",
            "goal": {"goal": "Do it.", "acceptance_criteria": criteria[: chance.pick((0, 1, 2))]},
        }
    machine = Machine(network, start=False, single_instruction=chance.happens(10), **options)
    world = World(machine, chance)
    world.feed(facts.RunAdmittedFact(run_id=RUN))
    for _ in range(rough):
        if not world.over:
            world.turn()
    return world


@PROFILE
@given(st.data())
def test_every_run_ends_whatever_is_lost_repeated_delayed_or_forged(data: st.DataObject) -> None:
    world = lived(data)
    world.calm = True
    for _ in range(CALM_TURNS):
        if world.over:
            break
        world.turn()
    assert world.over, f"still {world.machine.state.status} with {world.machine.state.pending}"
    finished = world.machine.finished
    assert finished.reason and finished.final
    assert fold(RUN, world.machine.network, world.machine.entries) == world.machine.state


@PROFILE
@given(st.data())
def test_replaying_the_recorded_facts_gives_the_log_byte_for_byte(data: st.DataObject) -> None:
    machine = lived(data).machine
    stored = [(facts.fact_adapter.validate_json(fact.model_dump_json()), now) for fact, now in made_events(machine)]
    assert replay(RUN, machine.network, tuple(machine.entries), stored) is None
    if stored:
        shortened = replay(RUN, machine.network, tuple(machine.entries), stored[:-1])
        assert shortened is not None and shortened.replayed == ""


def made_events(machine: Machine) -> list[tuple[facts.AnyFact, datetime]]:
    """Return the facts that the orchestrator stores: those that made events."""
    state, _ = create(RUN, machine.network, machine.watch.task, START)
    kept = []
    for fact, now in machine.facts:
        entries, _, state = advance(state, fact, now)
        if entries:
            kept.append((fact, now))
    return kept


def is_asked_again(fact: facts.AnyFact) -> bool:
    """Whether a repetition may rightly count: a doubt reported again after a retry, a fence answered again, a timer."""
    doubt = isinstance(fact, facts.ToolFinishedFact) and fact.status == "unknown"
    return doubt or isinstance(fact, facts.FenceRaisedFact | facts.TimerFiredFact)


@PROFILE
@given(st.data())
def test_noise_around_the_valid_order_changes_no_byte(data: st.DataObject) -> None:
    world = lived(data, rough=25)
    valid = made_events(world.machine)
    noisy = Machine(world.machine.network, start=False, **options_of(world.machine))
    past: list[facts.AnyFact] = []
    strangers = strange_facts(uuid5(RUN, "stranger"), RUN, world) + strange_facts(RUN, uuid5(RUN, "other"), world)
    for fact, now in valid:
        noisy.now = now
        for stray in data.draw(st.lists(st.sampled_from(strangers + past), max_size=4)):
            if not (isinstance(stray, facts.RunAdmittedFact) and noisy.state.step == 0):
                assert noisy.feed(stray) == []
        noisy.feed(fact)
        if not is_asked_again(fact):
            past.append(fact)
    assert texts(noisy.entries) == texts(world.machine.entries)
    assert dump_state(noisy.state) == dump_state(world.machine.state)


def options_of(machine: Machine) -> dict[str, Any]:
    return machine.watch.task.model_dump(exclude={"type"})


def texts(entries: list[LogEntry]) -> list[str]:
    return [entry.model_dump_json() for entry in entries]


@PROFILE
@given(st.data())
def test_timers_that_come_at_any_time_only_send_again(data: st.DataObject) -> None:
    """Within deadlines and expiries, a run with random timers has the same log but for what was sent again."""
    world = lived(data, rough=25)
    valid = [(fact, now) for fact, now in made_events(world.machine) if not isinstance(fact, facts.TimerFiredFact)]
    quiet, woken = (Machine(world.machine.network, start=False, **options_of(world.machine)) for _ in range(2))
    for fact, _now in valid:
        for machine in (quiet, woken):
            machine.now += timedelta(seconds=1)
        if data.draw(st.booleans()):
            woken.now += timedelta(seconds=0.5)
            assert {event.type for event in woken.timer()} <= {"effect_resent"}
        quiet.feed(fact)
        woken.feed(fact)
    assert comparable(woken.entries) == comparable(quiet.entries)


def comparable(entries: list[LogEntry]) -> list[str]:
    """The log without times, attempts and resends, as logs of disturbed runs are compared."""
    kept = [entry.event for entry in entries if entry.event.type not in COMPARISON_IGNORES]
    return [event.model_dump_json(exclude={"expires_at", "until"}) for event in kept]

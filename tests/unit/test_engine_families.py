"""Goal runs with specialists and a budget that asks people, many times, each from one seed: they come to an end.

After every single fact the watch of `tests.support.engine_invariants` compares the machine with its own reading.
"""

from collections import Counter

from tests.support.engine_families import FamilyWorld
from tests.support.engine_machine import Machine, snapshot
from tests.support.engine_world import Seeded

SEEDS = range(100)
ROUGH_TURNS = 50
CALM_TURNS = 400


def lived(seed: int) -> Machine:
    """Return a run after its rough time and the peace that follows."""
    chance = Seeded(seed)
    settings = {"validate_steps": chance.happens(50), "on_timeout": chance.pick(("stop", "gate"))}
    settings |= {"confidence_every": chance.pick((1, 3, 50)), "step_attempts": chance.pick((1, 3))}
    criteria = [{"when": "results.exists(r, r.result == 'ok')"}, {"text": "It is well done."}]
    goal = {"goal": "Do it.", "acceptance_criteria": criteria[: chance.pick((0, 1, 2))], "settings": settings}
    machine = Machine(snapshot(max_steps=chance.pick((6, 12))), start=False, kind="goal", goal=goal)
    world = FamilyWorld(machine, chance)
    world.begin()
    for turn in range(ROUGH_TURNS + CALM_TURNS):
        world.calm = turn >= ROUGH_TURNS
        if world.over:
            return machine
        world.turn()
    msg = f"still {machine.state.status} with {machine.state.pending}"
    raise AssertionError(msg)


def test_runs_with_specialists_and_budget_gates_end_in_a_hostile_world() -> None:
    events: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            machine = lived(seed)
        except Exception as error:  # the seed is what a reader needs to repeat it
            error.add_note(f"seed {seed}")
            raise
        events.update(entry.event.type for entry in machine.entries)
    wanted = ("child_started", "child_ended", "child_waits", "run_quarantined", "budget_warned", "gate_closed")
    assert min(events[name] for name in wanted) >= 2, events

"""One run in a hostile world, many times, each from one seed: invariants after every fact, and an end every time.

A failure names its seed; `lived(seed)` repeats it exactly.
"""

from collections import Counter

from tests.support.engine.machine import RUN, Machine, snapshot
from tests.support.engine.world import Seeded, World

from towpath_contracts import facts

SEEDS = range(300)
ROUGH_TURNS = 40
CALM_TURNS = 400


def lived(seed: int) -> Machine:
    """Return a run after its rough time and the peace that follows."""
    chance = Seeded(seed)
    network = snapshot(max_steps=chance.pick((3, 6, 12)), force_respond=chance.happens(30))
    machine = Machine(
        network,
        start=False,
        single_instruction=chance.happens(10),
        max_tool_errors=chance.pick((2, 8)),
        context_limit=chance.pick((0, 80, 32_768)),
        system_params={"account": "acme"} if chance.happens(80) else {},
    )
    world = World(machine, chance)
    world.feed(facts.RunAdmittedFact(run_id=RUN))
    return world.live(ROUGH_TURNS, CALM_TURNS)


def test_runs_end_in_a_hostile_world_and_everything_is_tried() -> None:
    ends: Counter[str] = Counter()
    events: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            machine = lived(seed)
        except Exception as error:  # the seed is what a reader needs to repeat it
            error.add_note(f"seed {seed}")
            raise
        ends[machine.finished.reason] += 1
        events.update(entry.event.type for entry in machine.entries)
    assert {"responded", "max_steps_exceeded", "max_tool_errors_exceeded", "cancelled", "deadline_exceeded"} <= set(
        ends
    )
    assert {"loop_detected", "dead_lettered", "provider_unavailable", "instruction_done"} <= set(ends)
    assert len(events) == 20, "every event of a network run was met"
    assert min(events.values()) >= 5, events

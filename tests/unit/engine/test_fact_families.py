"""Runs with children, and a budget that asks people, many times, each from one seed: they come to an end.

After every single fact the watch of `tests.support.engine.invariants` compares the machine with its own reading.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from tests.support.engine.fact_families import FamilyWorld
from tests.support.engine.machine import Machine, snapshot
from tests.support.engine.plan_machine import PlanRun, ask, block, step
from tests.support.engine.steered_world import SteeredWorld
from tests.support.engine.team_machine import TeamLeadRun
from tests.support.engine.team_world import TeamWorld
from tests.support.engine.world import Seeded

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
    return ended(machine, chance)


def carried_out(seed: int) -> Machine:
    """Return a plan, or a workflow, after its rough time and the peace that follows."""
    chance = Seeded(seed)
    if chance.happens(30):
        stages = [["ann"], ["bob", "cid", "dan"], ["eve"]]
        run = PlanRun(kind="swarm", swarm={"swarm": {"mode": "workflow", "members": [], "stages": stages}}, start=False)
        return ended(run, chance)
    policies = [chance.pick(("collect", "fail_fast", "first_success")) for _ in range(2)]
    crowd = [ask(key) for key in ("ann", "bob", "cid", "dan", "eve", "lead")]
    steps = (
        step("ann", result_key="a"),
        block(*crowd, merge_strategy=policies[0]),
        step("bob", "{{ result.a }}", timeout_ms=30_000),
        block(*crowd[:2], merge_strategy=policies[1]),
    )
    return ended(PlanRun(*steps, start=False, timeout_ms=chance.pick((60_000, 300_000))), chance)


def led(seed: int) -> Machine:
    """Return the run of a team's lead after its rough time and the peace that follows."""
    chance = Seeded(seed)
    lead = TeamLeadRun(start=False, timeout_ms=chance.pick((60_000, 300_000, 3_600_000)))
    return ended(lead, chance, TeamWorld(lead, chance))


def ended(machine: Machine, chance: Seeded, world: FamilyWorld | None = None) -> Machine:
    """Let a run live until it ends; fails where it does not."""
    world = world or FamilyWorld(machine, chance)
    world.begin()
    return world.live(ROUGH_TURNS, CALM_TURNS)


def event_counts(live: Callable[[int], Machine], seeds: Iterable[int]) -> Counter[str]:
    """Return the events of the lives of *seeds*, by type."""
    events: Counter[str] = Counter()
    for seed in seeds:
        try:
            machine = live(seed)
        except Exception as error:  # the seed is what a reader needs to repeat it
            error.add_note(f"seed {seed}")
            raise
        events.update(entry.event.type for entry in machine.entries)
    return events


def test_leads_of_teams_end_in_a_hostile_world() -> None:
    events = event_counts(led, range(20))
    wanted = (
        "child_started",
        "child_ended",
        "outcome_recorded",
        "tool_call_denied",
        "tool_call_edited",
        "run_quarantined",
    )
    assert min(events[name] for name in wanted) >= 1, events


def test_plans_and_workflows_end_in_a_hostile_world() -> None:
    events = event_counts(carried_out, range(24))
    assert min(events[name] for name in ("plan_step_ended", "child_stopped", "run_quarantined", "gate_closed")) >= 1


def test_runs_with_specialists_and_budget_gates_end_in_a_hostile_world() -> None:
    events = event_counts(lived, SEEDS)
    wanted = ("child_started", "child_ended", "child_waits", "run_quarantined", "budget_warned", "gate_closed")
    assert min(events[name] for name in wanted) >= 2, events


def steered(seed: int) -> Machine:
    """Return a run or plan that people steer from outside, after its rough time and the peace that follows."""
    chance = Seeded(seed)
    machine: Machine
    match seed % 3:
        case 0:
            goal = {"goal": "Do it.", "acceptance_criteria": [{"text": "It is well done."}], "settings": {}}
            machine = Machine(snapshot(max_steps=8), start=False, kind="goal", goal=goal)
        case 1:
            crowd = [ask(key) for key in ("ann", "bob", "cid", "dan", "eve", "lead")]
            machine = PlanRun(step("ann"), block(*crowd), start=False)
        case _:
            machine = Machine(start=False)
    return ended(machine, chance, SteeredWorld(machine, chance))


def test_runs_that_people_steer_end_in_a_hostile_world() -> None:
    """While anybody holds a run it asks no model and starts nothing; the watch sees to it after every fact."""
    events = event_counts(steered, range(60))
    assert {"note_given", "confidence_requested", "gate_opened", "gate_closed"} <= set(events)

"""One simulated world from one seed: a rough time, then peace in which everything that was accepted must end.

The services are the real ones (`replicas`), each twice; what is around them is hostile (`broker`, `database`,
`disasters`) or human (`people`). `lived(seed)` repeats a world exactly.
"""

import random
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.simulation.children import MixedClient
from tests.simulation.coverage import Coverage
from tests.simulation.mutants import MutantSwitches
from tests.simulation.outside.broker import SimBroker
from tests.simulation.outside.clock import SimProcess, VirtualTimeLoop
from tests.simulation.outside.database import BEGAN, Database
from tests.simulation.outside.disasters import FaultSchedule, ProcessKilled, crash_points_call
from tests.simulation.outside.message_bus import SimBus
from tests.simulation.outside.operator import SwitchOperator
from tests.simulation.outside.people import OutsideEffect, OutsideWorld, SimClient, SimDecider, SimPerson, SimWorker
from tests.simulation.plans import PlanningClient, plan_decision
from tests.simulation.replicas import CALL_METRICS, RUN_METRICS, Replica, start_orchestrator, start_tas
from tests.simulation.scenery import NETWORK, PLAN_NETWORK, ModelAnswers, publish_fixtures
from tests.simulation.verdict import WorldJudge

from towpath_contracts.canonical import digest
from towpath_contracts.tools.calls import ToolInvocation
from towpath_fabric import clock, ids
from towpath_fabric.tickets import TicketSigner, TicketVerifier
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_tas.settings import TasSettings
from towpath_testing.tables.budget_rows import BudgetRows
from towpath_testing.tables.ledger_rows import LedgerRows
from towpath_testing.tables.origin_rows import OriginRows
from towpath_testing.tables.run_rows import RunRows
from towpath_testing.tables.switch_rows import SwitchRows

MOST_STEPS = 400_000
PEACE_S = 1_500.0
"""Longer than any run's own time: whatever is not over by then never ends."""

OBJECTIVES_FROM = 1_000_000
"""From this seed on every task pursues an objective: it plans, and works in files of its own."""

GOALS_FROM = 2_000_000
"""From this seed on every task pursues a goal: its steps are judged and tried again, and people settle its doubts."""

CHILDREN_FROM = 3_000_000
"""From this seed on every task is an errand: a goal for which an agent asks another one, in a run of its own."""

PLANS_FROM = 4_000_000
"""From this seed on every task is a plan, or work for a team: trees of runs."""

SIGNER = TicketSigner(Ed25519PrivateKey.from_private_bytes(b"t" * 32))
SETTINGS = OrchestratorSettings(embedded=True, reconcile_ms=1000, snapshot_every=7)
TAS_SETTINGS = TasSettings(ticket_life_s=20)
ROLES = ("orchestrator", "orchestrator", "tas", "tas", "decider", "decider", "worker", "worker")


class World:
    """Everything that one seed makes."""

    def __init__(self, seed: int, *, keep: bool = False, mutants: MutantSwitches | None = None) -> None:
        self.seed = seed
        self.objectives = OBJECTIVES_FROM <= seed < GOALS_FROM
        self.goals = GOALS_FROM <= seed < PLANS_FROM
        self.children = CHILDREN_FROM <= seed < PLANS_FROM
        self.plans = seed >= PLANS_FROM
        self.network = PLAN_NETWORK if self.plans else NETWORK
        self.chance = random.Random(seed)
        self.seen = Coverage(keep=keep)
        self.mutants = mutants or MutantSwitches()
        self.loop = VirtualTimeLoop(self._stream("order"))
        self.database = Database(self.loop, self._stream("database"), self.seen)
        self.runs = RunRows(self.database)
        self.budgets = BudgetRows(self.database, self.runs)
        self.ledger = LedgerRows(self.database, self.runs)
        OriginRows(self.database, self.ledger, self.runs)
        self.switches = SwitchRows(self.database, self.ledger, self.runs, self.complain)
        self.broker = SimBroker(self.loop, self._stream("broker"), self.seen)
        self.outside = OutsideWorld()
        self.complaints: list[str] = []
        self.keys: dict[str, UUID] = {}
        self.at_peace = False
        self.cancels = self.chance.choice((0.0, 0.3, 0.7))
        self.size = self.chance.choice((1, 4, 32))
        self.cache = self.chance.choice((1, 2, 100))
        self.settings = SETTINGS.model_copy(
            update={
                "cache_runs": self.cache,
                "batch_size": self.size,
                "max_active_runs": self.chance.choice((1, 2, 100)),
                "message_window": self._stream("windows").choice((1, 3, 64)),
            }
        )
        self.tas_settings = TAS_SETTINGS.model_copy(update={"batch_size": self.size, "cache_calls": self.cache})
        self.tasks = self.chance.choice((2, 3, 4))
        self.processes: dict[int, SimProcess] = {}
        self._people_chance = self._stream("people")
        publish_fixtures(self.runs, self.ledger, self.network, children=self.children)
        self.mutants.weaken(self)
        self.judge = WorldJudge(self)
        self.broker.acked_of_inbox = self.judge.on_ack
        self.disasters = FaultSchedule(self, self._stream("disasters"))

    def _stream(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    def now(self) -> datetime:
        """Postgres's clock."""
        return self.database.now()

    def complain(self, text: str) -> None:
        """Record a violation of what must always hold."""
        self.complaints.append(text)
        self.seen.trace(f"!!! {text}")

    def accepted(self, key: str, run_id: UUID) -> None:
        """A client got the answer that its task is a run."""
        if self.keys.setdefault(key, run_id) != run_id:
            self.complain(f"{key} became two runs")

    def acted(self, call: ToolInvocation, worker: str, began: datetime, *, stale: bool) -> None:
        """Record the effect of a tool."""
        act = OutsideEffect(
            execution_id=call.execution_id,
            run_id=call.run_id,
            effect_class=call.effect_class,
            worker=worker,
            began=began,
            at=self.now(),
            decided=self.judge.decided(call.execution_id),
            instructed=self.judge.instructed(call.run_id, call.execution_id),
            stale=stale,
            args_digest=digest(call.args),
        )
        self.outside.acts.append(act)
        if stale:
            self.seen.note("stale_worker")
        self.seen.trace(f"{act.at:%H:%M:%S.%f} {worker} did {call.tool} {str(call.execution_id)[:6]}")

    def lose(self, process: SimProcess) -> None:
        """Kill a process from within: nothing of it runs after this."""
        self.loop.freeze(process)
        self.loop.call_in(self.loop.outside, 0.0, self.disasters.kill, process)

    def anything_waits(self) -> bool:
        """Return whether a person would see an open gate."""
        return bool(self.runs.gates.waiting)

    def start(self, place: int) -> SimProcess:
        """Start the process at *place* of `ROLES`, with nothing in memory."""
        role = ROLES[place]
        process = self.processes[place] = SimProcess(f"{role}-{place}")
        self.loop.within(process, lambda: self._start(role, process))
        return process

    def _start(self, role: str, process: SimProcess) -> None:
        bus = SimBus(self.broker, process, role)
        bus.complaints = self.complaints
        replica = Replica(self.loop, process, self.complain)
        if role == "orchestrator":
            replica.run(lambda: start_orchestrator(replica, self.database, bus, self.settings))
        elif role == "tas":
            replica.run(lambda: start_tas(replica, self.database, bus, SIGNER, self.tas_settings))
        elif role == "decider":
            replica.run(self.decider(bus).run)
        else:
            replica.run(SimWorker(bus, self._people_chance, self, TicketVerifier(SIGNER.public_keys())).run)

    def decider(self, bus: SimBus) -> SimDecider:
        """Return the decider of one process."""
        if self.plans:
            return SimDecider(bus, self._people_chance, lambda request: plan_decision(request, self._people_chance))
        return SimDecider(bus, self._people_chance, ModelAnswers(self._people_chance, children=self.children))

    def client(self, bus: SimBus) -> SimClient:
        """Return the client that submits tasks."""
        kind = PlanningClient if self.plans else MixedClient if self.children else SimClient
        return kind(bus, self._people_chance, self)

    async def life(self) -> None:
        """The whole story."""
        for place in range(len(ROLES)):
            self.start(place)
        people = SimBus(self.broker, self.loop.outside, "people")
        self.loop.create_task(SimPerson(people, self._people_chance, self).run(), name="person")
        operator = SwitchOperator(people, self._stream("operator"), self)
        self.loop.create_task(operator.run(), name="operator").add_done_callback(self._client_ended)
        for number in range(self.tasks):
            client = self.client(people)
            self.loop.create_task(client.live(number), name=f"client {number}").add_done_callback(self._client_ended)
        await self.disasters.rage()
        await self.disasters.make_peace()
        self.at_peace = True
        self.seen.trace("peace")
        await self._quiet()

    def _client_ended(self, task: Any) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.complain(f"client: {task.exception()!r}")

    async def _quiet(self) -> None:
        until = self.loop.time() + PEACE_S
        while self.loop.time() < until:
            await self.disasters.pause(2.0)
            if any(process.frozen for process in self.processes.values()):
                await self.disasters.pause(62.0)  # it has something to say yet
                continue
            if len(self.keys) == self.tasks and self.judge.all_ended():
                return
        self.complain(f"not over after {PEACE_S:.0f} s of peace: {self.judge.what_hangs()}")


def run_world(seed: int, *, keep: bool = False, mutants: MutantSwitches | None = None) -> World:
    """Let a world live from its seed, and judge it; complaints are in the world that is returned."""
    return run_to_end(World(seed, keep=keep, mutants=mutants))


def run_to_end(world: World) -> World:
    """Let *world* live, and judge it."""
    before = _counters()
    with ExitStack() as stack:
        stack.enter_context(clock.use_simulated_clock(world.loop.time, int(BEGAN.timestamp() * 1e9)))
        stack.enter_context(ids.use_random_bits(world._stream("ids").getrandbits))
        stack.enter_context(crash_points_call(world.disasters.on_point))
        stack.enter_context(world.mutants.applied())
        try:
            world.loop.run_world(world.life(), MOST_STEPS)
            world.judge.judge()
        except (RuntimeError, LookupError) as error:
            world.complain(f"the world broke: {error!r}")
        finally:
            world.loop.end()
    for context in world.loop.complaints:
        if not isinstance(context.get("exception"), ProcessKilled):
            world.complain(f"asyncio: {context}")
    for name, count in _counters().items():
        world.seen.counts[name] += int(count - before[name])
    return world


def _counters() -> dict[str, float]:
    read: Callable[[Any], float] = lambda counter: counter._value.get()  # noqa: E731
    return {
        "state_reloaded": read(RUN_METRICS.reloads),
        "seq_conflicts": read(RUN_METRICS.conflicts),
        "ledger_redone": read(CALL_METRICS.redone),
    }

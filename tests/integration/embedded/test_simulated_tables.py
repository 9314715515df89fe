"""The simulation's tables do what Postgres does: the same steps, old ones and doubled ones too, with the same results.

The model is a handful of dicts (`tests/simulation`); the system is the SQL itself.
"""

import asyncio
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.conftest import DatabaseUrl
from tests.support.tas.tas_calls import RUN, ask, claim, decision, outcome, request
from tests.support.tas.two_ledgers import TwoLedgers

from towpath_contracts.tools.calls import EffectClass
from towpath_fabric.postgres.pool import open_pool
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.outcomes import on_outcome
from towpath_tas.core.calls.settlement import on_settle
from towpath_tas.core.policy.matrix import RateLimit

T = TypeVar("T")

RUNS = (RUN, uuid.uuid5(RUN, "another"))
CALLS = tuple((run, uuid.uuid5(run, f"call {n}"), n) for run in RUNS for n in range(2))
CALL = st.sampled_from(CALLS)
HOLDERS = tuple(uuid.uuid5(RUN, f"claim {n}") for n in range(2))
RATE = RateLimit("rated", 2, 31 * 86_400)
"""A window so long that no test can end it."""
CLASSES = st.sampled_from([EffectClass.PURE, EffectClass.IDEMPOTENT, EffectClass.IRREVERSIBLE])


class Pairs(RuleBasedStateMachine):
    """Two ledgers under the same words. `server` and `loop` are set by the test."""

    server: "asyncpg.Pool[Any]"
    runner: asyncio.Runner

    def do(self, coro: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coro)

    @initialize()
    def begin(self) -> None:
        self.ledgers = TwoLedgers(self.server)
        self.do(self.ledgers.clear())
        self.version = 1
        self.old: list[LedgerChange] = []

    def store(self, step: LedgerChange, version: int, base: int = 0) -> None:
        """Store a step, and remember it: it may be tried again when it is long outdated."""
        if step.call is None and not step.notes:
            return
        self.old.append(step)
        bases = {(run, "limited"): base for run in RUNS}
        self.do(self.ledgers.write([step], version, bases))

    @rule(
        which=CALL,
        effect=st.sampled_from(["allow", "allow", "deny", "require_approval"]),
        effect_class=CLASSES,
        fence=st.integers(0, 2),
        behind=st.integers(0, 1),
        counted=st.booleans(),
        base_off=st.sampled_from([0, 0, 1]),
        rated=st.booleans(),
    )
    def the_run_asks(
        self,
        which: Any,
        effect: str,
        effect_class: Any,
        fence: int,
        behind: int,
        counted: bool,
        base_off: int,
        rated: bool,
    ) -> None:
        run, execution, index = which
        found = self.do(self.ledgers.read(run, execution))
        now = self.ledgers.now()
        asked = request(
            run_id=run, execution_id=execution, call_index=index, fence=fence, deadline=now + timedelta(hours=1)
        )
        decided = decision(
            effect,
            effect_class,
            counted=("limited",) if counted else (),
            rated=(RATE,) if rated else (),
        )
        step = ask(found.call, asked, decided, now=now, fence=found.fence * behind, approval=found.approval)
        base = self.do(self.ledgers.used(run, "limited")) + base_off
        self.do(self.ledgers.rated(RATE))
        self.store(step, self.version - behind, base)

    @rule(which=CALL, holder=st.sampled_from(HOLDERS), blind=st.booleans())
    def a_worker_claims(self, which: Any, holder: Any, blind: bool) -> None:
        found = self.do(self.ledgers.read(which[0], which[1]))
        if found.call is None:
            return
        fence = 0 if blind else found.fence
        step, _ = on_claim(found.call, claim(found.call, holder), "", now=self.ledgers.now(), fence=fence)
        self.store(step, self.version)

    @rule(which=CALL, holder=st.sampled_from(HOLDERS), status=st.sampled_from(["succeeded", "failed"]))
    def a_worker_reports(self, which: Any, holder: Any, status: str) -> None:
        found = self.do(self.ledgers.read(which[0], which[1]))
        if found.call is None:
            return
        reported = outcome(found.call, holder, status=status)
        step = on_outcome(
            found.call, reported, "", lambda _asked: decision(), now=self.ledgers.now(), fence=found.fence
        )
        self.store(step, self.version)

    @rule(which=CALL, verdict=st.sampled_from(["happened", "did_not_happen", "retry"]))
    def a_person_speaks(self, which: Any, verdict: Any) -> None:
        found = self.do(self.ledgers.read(which[0], which[1]))
        if found.call is None:
            return
        step = on_settle(found.call, verdict, "ann", "seen", now=self.ledgers.now(), fence=0)
        if isinstance(step, LedgerChange):
            self.store(step, self.version)

    @rule(run=st.sampled_from(RUNS), fence=st.integers(1, 3))
    def a_fence_is_raised(self, run: Any, fence: int) -> None:
        self.do(self.ledgers.fence(run, fence))

    @rule(place=st.integers(0, 30), another=st.integers(0, 30))
    def old_steps_come_again_together(self, place: int, another: int) -> None:
        chosen = {self.old[n % len(self.old)].call: self.old[n % len(self.old)] for n in (place, another) if self.old}
        steps = list({step.call.execution_id: step for step in chosen.values() if step.call is not None}.values())
        if steps:
            self.do(self.ledgers.write(steps, self.version, {}))

    @rule()
    def the_policy_moves(self) -> None:
        self.version += 1
        self.do(self.ledgers.set_version(self.version))

    @invariant()
    def they_agree(self) -> None:
        for run, execution, _ in CALLS:
            self.do(self.ledgers.read(run, execution))

    def teardown(self) -> None:
        if hasattr(self, "ledgers"):
            self.do(self.ledgers.audit())
            for lane in self.ledgers.lanes:
                self.do(lane.close())


def test_the_simulated_ledger_is_the_real_one(database: DatabaseUrl) -> None:
    few = settings(
        max_examples=15,
        stateful_step_count=20,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate,),  # making a failure smaller takes minutes here, and the steps are few
        suppress_health_check=list(HealthCheck),
    )
    with asyncio.Runner() as runner:
        pool = runner.run(open_pool(database(), 3, "test"))
        try:
            run_state_machine_as_test(type("Here", (Pairs,), {"server": pool, "runner": runner}), settings=few)
        finally:
            runner.run(pool.close())

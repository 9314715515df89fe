"""Worlds in which everything is limited: many runs spend from the same accounts, and processes die all the time.

The judge knows what models were really paid, from the models themselves. `python -m tests.simulation.budgets`.
"""

import asyncio
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.simulation.mutants import MutantSwitches
from tests.simulation.outside.message_bus import Delivery, SimBus
from tests.simulation.outside.people import PROJECT, SimClient, SimDecider
from tests.simulation.scenery import NETWORK, ModelAnswers
from tests.simulation.world import World

from towpath_contracts import subjects
from towpath_contracts.budgets import NOTHING, UNITS, Amounts, Budget, ModelPrice
from towpath_contracts.decisions.request import CALL_LOST, DecisionRequest, Usage
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_contracts.tasks import SubmitTask
from towpath_engine.replay import fold
from towpath_fabric.nats.pull_consumer import ack, deliveries, nak
from towpath_testing.tables.budget_rows import Place

PRICE = ModelPrice(input_micros=1_000_000, output_micros=2_000_000)
"""As in prices.yaml."""

FAN = 64

DECIDES = subjects.DECIDE_ALL.removesuffix("*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidAttempt:
    """What one attempt really cost, and what its answer reports."""

    run_id: UUID
    request_id: UUID
    attempt: int
    truth: Amounts
    reported: Amounts


class PayingDecider(SimDecider):
    """Pays before it answers, and keeps to what the request allows; may die in between."""

    def __init__(self, bus: SimBus, chance: random.Random, world: "BudgetWorld") -> None:
        super().__init__(bus, chance, ModelAnswers(chance))
        self._world = world

    async def _decide(self, message: Delivery) -> None:
        request = DecisionRequest.model_validate_json(message.data)
        name: dict[str, Any] = {"run_id": request.run_id, "request_id": request.request_id, "attempt": request.attempt}
        if request.max_calls and deliveries(message) > 1:  # type: ignore[arg-type]
            self._world.seen.note("call_lost")
            await self._report(message, DecisionFailedFact(**name, code=CALL_LOST, message="it was here before"))
            return
        calls, uncounted, usage = self._pay(request)
        await asyncio.sleep(self._chance.choice((0.005, 0.02, 0.3, 2.0, 30.0)))
        usage = usage.model_copy(update={"model_calls": calls})
        more: dict[str, Any] = {**name, "usage": usage, "uncounted": uncounted, "model": request.model}
        if self._chance.random() < 0.05:
            fact: Any = DecisionFailedFact(**more, code="invalid_output", message="it said nothing")
        else:
            fact = DecisionMadeFact(**more, decision=self._answers(request))
        await self._report(message, fact)

    def _pay(self, request: DecisionRequest) -> tuple[int, int, Usage]:
        """Draw how many calls it takes and what each costs: at times all that is allowed."""
        chance = self._chance
        calls = chance.randint(1, request.max_calls or 2)
        most_input = len(request.context.model_dump_json())
        pairs = [(chance.randint(0, most_input), chance.randint(0, request.max_output_tokens)) for _ in range(calls)]
        if chance.random() < 0.1:
            pairs = [(most_input, request.max_output_tokens)] * calls
        silent = 1 if chance.random() < 0.1 else 0
        counted = pairs[silent:]
        usage = Usage(input_tokens=sum(p[0] for p in counted), output_tokens=sum(p[1] for p in counted))
        reported = Amounts(tokens=usage.input_tokens + usage.output_tokens, model_calls=calls - silent)
        spent_in, spent_out = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
        truth = Amounts(usd_micros=PRICE.of(spent_in, spent_out), tokens=spent_in + spent_out, model_calls=calls)
        paid = PaidAttempt(
            run_id=request.run_id,
            request_id=request.request_id,
            attempt=request.attempt,
            truth=truth,
            reported=reported,
        )
        self._world.paid.append(paid)
        return calls, silent, usage

    async def _report(self, message: Delivery, fact: Any) -> None:
        subject = subjects.run_inbox("decider", fact.run_id)
        for _ in range(3):
            if await self._bus.store(subject, fact.model_dump_json().encode()):
                await ack(message)  # type: ignore[arg-type]
                return
            await asyncio.sleep(0.3)
        await nak(message, 1.0)  # type: ignore[arg-type]


class BudgetClient(SimClient):
    """Gives some tasks a budget of their own."""

    def task(self, number: int, key: str) -> SubmitTask:
        task = super().task(number, key)
        if self._chance.random() < 0.5:
            return task
        return task.model_copy(update={"budget": Budget(model_calls=self._chance.choice((3, 8, 40)), tool_calls=6)})


class BudgetWorld(World):
    """A world with limits, which are set anew all the time. The evils are those of every world but two.

    A broker restored from an old copy gives out once more what was answered long ago, as if for the first time: no
    decider can know, and docs/budgets.md describes that. Nor does anything between an orchestrator and a broker send a
    request twice: it is published once in an attempt (`resendable_effects`), and a connection repeats nothing.
    """

    def __init__(self, seed: int, *, fan: int = FAN, keep: bool = False, mutants: MutantSwitches | None = None) -> None:
        super().__init__(seed, keep=keep, mutants=mutants)
        chance = self._stream("budgets")
        self.paid: list[PaidAttempt] = []
        self.tasks = fan
        self.cancels = chance.choice((0.0, 0.2))
        prices = Path(__file__).parent / "prices.yaml"
        self.settings = self.settings.model_copy(update={"max_active_runs": 100, "model_prices_file": prices})
        calls = chance.choice((fan, fan * 4, fan * 12))
        self.budgets.limit(PROJECT, "project", PROJECT, model_calls=calls)
        if chance.random() < 0.5:
            self.budgets.limit(PROJECT, "project", PROJECT, per_day=True, usd_micros=chance.choice((3, 30)) * 10**6)
        if chance.random() < 0.5:
            self.budgets.limit(PROJECT, "caller", "alice", tokens=chance.choice((1, 5)) * fan * 50_000)
        self.disasters._kinds = [kind for kind in self.disasters._kinds if kind != "restore"]
        self.broker.faults.once = DECIDES
        self.late: tuple[datetime, Place] | None = None

    async def life(self) -> None:
        self.loop.create_task(self._limit_again(), name="limits")
        await super().life()

    async def _limit_again(self) -> None:
        """Set limits anew, with the amounts that they have: whoever does not know of it may commit nothing.

        In many worlds one more comes late; it binds every run that is submitted after that.
        """
        chance = self._stream("limits")
        while not self.at_peace:
            await asyncio.sleep(chance.uniform(0.1, 3.0))
            if self.late is None and chance.random() < 0.2:
                name = f"{self.now():%Y-%m-%d}/caller/alice"
                self.budgets.limit(PROJECT, "caller", "alice", per_day=True, tool_calls=10**6)
                self.late = self.now(), (PROJECT, "day", name)
            else:
                (project, kind, name, per_day), row = chance.choice(list(self.budgets.limits.items()))
                self.budgets.limit(project, kind, name, per_day=per_day, **{unit: row[unit] for unit in UNITS})

    def decider(self, bus: SimBus) -> SimDecider:
        return PayingDecider(bus, self._people_chance, self)

    def client(self, bus: SimBus) -> SimClient:
        return BudgetClient(bus, self._people_chance, self)


class BudgetJudge:
    """Compares the accounts with the logs, and both with what was paid."""

    def __init__(self, world: BudgetWorld) -> None:
        self._world = world

    def judge(self) -> dict[str, int]:
        """Complain of everything that is wrong; returns the figures that must be 0, and how much was seen."""
        figures: Counter[str] = Counter(overspent=0, leaked=0, misattributed=0, free=0, unbound=0)
        spent: dict[Place, Amounts] = defaultdict(lambda: NOTHING)
        held: dict[Place, Amounts] = defaultdict(lambda: NOTHING)
        truth: dict[Place, Amounts] = defaultdict(lambda: NOTHING)
        for run_id in self._world.runs.runs:
            self._run(run_id, figures, spent, held, truth)
        for place, row in self._world.budgets.accounts.items():
            for unit in UNITS:
                most = row[f"{unit}_limit"]
                if most is not None and self._world.budgets.worst[place].get(unit, 0) > most:
                    self._wrong(
                        figures, "overspent", f"{place}: {self._world.budgets.worst[place][unit]} of {most} {unit}"
                    )
                if row[f"{unit}_reserved"] != getattr(held[place], unit) or row[f"{unit}_reserved"]:
                    self._wrong(figures, "leaked", f"{place}: {row[f'{unit}_reserved']} {unit} are still reserved")
                if row[f"{unit}_spent"] != getattr(spent[place], unit):
                    self._wrong(figures, "misattributed", f"{place}: {unit} differ from the logs")
                late = self._world.late is not None and place == self._world.late[1]  # more was paid before it was set
                if row[f"{unit}_spent"] < getattr(truth[place], unit) and not late:
                    self._wrong(figures, "free", f"{place}: {unit} were paid and not spent")
        return {**figures, "attempts": len(self._world.paid), "accounts": len(self._world.budgets.accounts)}

    def _wrong(self, figures: Counter[str], what: str, text: str) -> None:
        figures[what] += 1
        self._world.complain(f"{what}: {text}")

    def _run(self, run_id: UUID, figures: Counter[str], spent: Any, held: Any, truth: Any) -> None:
        log = self._world.judge._log(run_id)
        state = fold(run_id, NETWORK, log)
        budget = state.budget
        self._bound(run_id, figures, log)
        if budget is None:
            return
        paid = [one for one in self._world.paid if one.run_id == run_id]
        asked = {hold.accounts for hold in (*budget.holds, *budget.lost)}
        for number, account in enumerate(budget.accounts):
            place = (PROJECT, account.scope, account.key)
            spent[place] = spent[place].plus(account.spent)
            held[place] = held[place].plus(account.reserved)
            if number in budget.path and all(number in one for one in asked):
                for one in paid:
                    truth[place] = truth[place].plus(one.truth)
        self._attributed(run_id, figures, log, budget, paid)

    def _bound(self, run_id: UUID, figures: Counter[str], log: Any) -> None:
        """A run that was submitted when a limit was set asks for nothing before it is under it."""
        if not log or self._world.late is None or log[0].at <= self._world.late[0]:
            return
        place = self._world.late[1][1:]
        for event in (entry.event for entry in log):
            if event.type == "budget_applied" and place in {(scope.scope, scope.key) for scope in event.scopes}:
                self._world.seen.note("bound_late")
                return
            if event.type == "decision_requested":
                self._wrong(figures, "unbound", f"{run_id} asks a model, and does not know of {place}")
                return

    def _attributed(self, run_id: UUID, figures: Counter[str], log: Any, budget: Any, paid: list[PaidAttempt]) -> None:
        """What was counted, beside estimates, is what the answers in the log report: no more and no less."""
        reported = {(one.request_id, one.attempt): one.reported for one in paid}
        counted = NOTHING
        for entry in log:
            event: Any = entry.event
            if event.type in ("decision_received", "decision_missed", "usage_corrected"):
                counted = counted.plus(reported[event.request_id, event.answered.attempt])
            if event.type == "usage_corrected":
                self._world.seen.note("usage_corrected")
            if event.type in ("budget_refused", "budget_warned"):
                self._world.seen.note(event.type)
        account = budget.accounts[budget.path[0]]
        sure = account.spent.minus(account.estimated)
        if (sure.tokens, sure.model_calls) != (counted.tokens, counted.model_calls):
            self._wrong(figures, "misattributed", f"{run_id}: {sure} counted, {counted} told")

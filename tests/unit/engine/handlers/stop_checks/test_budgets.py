"""Budgets in the run machine: what is reserved, settled, estimated, corrected; how a run ends that may not ask."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.engine import goal_machine
from tests.support.engine.machine import RUN, Machine, agent, respond, snapshot, tool, use, use_all

from towpath_contracts import facts
from towpath_contracts.budgets import (
    UNITS,
    Amounts,
    Budget,
    BudgetRefusal,
    ModelPrice,
    RunBudgetAccount,
    SpendingLimits,
)
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_contracts.events import log as ev
from towpath_engine.state.budget import BudgetState, SpendingRestriction, account_changes
from towpath_orchestrator.adapters.budget_store import charge_rows

PRICE = ModelPrice(input_micros=1_000_000, output_micros=2_000_000)
RUN_SCOPE = RunBudgetAccount(scope="run", key=str(RUN), limits=SpendingLimits(usd_micros=10**7))
PROJECT = RunBudgetAccount(scope="project", key="default")


class Spender(Machine):
    """A run that spends from its own account and its project's."""

    def __init__(self, *scopes: RunBudgetAccount, network: Any = None, prices: Any = None, **options: Any) -> None:
        super().__init__(network, start=False, **options)
        prices = {one.model: PRICE for one in self.network.agents.values()} if prices is None else prices
        self.feed(facts.BudgetAccountsAppliedFact(run_id=RUN, scopes=scopes or (RUN_SCOPE, PROJECT), prices=prices))
        self.admit()

    @property
    def budget(self) -> BudgetState:
        assert self.state.budget is not None
        return self.state.budget

    def account(self, number: int = 0) -> tuple[Amounts, Amounts, Amounts]:
        account = self.budget.accounts[number]
        return account.reserved, account.spent, account.estimated

    def answer(self, decision: Any, attempt: int = 1, told: int = 100, said: int = 10, **more: Any) -> list[Any]:
        usage = Usage(input_tokens=told, output_tokens=said, total_tokens=told + said, model_calls=1)
        more = {"attempt": attempt, "usage": usage, "request_id": self.request_id, **more}
        return self.feed(facts.DecisionMadeFact(run_id=RUN, decision=decision, **more))

    def refuse(self, unit: Any = "tokens") -> list[Any]:
        refusal = BudgetRefusal(scope="run", key=str(RUN), unit=unit, limit=1000, spent=900, reserved=0, wanted=400)
        return self.feed(facts.BudgetRefusedFact(run_id=RUN, refusal=refusal))


def test_budget_the_worst_case_is_in_the_request_for_a_decision() -> None:
    machine = Spender()
    (asked,) = machine.events(ev.DecisionRequested)
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest)
    size = len(request.context.model_dump_json().encode())
    assert request.max_calls == 4
    assert asked.reserved.model_calls == 4
    assert asked.reserved.tokens >= 4 * (size + request.max_output_tokens)
    found = asked.reserved.tokens - 4 * request.max_output_tokens
    assert asked.reserved.usd_micros == PRICE.of(found, 4 * request.max_output_tokens)
    assert machine.account(0) == machine.account(1) == (asked.reserved, Amounts(), Amounts())


@pytest.mark.parametrize(("model", "times"), [("scripted:task", 1), ("openai:gpt-5", 2), ("anthropic:claude", 2)])
def test_budget_tools_that_may_be_offered_natively_are_reserved_once_more(model: str, times: int) -> None:
    def reserved(described: str) -> int:
        network = snapshot(
            agent("clerk", model=model, equipped_tools=("echo",)), tools=(tool("echo", description=described),)
        )
        (asked,) = Spender(network=network).events(ev.DecisionRequested)
        assert asked.reserved is not None
        return int(asked.reserved.tokens)

    assert reserved("x" * 1_001) - reserved("x") == 4 * times * 1_000


def test_budget_an_answer_settles_at_what_it_used() -> None:
    machine = Spender()
    machine.answer(use("echo", text="a"), told=100, said=10)
    reserved, spent, estimated = machine.account()
    assert spent == Amounts(usd_micros=120, tokens=110, model_calls=1)
    assert reserved == Amounts(tool_calls=1)
    assert estimated == Amounts()
    machine.finish()
    machine.answer(respond(), told=5, said=1, cost=Cost(usd=0.5, price_known=True))
    assert machine.account() == (
        Amounts(),
        Amounts(usd_micros=120 + 500_000, tokens=116, model_calls=2, tool_calls=1),
        Amounts(),
    )


def test_budget_a_lost_attempt_stays_spent_until_its_answer_comes() -> None:
    machine = Spender()
    request_id = machine.request_id
    (asked,) = machine.events(ev.DecisionRequested)
    machine.wake()
    (again,) = machine.events(ev.EffectResent)
    assert machine.account() == (again.reserved, asked.reserved, asked.reserved)
    machine.answer(respond(), attempt=2, told=7, said=1)
    usage = Usage(input_tokens=9, output_tokens=1, total_tokens=10, model_calls=1)
    late = facts.DecisionMadeFact(run_id=RUN, request_id=request_id, attempt=1, decision=respond(), usage=usage)
    (corrected,) = machine.feed(late)
    assert isinstance(corrected, ev.UsageCorrected)
    assert machine.account() == (Amounts(), Amounts(usd_micros=9 + 11, tokens=18, model_calls=2), Amounts())
    assert machine.state.usage.model_calls == 2
    assert machine.feed(late) == []


def test_budget_the_answer_to_an_earlier_attempt_leaves_the_later_one_estimated() -> None:
    machine = Spender()
    machine.wake()
    (again,) = machine.events(ev.EffectResent)
    machine.answer(respond(), attempt=1, told=7, said=1)
    reserved, spent, estimated = machine.account()
    assert (reserved, estimated) == (Amounts(), again.reserved)
    assert spent == estimated.plus(Amounts(usd_micros=9, tokens=8, model_calls=1))


def test_budget_one_call_that_answers_two_attempts_is_paid_once() -> None:
    machine = Spender()
    machine.wake()
    machine.answer(respond(), attempt=2, told=7, said=1, called_in=1)
    assert machine.account() == (Amounts(), Amounts(usd_micros=9, tokens=8, model_calls=1), Amounts())


def test_budget_calls_that_ended_without_an_answer_are_estimated() -> None:
    machine = Spender()
    (asked,) = machine.events(ev.DecisionRequested)
    usage = Usage(model_calls=2, total_tokens=8, input_tokens=8)
    machine.answer(respond(), usage=usage, uncounted=1)
    _, spent, estimated = machine.account()
    assert estimated.tokens == -(-asked.reserved.tokens // 4)
    assert spent == Amounts(usd_micros=8, tokens=8, model_calls=1).plus(estimated)


@pytest.mark.parametrize("end", ["cancel", "deadline"])
def test_budget_nothing_is_released_because_a_run_ends(end: str) -> None:
    machine = Spender()
    (asked,) = machine.events(ev.DecisionRequested)
    if end == "cancel":
        machine.cancel()
    else:
        machine.timer(after=machine.state.created.timeout_ms / 1000)
    assert machine.state.is_final
    assert machine.account() == (Amounts(), asked.reserved, asked.reserved)


def test_budget_a_call_that_did_not_begin_costs_nothing() -> None:
    priced = tool("priced", cost_usd=0.25)
    network = snapshot(agent("solo", equipped_tools=("priced",), allow_respond=True), tools=(priced,))
    machine = Spender(network=network)
    calls = [("priced", {"text": letter}) for letter in "abc"]
    machine.answer(use_all(*calls), told=0, said=0)
    assert machine.account()[0] == Amounts(usd_micros=750_000, tool_calls=3)
    machine.deny(0)
    machine.finish(1)
    machine.fail(2, "not_started", began=False)
    assert machine.account()[1] == Amounts(usd_micros=250_000, tool_calls=1, model_calls=1)


def test_budget_a_call_of_which_nobody_knows_is_estimated() -> None:
    machine = Spender()
    machine.answer(use("echo", text="a"))
    machine.cancel()
    machine.timer(after=3_600)
    assert machine.state.is_final
    assert machine.account()[2] == Amounts(tool_calls=1)


def test_budget_a_refused_run_asks_for_less_and_then_ends_with_what_it_has() -> None:
    machine = Spender()
    machine.answer(use("echo", text="a"))
    machine.refuse()
    machine.finish(result={"found": 1})
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest)
    assert (request.max_calls, request.max_output_tokens) == (1, 1_024)
    assert machine.budget.held(request.request_id, 1).amounts.model_calls == 1  # type: ignore[union-attr]
    machine.answer(use("echo", text="b"))
    machine.refuse()
    machine.finish(result={"found": 2})
    end = machine.finished
    assert (end.status, end.reason) == ("failed", "budget_exceeded")
    assert (end.final["scope"], end.final["unit"], end.final["limit"]) == ("run", "tokens", 1000)
    assert end.last_output == {"found": 2}
    assert machine.account()[0] == Amounts()


def test_budget_a_network_that_must_answer_answers_once_more() -> None:
    network = snapshot(
        agent("worker", equipped_tools=("echo",), allowed_routes=("clerk",)),
        agent("clerk", allow_respond=True),
        force_respond=True,
        force_respond_agent="clerk",
    )
    machine = Spender(network=network)
    machine.refuse("tool_calls")
    machine.answer(use("echo", text="a"))
    assert not machine.events(ev.InstructionIssued)
    assert machine.state.agent_key == "clerk"
    assert "answer now with RESPOND" in machine.context.notes[-1]
    machine.answer(respond("half of it"))
    assert machine.finished.status == "completed"


def test_budget_the_last_answer_is_the_last_thing_asked() -> None:
    machine = Spender(network=snapshot(agent("solo", equipped_tools=("echo",), allow_respond=True), force_respond=True))
    machine.refuse("tool_calls")
    machine.answer(use("echo", text="a"))
    machine.answer(use("echo", text="b"))
    assert machine.finished.reason == "budget_exceeded"


def test_budget_loops_come_before_it_and_tool_errors_after() -> None:
    machine = Spender(max_tool_errors=1)
    machine.answer(use("echo", text="a"))
    machine.refuse()
    machine.refuse()
    machine.fail()
    assert machine.finished.reason == "budget_exceeded"


def test_budget_a_warning_is_reported_once() -> None:
    machine = Spender()
    word = facts.BudgetWarnedFact(
        run_id=RUN, scope="project", key="default", unit="usd_micros", limit=10**6, spent=800_000
    )
    machine.feed(word)
    assert machine.context.notes == ("$0.80 of the project budget of $1.00 are spent. Come to an end soon.",)
    assert machine.feed(word) == []


def test_budget_a_warning_may_ask_a_person() -> None:
    machine = Spender()
    machine.answer(use("echo", text="a"))
    machine.feed(
        facts.BudgetWarnedFact(run_id=RUN, scope="run", key="r", unit="tokens", limit=10, spent=9, on_soft="gate")
    )
    machine.finish()
    (gate,) = machine.state.gates
    assert gate.gate_type == "budget"
    assert not machine.requests
    machine.resolve("approved")
    assert machine.requests


def test_budget_an_agent_spends_from_its_own_account_too() -> None:
    network = snapshot(
        agent("triage", equipped_tools=("echo",), allowed_routes=("expert",)), agent("expert", allow_respond=True)
    )
    expert = RunBudgetAccount(scope="agent", key=f"{RUN}/expert", agent_key="expert", limits=SpendingLimits(tokens=1))
    machine = Spender(RUN_SCOPE, expert, network=network)
    assert machine.account(1)[0] == Amounts()
    machine.answer({"action": "ROUTE_TO_AGENT", "action_details": {"target_agent_name": "expert", "context": "x"}})
    assert machine.account(1)[0] == machine.account(0)[0] != Amounts()


def test_budget_a_new_day_is_another_account_and_the_old_one_keeps_what_it_holds() -> None:
    days = [RunBudgetAccount(scope="day", key=f"2026-11-{day}/project/default") for day in (22, 23)]
    machine = Spender(days[0])
    (asked,) = machine.events(ev.DecisionRequested)
    machine.feed(facts.BudgetAccountsAppliedFact(run_id=RUN, scopes=(days[1],)))
    assert machine.account(0)[0] == asked.reserved
    machine.answer(use("echo", text="a"), told=3, said=0)
    assert machine.account(0) == (Amounts(), Amounts(usd_micros=3, tokens=3, model_calls=1), Amounts())
    assert machine.account(1)[0] == Amounts(tool_calls=1)


def test_budget_an_attempt_that_somebody_else_may_have_paid_is_asked_anew() -> None:
    machine = Spender()
    first = machine.request_id
    machine.miss("call_lost")
    assert (machine.request_id, machine.state.pending[0].attempt) == (first, 2)
    assert machine.requests
    (again,) = machine.events(ev.EffectResent)
    assert machine.account()[0] == again.reserved
    assert machine.account()[2] == machine.account()[1] != Amounts()


def test_budget_an_attempt_that_found_no_place_at_its_provider_costs_nothing() -> None:
    machine = Spender()
    first = machine.request_id
    machine.miss("call_unasked")
    assert (machine.request_id, machine.state.pending[0].attempt) == (first, 2)
    (again,) = machine.events(ev.EffectResent)
    assert machine.account() == (again.reserved, Amounts(), Amounts())


def test_budget_a_run_without_one_writes_what_it_always_wrote() -> None:
    machine = Machine()
    machine.decide(use("echo", text="a"))
    texts = [entry.event.model_dump_json() for entry in machine.entries]
    assert machine.state.budget is None
    assert not any(word in text for text in texts for word in ("reserved", "answered", "budget"))
    (asked,) = machine.events(ev.DecisionRequested)
    late = facts.DecisionMadeFact(run_id=RUN, request_id=asked.request_id, attempt=2, decision={})
    assert machine.feed(late) == []


def test_budget_charges_are_the_difference_of_two_states() -> None:
    machine = Spender()
    before = machine.budget
    machine.answer(use("echo", text="a"))
    changed = account_changes(before, machine.budget)
    assert [(one.scope, one.key) for one in changed] == [("run", str(RUN)), ("project", "default")]
    for one in changed:
        for unit in UNITS:
            was, now = before.accounts[0], machine.budget.accounts[0]
            assert getattr(one.reserved, unit) == getattr(now.reserved, unit) - getattr(was.reserved, unit)
            assert getattr(one.spent, unit) == getattr(now.spent, unit) - getattr(was.spent, unit)


def test_budget_money_is_counted_in_whole_millionths() -> None:
    assert Budget(usd=0.29).limits().usd_micros == 290_000
    assert ModelPrice(input_micros=300_000, output_micros=2_500_000).of(1, 1) == 3
    with pytest.raises(ValueError, match="at least one"):
        Budget(soft=0.5)


def test_budget_nothing_more_is_asked_of_a_model_when_a_lease_ends() -> None:
    machine = Spender()
    machine.refuse()
    machine.refuse()
    assert machine.budget.means is SpendingRestriction.NOTHING
    machine.now += timedelta(seconds=1)
    machine.wake()
    assert machine.finished.reason == "budget_exceeded"


def test_budget_another_pool_says_nothing_of_what_an_attempt_used() -> None:
    machine = Spender()
    request_id = machine.request_id
    machine.wake()
    machine.answer(respond(), attempt=2)
    stranger = facts.DecisionMadeFact(
        run_id=RUN, request_id=request_id, attempt=1, decision=respond(), pool="agent_default_other"
    )
    assert machine.feed(stranger) == []
    assert machine.account()[2].model_calls == 4


def test_budget_a_last_answer_that_waits_for_its_time_is_asked_for_and_used() -> None:
    """A further attempt of a goal backs off first: what it may ask is used up when it is asked, not before."""
    network = snapshot(*goal_machine.AGENTS, tools=goal_machine.TOOLS, force_respond=True)
    machine = Spender(network=network, kind="goal", goal=goal_machine.goal_of("claimed.answer == 'done'"))
    machine.answer(use("edit", text="a"))
    machine.refuse()
    machine.fail()
    assert machine.requests == [] and machine.budget.means is SpendingRestriction.LAST_ANSWER
    machine.wake()
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest) and request.kind == "replan"
    assert machine.budget.means is SpendingRestriction.ANSWERING
    machine.answer(respond({"answer": "done"}))
    assert (machine.finished.status, machine.finished.reason) == ("completed", "criteria_met")


def test_budget_money_refuses_a_model_that_has_no_price() -> None:
    """A limit of money that is set while a run is under way: its next question is refused, and it ends saying why."""
    machine = Spender()
    before = machine.state
    machine.answer(use("echo", text="a"))
    machine.finish()
    (priced, _) = charge_rows(before, machine.state)
    assert priced["unpriced"] == ""
    machine = Spender(prices={})
    machine.answer(use("echo", text="a"))
    before = machine.state
    machine.finish()
    rows = charge_rows(before, machine.state)
    assert {row["unpriced"] for row in rows} == {"scripted:task"} and all(row["usd_micros_asked"] == 0 for row in rows)
    none = {"spent": 0, "reserved": 0, "wanted": 0}
    refusal = BudgetRefusal(scope="day", key="d", unit="usd_micros", limit=10**6, unpriced="scripted:task", **none)
    machine.feed(facts.BudgetRefusedFact(run_id=RUN, refusal=refusal))
    assert machine.budget.means is SpendingRestriction.NOTHING, "less of it has no price either"
    machine.wake()
    assert (machine.finished.status, machine.finished.reason) == ("failed", "price_unknown")
    assert "no price is known of scripted:task" in machine.finished.final["message"]


def test_budget_a_first_question_that_backed_off_names_its_model() -> None:
    network = snapshot(*goal_machine.AGENTS, tools=goal_machine.TOOLS)
    machine = Spender(network=network, kind="goal", goal=goal_machine.goal_of("tests.failed == 0"), prices={})
    machine.answer(use("edit", text="a"))
    machine.fail()
    before = machine.state
    machine.wake()
    assert {row["unpriced"] for row in charge_rows(before, machine.state)} == {"scripted:task"}

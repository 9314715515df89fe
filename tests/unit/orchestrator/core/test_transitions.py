"""What a batch of facts wants sent, where one of them was folded before: what was lost, and what the others want."""

from dataclasses import dataclass

from tests.support.engine.machine import RUN, START, Machine, use, use_all
from tests.unit.engine.handlers.stop_checks.test_budgets import Spender

from towpath_contracts import facts
from towpath_engine.state.run import EffectKind
from towpath_orchestrator.core.transitions import fold_facts


@dataclass
class Incoming:
    fact: facts.AnyFact
    is_repeated: bool = False

    @property
    def text(self) -> str:
        return self.fact.model_dump_json()


def finished(machine: Machine, index: int) -> facts.ToolFinishedFact:
    body = {"run_id": RUN, "execution_id": machine.call_id(index), "status": "succeeded", "result": "ok"}
    return facts.ToolFinishedFact.model_validate(body)


def test_a_decision_is_asked_for_beside_a_fact_that_was_folded_before() -> None:
    machine = Spender()
    machine.answer(use_all(("echo", {}), ("lookup", {})))
    known, new = finished(machine, 0), finished(machine, 1)
    machine.feed(known)
    transition = fold_facts(machine.state, [Incoming(known, is_repeated=True), Incoming(new)], START)
    assert [effect.effect.kind for effect in transition.effects] == [EffectKind.DECIDE]


def test_a_decision_that_may_have_been_asked_for_is_not_asked_for_again_where_it_costs() -> None:
    machine = Spender()
    machine.answer(use("echo"))
    known = finished(machine, 0)
    machine.feed(known)
    assert fold_facts(machine.state, [Incoming(known, is_repeated=True)], START).effects == []


def test_what_was_lost_is_sent_again_once_beside_what_is_new() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {}), ("lookup", {})))
    known = finished(machine, 0)
    machine.feed(known)
    again = Incoming(known, is_repeated=True)
    assert [one.effect.kind for one in fold_facts(machine.state, [again], START).effects] == [EffectKind.TOOL]
    both = fold_facts(machine.state, [again, Incoming(finished(machine, 1))], START)
    assert [one.effect.kind for one in both.effects] == [EffectKind.DECIDE]

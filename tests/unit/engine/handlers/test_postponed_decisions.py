"""A provider that asks for time is waited for by the run: nothing is held for it, and its deadline stands."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.engine.machine import RUN, Machine, respond, types, use
from tests.unit.engine.handlers.stop_checks.test_budgets import Spender

from towpath_contracts import facts
from towpath_contracts.budgets import Amounts
from towpath_contracts.decisions.request import CALL_LOST, CALL_UNASKED, Usage
from towpath_contracts.events import log as ev
from towpath_engine.advance import wake_at
from towpath_engine.requests.effects import resendable_effects
from towpath_readings.nodes import project_nodes

LIMITED = "model_rate_limited"


def test_b14_the_run_asks_again_when_the_provider_said() -> None:
    """Row B14: a run waits for the time that a model's provider asks for."""
    machine = Machine()
    asked = machine.request_id
    assert types(machine.miss(LIMITED, "wait 30 s", retry_after_s=30.5)) == ["decision_postponed"]
    until = machine.now + timedelta(seconds=30.5)
    assert (wake_at(machine.state), machine.sent) == (until, [])
    assert machine.timer(after=30) == []
    assert types(machine.wake()) == ["effect_resent"]
    (request,) = machine.requests
    assert (machine.now, machine.request_id, request.attempt) == (until, asked, 2)
    assert types(machine.decide(respond("late")))[-1] == "run_finished"


def test_b14_what_is_put_off_is_not_sent_again_before_its_time() -> None:
    """Row B14: a run waits for the time that a model's provider asks for."""
    machine = Machine()
    assert len(resendable_effects(machine.state)) == 1
    machine.miss(LIMITED, retry_after_s=30)
    assert resendable_effects(machine.state) == []
    dead = {"run_id": RUN, "stream": "DECIDE", "reason": "bad", "effect_id": machine.request_id, "attempt": 1}
    assert machine.feed(facts.MessageDeadFact.model_validate(dead)) == []
    machine.wake()
    assert len(resendable_effects(machine.state)) == 1


@pytest.mark.parametrize("code", [CALL_LOST, CALL_UNASKED])
def test_b14_what_becomes_of_a_repeated_request_does_not_shorten_the_wait(code: str) -> None:
    """Row B14: a run waits for the time that a model's provider asks for."""
    machine = Machine()
    machine.miss(LIMITED, retry_after_s=30)
    assert machine.miss(code) == []
    assert wake_at(machine.state) == machine.now + timedelta(seconds=30)


def test_a_repeated_word_about_the_same_attempt_counts_once() -> None:
    machine = Machine()
    machine.miss(LIMITED, retry_after_s=30)
    assert machine.miss(LIMITED, retry_after_s=300) == []
    machine.wake()
    assert machine.miss(LIMITED, retry_after_s=300) == []  # attempt 1 again, while attempt 2 is under way


def test_a_late_answer_of_an_attempt_before_is_taken_while_the_run_waits() -> None:
    machine = Machine()
    machine.miss(LIMITED, retry_after_s=30)
    assert types(machine.decide(respond("here")))[-1] == "run_finished"


def test_a_wait_beyond_the_deadline_ends_the_run_at_once() -> None:
    machine = Machine(timeout_ms=60_000)
    events = machine.miss(LIMITED, "come back tomorrow", retry_after_s=61)
    assert types(events) == ["decision_missed", "run_finished"]
    assert machine.finished.reason == LIMITED


def test_a_provider_that_always_names_a_short_time_is_asked_less_and_less_often() -> None:
    machine = Machine(timeout_ms=3_600_000)
    waits = []
    for attempt in range(1, 10):
        told = {"request_id": machine.request_id, "attempt": attempt, "code": LIMITED, "message": "m"}
        machine.feed(facts.DecisionFailedFact.model_validate({"run_id": RUN, "retry_after_s": 0, **told}))
        waits.append((wake_at(machine.state) - machine.now).total_seconds())  # type: ignore[operator]
        machine.wake()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_cancelled_run_does_not_wait_for_its_model() -> None:
    machine = Machine()
    machine.miss(LIMITED, retry_after_s=30)
    assert machine.cancel()
    assert machine.state.is_final


def test_what_an_attempt_used_is_counted_and_the_next_one_reserves_anew() -> None:
    machine = Spender()
    machine.miss(LIMITED, retry_after_s=30, usage=Usage(total_tokens=7, input_tokens=7, model_calls=1))
    assert machine.account()[:2] == (Amounts(), Amounts(usd_micros=7, tokens=7, model_calls=1))
    assert machine.state.usage.total_tokens == 7
    machine.wake()
    (again,) = machine.events(ev.EffectResent)
    assert machine.account()[0] == again.reserved != Amounts()


def test_the_view_of_model_calls_adds_up_the_attempts_and_says_why_there_is_no_answer() -> None:
    machine = Machine()
    machine.miss(LIMITED, "wait", retry_after_s=30, usage=Usage(total_tokens=7, input_tokens=7, model_calls=1))
    (node,) = project_nodes(RUN, machine.entries).nodes
    assert (node.status, node.error, node.usage.total_tokens) == ("running", f"{LIMITED}: wait", 7)
    machine.wake()
    used: dict[str, Any] = {"usage": Usage(total_tokens=5, output_tokens=5, model_calls=1)}
    fact = facts.DecisionMadeFact(
        run_id=RUN, request_id=machine.request_id, attempt=2, decision=use("echo", text="a"), **used
    )
    machine.feed(fact)
    node = project_nodes(RUN, machine.entries).nodes[0]
    assert (node.status, node.error, node.usage.total_tokens, node.usage.model_calls) == ("success", "", 12, 2)

"""Children stay in the bounds of their parents: its time, its end, and what it wants of them."""

from datetime import timedelta
from uuid import UUID

import pytest
from tests.support.engine.machine import RUN, Machine, agent, respond, snapshot, tool, types, use, use_all
from tests.support.engine.plan_machine import PlanRun, ask, block, step

from towpath_contracts import facts
from towpath_contracts.budgets import RunBudgetAccount
from towpath_contracts.events import log as ev
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS, ORCHESTRATE
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.runs.children import AskChildStatus
from towpath_engine.advance import wake_at
from towpath_engine.handlers.children import pending_children
from towpath_engine.handlers.quarantine import quarantine_on_error

PLAN = {"steps": [step("b")]}
REPORT = {"success": True, "steps": [], "bindings": {}, "errors": []}


def child_reports(run: Machine, place: int, status: str, seq: int = 5) -> list[ev.AnyEvent]:
    child = run.state.children[place]
    ended = status not in ("waiting", "running")
    return run.feed(
        facts.ChildReportedFact(
            run_id=RUN, child_id=child.child_id, child_seq=seq, status=status, ended=ended, news=True
        )
    )  # fmt: skip


def stops(run: Machine) -> list[UUID]:
    """The children that the last fact asked to stop."""
    return [e.message.child_id for e in run.sent if isinstance(e.message, AskChildStatus) and e.message.cancel]


def children_of(run: Machine) -> list[UUID]:
    return [child.child_id for child in run.state.children]


def calling(mode: str = "handoff") -> PlanRun:
    """A run of a swarm whose first agent may have a plan carried out."""
    links = {"handoffs": {"a": ("b",), "b": ("a",)}} if mode == "handoff" else {"delegates": ("b",)}
    swarm = CompiledSwarm.model_validate({"mode": mode, "members": ("a", "b"), "stages": (("a",),), **links})
    tools = (BUILT_IN_TOOLS[ORCHESTRATE], tool("echo"))
    first = agent("a", equipped_tools=(ORCHESTRATE, "echo"), allow_respond=True)
    network = snapshot(first, agent("b", allow_respond=True), tools=tools, swarm=swarm, max_steps=100)
    return PlanRun(network=network, swarm={"swarm": swarm}, kind="swarm")


def permit(run: Machine, index: int = 0) -> list[ev.AnyEvent]:
    return run.feed(facts.InternalToolPermittedFact(run_id=RUN, execution_id=run.call_id(index), policy_version=1))


@pytest.mark.parametrize(("status", "final"), [("completed", REPORT), ("failed", {"message": "no"})])
def test_a_plan_beside_another_call_does_not_end_a_handoff_run(status: str, final: dict[str, object]) -> None:
    run = calling()
    run.decide(use_all((ORCHESTRATE, {"plan": PLAN}), ("echo", {"text": "x"})))
    permit(run)
    run.end(final=final, status=status)
    assert (run.state.status, run.state.calls[0].status == "succeeded") == ("running", status == "completed")
    run.finish(1, "x")
    assert run.state.step == 2
    run.decide(respond("done"))
    assert run.finished.final == {"message": "done"}


def test_e11_a_parked_run_tells_its_children_to_stop_until_they_have() -> None:
    run = PlanRun(block(ask("ann"), ask("bob")))
    ann, bob = children_of(run)
    run.feed(facts.ExecutionConflictFact(run_id=RUN, execution_id=RUN, message="the ledger says otherwise"))
    assert (run.state.status, stops(run)) == ("quarantined", [ann, bob])
    run.wake()
    assert stops(run) == [ann, bob], "the first word may have been lost"
    assert types(child_reports(run, 0, "quarantined")) == [], "it takes a cancel, and has an end of its own then"
    assert types(child_reports(run, 0, "cancelled", 6)) == ["child_ended"]
    run.wake()
    assert stops(run) == [bob]
    assert types(child_reports(run, 1, "completed", 7)) == ["child_ended"]
    assert (run.state.status, wake_at(run.state), len(run.children)) == ("quarantined", None, 2)
    run.cancel()
    assert (run.finished.status, pending_children(run.state)) == ("cancelled", [])


def test_e11_a_run_that_is_parked_by_an_error_wakes_to_tell_its_children() -> None:
    run = PlanRun(block(ask("ann"), ask("bob")))
    run.state = quarantine_on_error(run.state, ValueError("broken"), run.now).state
    wanted = wake_at(run.state)
    assert wanted is not None and wanted <= run.now + timedelta(seconds=5)
    again = quarantine_on_error(run.state, ValueError("its children can't report either"), run.now).state
    assert wake_at(again) is None, "a run that is parked anew while it is parked is left alone"


def test_what_the_child_of_a_call_did_is_reported_by_a_parked_run() -> None:
    run = calling()
    run.decide(use(ORCHESTRATE, plan=PLAN))
    permit(run)
    run.feed(facts.ExecutionConflictFact(run_id=RUN, execution_id=RUN, message="the ledger says otherwise"))
    assert types(run.end(final=REPORT)) == ["child_ended", "tool_call_finished"]
    assert run.state.status == "quarantined" and run.state.step == 1
    run.cancel()
    run.fenced()
    assert run.finished.status == "cancelled"
    assert [effect["outcome"] for effect in run.finished.effects] == ["happened"]


def test_e7_a_child_has_no_more_time_than_its_parent_has_left_while_that_waits_for_people() -> None:
    run = PlanRun(block(*[ask("ann")] * 8, max_concurrency=2), timeout_ms=100_000)
    run.now += timedelta(seconds=90)
    child_reports(run, 0, "waiting")
    assert run.state.status == "running"
    child_reports(run, 1, "waiting")
    assert run.state.active_since is None
    run.end(1)
    assert [child.task.timeout_ms for child in run.children] == [100_000, 100_000, 10_000]


def test_e7_nobody_is_started_after_the_deadline() -> None:
    run = PlanRun(block(*[ask("ann")] * 8), timeout_ms=10_000)
    run.now += timedelta(seconds=11)
    made = types(run.end(0))
    assert made[:2] == ["child_ended", "plan_step_ended"] and "child_started" not in made
    assert run.finished.status == "timed_out"
    assert stops(run) == children_of(run)[1:]


def test_e7_no_call_begins_its_child_after_the_deadline() -> None:
    run = calling()
    run.decide(use(ORCHESTRATE, plan=PLAN))
    run.now += timedelta(seconds=301)
    assert "child_started" not in types(permit(run))
    assert run.finished.status == "timed_out"


def warned(run: Machine) -> None:
    """Ask a person whether the run may go on, since its budget comes to an end."""
    scopes = (RunBudgetAccount(scope="project", key="default"),)
    run.feed(facts.BudgetAccountsAppliedFact(run_id=RUN, scopes=scopes, prices={}))
    fields = {"scope": "project", "key": "k", "unit": "tokens", "limit": 1000, "spent": 800, "on_soft": "gate"}
    run.feed(facts.BudgetWarnedFact.model_validate({"run_id": RUN, **fields}))


@pytest.mark.parametrize("settled_after", [1, 2])
def test_nobody_is_started_while_a_person_is_asked_and_all_others_after(settled_after: int) -> None:
    run = PlanRun(block(*[ask("ann")] * 4, max_concurrency=2))
    warned(run)
    for place in range(settled_after):
        assert "child_started" not in types(run.end(place))
    run.resolve("approved")
    while not run.state.is_final:
        run.end(next(place for place, child in enumerate(run.state.children) if not child.ended))
    assert (run.finished.status, len(run.children)) == ("completed", 4)


def late(run: Machine, seconds: float) -> None:
    """Let the run ask after a child that waits for people until it does so seldom."""
    for _ in range(9):
        run.wake()
    assert all(p.resend_at - run.now >= timedelta(seconds=seconds) for p in pending_children(run.state))


def test_e11_a_stop_that_was_lost_is_repeated_soon() -> None:
    run = PlanRun(block(ask("ann"), ask("bob"), merge_strategy="fail_fast"), timeout_ms=3_600_000)
    child_reports(run, 1, "waiting")
    child_reports(run, 0, "waiting")
    late(run, 10)
    run.end(0, status="failed")
    bob = children_of(run)[1]
    assert stops(run) == [bob]
    for within in (5, 15, 15):
        before = run.now
        run.wake()
        assert stops(run) == [bob] and run.now - before <= timedelta(seconds=within)


def test_e11_a_stop_at_the_end_that_was_lost_is_repeated_soon() -> None:
    run = PlanRun(block(ask("ann"), ask("bob")), timeout_ms=3_600_000)
    child_reports(run, 0, "waiting")
    child_reports(run, 1, "waiting")
    warned(run)
    late(run, 10)
    run.resolve("stop")
    assert run.finished.status == "escalated" and stops(run) == children_of(run)
    run.timer(after=5)
    assert stops(run) == children_of(run)


def test_e11_a_cancel_that_was_lost_is_repeated_soon() -> None:
    run = PlanRun(block(ask("ann"), ask("bob")), timeout_ms=3_600_000)
    child_reports(run, 0, "waiting")
    child_reports(run, 1, "waiting")
    late(run, 10)
    run.cancel()
    run.fenced()
    for within in (5, 15, 15):
        before = run.now
        while True:
            run.wake()
            if stops(run):
                break
        assert stops(run) == children_of(run) and run.now - before <= timedelta(seconds=within)

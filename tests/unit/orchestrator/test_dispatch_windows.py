"""Whose request is next, and how many are on their way: turns, widths, and windows that hold back."""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from prometheus_client import CollectorRegistry
from tests.support.engine.machine import START, Machine, respond, snapshot, task, use_all
from tests.support.engine.team_machine import TeamLeadRun, asks

from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.facts import CancelRequestedFact, DecisionMadeFact, RunAdmittedFact
from towpath_engine.advance import advance
from towpath_engine.replay import create
from towpath_engine.requests.effects import OutgoingEffect
from towpath_engine.state.run import RunState
from towpath_fabric.turns.fair_queue import FairQueue, QueueOwner
from towpath_orchestrator.app.dispatch import dispatch_windows as windows_module
from towpath_orchestrator.app.dispatch.dispatch_windows import Backlog, WindowedDispatcher
from towpath_orchestrator.core.dispatch_choice import destination_of, destination_of_request, owner_of
from towpath_orchestrator.core.window_policy import CEILING, FLOOR, PROMPT_S, WindowWidth
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings


def test_a_call_that_reads_an_output_has_a_destination_though_no_network_names_its_tool() -> None:
    machine = Machine()
    machine.decide(use_all(("output_read", {"execution_id": str(uuid4())})))
    (pending,) = (one for one in machine.state.pending if one.effect_id == machine.call_id())
    sent = next(one for one in machine.sent if one.effect.effect_id == machine.call_id())
    assert destination_of(machine.state, pending) == destination_of_request(sent)


def put(turns: FairQueue[str], item: str, *, now: float = 0.0, priority: int = 5, project: str = "") -> UUID:
    """Let *item*, which begins with its caller and its run, wait."""
    key = uuid4()
    owner = QueueOwner(caller=item[0], root=UUID(int=int(item[1])), priority=priority, project=project)
    turns.put(key, item, owner, now)
    return key


def order(turns: FairQueue[str], now: float = 0.0) -> list[str]:
    return [turns.next(now) for _ in range(len(turns))]


def test_callers_take_turns_and_of_one_caller_its_runs() -> None:
    turns: FairQueue[str] = FairQueue()
    for item in ("A1a", "A1b", "A1c", "A2a", "B1a", "B1b", "C1a"):
        put(turns, item)
    assert order(turns) == ["A1a", "B1a", "C1a", "A2a", "B1b", "A1b", "A1c"]
    assert len(turns) == 0
    with pytest.raises(LookupError):
        turns.next(0.0)


def test_a_request_takes_the_turn_of_its_project_and_caller() -> None:
    machine = Machine()
    task = machine.state.created
    owner = owner_of(machine.state)
    assert (owner.project, owner.caller, owner.root) == (task.project, task.caller, machine.state.run_id)


def test_projects_take_turns_however_many_callers_one_of_them_has() -> None:
    """A project with three callers, each with two items, beside another with a single one: it has every second turn."""
    turns: FairQueue[str] = FairQueue()
    for item in ("A1a", "A1b", "B1a", "B1b", "C1a", "C1b"):
        put(turns, item, project="many")
    for item in ("X1a", "X1b", "X2a"):
        put(turns, item, project="one")
    assert order(turns) == ["A1a", "X1a", "B1a", "X2a", "C1a", "X1b", "A1b", "B1b", "C1b"]


def test_who_is_left_out_keeps_the_turn_of_the_project_too() -> None:
    turns: FairQueue[str] = FairQueue()
    put(turns, "A1a", project="first")
    put(turns, "B1a", project="first")
    put(turns, "C1a", project="second")
    assert turns.next(0.0, {"A"}) == "B1a"
    assert turns.next(0.0, {"A"}) == "C1a"
    assert turns.holds("A")
    assert not turns.holds("C")
    assert order(turns) == ["A1a"]


def test_a_higher_priority_of_a_caller_goes_first_until_a_lower_one_has_waited() -> None:
    turns: FairQueue[str] = FairQueue(ageing_s=30)
    put(turns, "A1low", now=0.0, priority=2)
    put(turns, "A2high", now=100.0, priority=6)
    put(turns, "B1", now=100.0, priority=0)
    assert order(turns, 119.0) == ["A2high", "B1", "A1low"]
    put(turns, "A1low", now=0.0, priority=2)
    put(turns, "A2high", now=100.0, priority=5)
    assert order(turns, 119.0) == ["A1low", "A2high"]


def test_what_is_put_again_keeps_its_place_and_what_is_dropped_is_gone() -> None:
    turns: FairQueue[str] = FairQueue()
    first, second = put(turns, "A1a"), put(turns, "A1b")
    put(turns, "A1c")
    turns.put(first, "A1newer", QueueOwner(caller="A", root=UUID(int=1)), 9.0)
    assert turns.drop(second) == "A1b"
    assert turns.drop(second) is None
    assert turns.get(first) == "A1newer"
    assert first in turns
    assert second not in turns
    assert order(turns) == ["A1newer", "A1c"]


def test_every_caller_is_served_within_as_many_turns_as_there_are_callers() -> None:
    """Whatever is put in between, with any priorities: nobody waits for more than one turn of each other caller."""
    chance = random.Random(7)
    turns: FairQueue[str] = FairQueue()
    last: dict[str, int] = {}
    waiting: Counter[str] = Counter()
    for turn in range(4_000):
        for caller in "ABCDE":
            if chance.random() < (0.9 if caller == "A" else 0.3):
                put(turns, f"{caller}{chance.randrange(4)}", now=turn, priority=chance.randrange(11))
                waiting[caller] += 1
                last.setdefault(caller, turn)
        if len(turns):
            caller = turns.next(turn)[0]
            waiting[caller] -= 1
            assert turn - last.pop(caller) <= 5
            if waiting[caller]:
                last[caller] = turn
    assert waiting == Counter(item[0] for item in turns.items())


def served(
    width: WindowWidth, rate_of: "dict[int, float] | None", slots: int, answer_s: float, turns: int
) -> list[int]:
    """Let as many messages be on their way as *width* says, where *slots* are answered at once; returns its sizes.

    *rate_of* None: each of those takes *answer_s*. Else answers come so many a second in all, however many there are.
    """
    now, sizes = 0.0, []
    for _ in range(turns):
        busy = min(width.size, slots)
        rate = busy / answer_s if rate_of is None else rate_of[0]
        for _ in range(busy):
            now += 1 / rate
            width.ended(now)
        width.look(now, width.size - busy)
        sizes.append(width.size)
    return sizes


def test_a_window_grows_as_long_as_answers_come_faster() -> None:
    """200 calls of a model at once, 2 s each: all of them are used; and a few that wait at the broker are enough."""
    sizes = served(WindowWidth(64), None, slots=200, answer_s=2.0, turns=60)
    assert min(sizes[20:]) >= 130
    assert max(sizes) <= 2 * 200
    assert served(WindowWidth(64), None, slots=10_000, answer_s=2.0, turns=60)[-1] >= CEILING * 2 // 3


def test_a_window_shrinks_to_what_makes_no_difference() -> None:
    """A processor that answers so many a second, however many are asked at once: few have to wait for it."""
    sizes = served(WindowWidth(64), {0: 100.0}, slots=64, answer_s=0.0, turns=60)
    assert sizes[-1] <= 2 * FLOOR
    assert sum(size > 4 * FLOOR for size in sizes[20:]) <= 4


@pytest.mark.parametrize("begin", [FLOOR, 16, 64])
def test_what_is_answered_in_a_moment_may_be_on_its_way(begin: int) -> None:
    """Else windows that were narrow once keep batches small, and small batches keep answers slow."""
    sizes = served(WindowWidth(begin), {0: 1_000.0}, slots=1_000, answer_s=0.0, turns=60)
    prompt = int(1_000 * PROMPT_S)
    assert min(sizes[10:]) >= prompt - 1
    assert sum(size > 2 * prompt for size in sizes[20:]) <= 4


def test_what_waits_at_the_broker_is_taken_back() -> None:
    width = WindowWidth(64)
    assert width.look(0.0, 40) == -32
    assert width.look(0.1, 200) == -(32 - FLOOR)
    assert width.look(0.2, 200) == 0, "never less than the floor"
    assert width.look(0.3, None) == 0, "nothing is known, nothing changes"


class Sent:
    """Windows of *size*, and what they let through."""

    def __init__(self, size: int, backlog: Backlog | None = None) -> None:
        self.effects: list[OutgoingEffect] = []
        settings = OrchestratorSettings().model_copy(update={"message_window": size})
        self.windows = WindowedDispatcher(self._send, settings, OrchestratorMetrics(CollectorRegistry()), backlog)

    async def _send(self, effect: OutgoingEffect) -> None:
        self.effects.append(effect)


def waiting(caller: str, run: int) -> tuple[RunState, OutgoingEffect]:
    """A run of *caller* that waits for its first decision."""
    network = snapshot()
    state, _ = create(UUID(int=run), network, task(network, caller=caller), START)
    _, (effect,), state = advance(state, RunAdmittedFact(run_id=state.run_id), START)
    return state, effect


def ended(state: RunState) -> RunState:
    """That run after its answer."""
    made = DecisionMadeFact(run_id=state.run_id, request_id=state.pending[0].effect_id, attempt=1, decision=respond())
    return advance(state, made, START)[2]


def cancelled(state: RunState) -> RunState:
    return advance(state, CancelRequestedFact(run_id=state.run_id, by="me"), START)[2]


async def test_a_full_window_lets_callers_in_by_turn_and_never_sends_twice() -> None:
    sent = Sent(2)
    runs = [waiting("flood", number) for number in range(1, 7)] + [waiting("other", 7)]
    for state, effect in runs:
        await sent.windows.offer(effect, state)
        await sent.windows.offer(effect, state)  # as a reconnect says everything again
    assert Counter(e.effect.effect_id for e in sent.effects) == {
        runs[0][1].effect.effect_id: 2,  # what was sent may be said again
        runs[1][1].effect.effect_id: 2,
    }
    assert len(sent.windows.held()) == 5
    assert (sent.windows.holds("flood"), sent.windows.holds("other"), sent.windows.holds("me")) == (True, True, False)
    for state, _ in runs[:2]:
        sent.windows.settle(state, ended(state))
        await sent.windows.pump()
    callers = [e.message.run_id for e in sent.effects[4:]]
    assert callers == [UUID(int=3), UUID(int=7)], "the other caller's turn comes second, not last"


async def test_a_run_that_ends_while_its_request_waits_leaves_the_queue() -> None:
    sent = Sent(1)
    first, second, third = (waiting("me", number) for number in (1, 2, 3))
    for state, effect in (first, second, third):
        await sent.windows.offer(effect, state)
    sent.windows.settle(second[0], cancelled(second[0]))
    assert [held.effect.message.run_id for held in sent.windows.held()] == [UUID(int=3)]
    sent.windows.settle(first[0], ended(first[0]))
    await sent.windows.pump()
    assert [e.message.run_id for e in sent.effects] == [UUID(int=1), UUID(int=3)]


async def test_a_call_whose_child_runs_keeps_nobody_busy() -> None:
    """However many leads wait for their members, those may ask for the same tool: nothing waits for itself."""
    sent, lead = Sent(1), TeamLeadRun()
    lead.decide(asks("ann", "ann", "ann"))
    for effect in lead.sent:
        await sent.windows.offer(effect, lead.state)
    for move, count in ((lambda: lead.permit(0), 2), (lead.end, 2), (lambda: lead.permit(1), 3)):
        before = lead.state
        move()
        sent.windows.settle(before, lead.state)
        await sent.windows.pump()
        assert len(sent.effects) == count, "what was given back once is not given back again"


def of_model(effect: OutgoingEffect, number: int) -> OutgoingEffect:
    """Another request like that one, to a model by number."""
    assert isinstance(effect.message, DecisionRequest)
    message = effect.message.model_copy(update={"model": f"local:m{number}"})
    return replace(effect, effect=replace(effect.effect, effect_id=uuid4()), message=message)


async def test_windows_that_are_in_use_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of models are made up by whoever likes: a new one does not open another's window anew."""
    monkeypatch.setattr(windows_module, "DESTINATIONS_KEPT", 2)
    sent = Sent(1)
    state, effect = waiting("me", 1)
    for number in (1, 2, 3, 4, 1, 2):
        await sent.windows.offer(of_model(effect, number), state)
    assert len(sent.effects) == 4
    assert len(sent.windows.held()) == 2


async def test_a_place_that_is_forgotten_while_the_broker_is_asked_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the broker says what waits there runs end, and others ask more models than are remembered."""
    monkeypatch.setattr(windows_module, "DESTINATIONS_KEPT", 4)
    monkeypatch.setattr(windows_module, "FORGET_S", 0.0)
    state, effect = waiting("me", 1)
    asked = asyncio.Semaphore(0)

    async def more(_stream: str, _durable: str) -> int:
        for held in sent.windows.held():
            sent.windows.drop(held.effect.effect.effect_id)
        for number in range(10, 18):
            await sent.windows.offer(of_model(effect, number), state)
        asked.release()
        return 0

    sent = Sent(1, more)
    looking = asyncio.create_task(sent.windows.run())
    for _ in range(2):
        for number in (1, 1, 2, 2):
            await sent.windows.offer(of_model(effect, number), state)
        asking = asyncio.create_task(asked.acquire())
        done, _ = await asyncio.wait({looking, asking}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        assert done == {asking}
        assert not looking.done()
    looking.cancel()

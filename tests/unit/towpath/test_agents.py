"""Agents in user code: who may answer what, and what becomes of anything that a person's code can do."""

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.support.decider.decisions import RUN, context, request
from tests.support.engine.machine import RUN as MACHINE_RUN
from tests.support.engine.machine import Machine, respond
from tests.support.places import ROOT
from tests.support.waiting import eventually

from towpath import AgentError, AgentRequest, BaseAgent, user_code
from towpath.agents import operations
from towpath.agents.usage_counter import UsageCounter
from towpath.errors import DeclarationError
from towpath.user_code import UserCodeThreads
from towpath_agent.app import agent_answers, agent_server
from towpath_agent.app.agent_answers import AgentAnswerFailure, request_answer
from towpath_agent.app.agent_server import AgentServer, AgentServerOptions
from towpath_agent.wiring import find_agent
from towpath_contracts import facts, subjects
from towpath_contracts.authority import agent_rights
from towpath_contracts.decisions.request import Cost, DecisionKind, OfferedRoute, Usage
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact, fact_adapter
from towpath_fabric.nats.bus import Bus
from towpath_fabric.request_loop import PlatformUnavailableError
from towpath_fabric.settings import Settings
from towpath_orchestrator.core.inbox_messages import MAX_COUNT, MAX_REASON, ParsedInboxMessage, read_inbox_message

LOG = structlog.wrap_logger(logging.getLogger("agents"), wrapper_class=structlog.stdlib.BoundLogger)
CRITIC = subjects.agent_pool("default", "critic")


def made(**changes: Any) -> dict[str, Any]:
    body = {"type": "decision.made", "run_id": str(RUN), "request_id": str(RUN), "attempt": 1, "decision": respond("x")}
    return {**body, **changes}


def parsed(subject: str, body: dict[str, Any]) -> ParsedInboxMessage:
    return read_inbox_message(subject, json.dumps(body).encode())


def test_a_pool_is_of_one_agent_in_one_project_and_of_no_decider() -> None:
    assert subjects.pool_of("agent:critic", "shop") == "agent_shop=critic"
    assert subjects.agent_of_pool("agent_shop=critic") == ("shop", "critic")
    for model in ("gemini:agent_shop=critic", "scripted:task", "agent:", "agent:a b", "agent:a.b", "agent:a=b"):
        assert subjects.pool_of(model, "shop") == subjects.DEFAULT_POOL
    assert subjects.agent_of_pool("default") is None and subjects.agent_of_pool("agent_shop") is None
    rights = agent_rights("u", "shop", "critic")
    assert [one for one in rights.publish if one.startswith("run.")] == ["run.inbox.agent.agent_shop=critic.*"]
    with pytest.raises(ValueError, match="one agent of one project"):
        agent_rights("u", "shop")


def test_who_answers_stands_in_the_subject_and_never_in_the_fact() -> None:
    lie = made(model="gemini:x", pool="agent_default=poet", script={"queue": "*", "index": 3})
    item = parsed(subjects.agent_inbox(CRITIC, RUN), lie)
    assert item.fact is not None and isinstance(item.fact, DecisionMadeFact)
    assert (item.fact.pool, item.fact.model, item.fact.script) == (CRITIC, "agent:critic", None)
    assert fact_adapter.validate_json(item.text) == item.fact, "what is stored is what was believed"
    assert parsed(f"run.inbox.decider.{RUN}", lie).reason == "decider may not answer for agent_default=poet"


@pytest.mark.parametrize(
    "subject",
    [
        f"run.inbox.agent.{RUN}",
        f"run.inbox.agent.default.{RUN}",
        f"run.inbox.agent.agent_a.{RUN}",
        f"run.inbox.decider.{CRITIC}.{RUN}",
        f"run.inbox.{CRITIC}.{RUN}",
        "run.inbox.agent",
        f"run.inbox.agent.{CRITIC}.{RUN}.x",
    ],
)
def test_a_fact_on_no_place_of_an_agent_is_set_aside(subject: str) -> None:
    assert parsed(subject, made()).fact is None


def test_an_agent_says_decisions_alone_and_lowers_no_sum() -> None:
    tool = {"type": "tool.finished", "run_id": str(RUN), "execution_id": str(RUN), "status": "succeeded"}
    assert parsed(subjects.agent_inbox(CRITIC, RUN), tool).reason == "agent may not send tool.finished"
    usage, cost = {"input_tokens": -5, "output_tokens": 7}, {"usd": -1.0, "price_known": True}
    fact = _fact_of(made(usage=usage, cost=cost, duration_ms=-3))
    assert (fact.usage, fact.cost.usd, fact.cost.price_known) == (Usage(output_tokens=7), None, False)
    assert fact.duration_ms == 0
    priced = read_inbox_message(
        subjects.agent_inbox(CRITIC, RUN),
        json.dumps(made(usage=usage, cost=cost)).encode(),
        lambda model, used: Cost(usd=float(used.output_tokens), price_known=True, price_source=model),
    ).fact
    assert isinstance(priced, DecisionMadeFact)
    assert priced.cost == Cost(usd=7.0, price_known=True, price_source="agent:critic"), "what it does not know itself"
    fact = _fact_of(made(usage={"total_tokens": 10**30}, cost={"usd": 1e300, "price_known": True}))
    assert (fact.usage.total_tokens, fact.cost.usd) == (MAX_COUNT, None)
    failed = _fact_of({**made(), "type": "decision.failed", "code": "c" * 999, "message": "m" * 9_999})
    assert isinstance(failed, DecisionFailedFact) and (len(failed.code), len(failed.message)) == (128, MAX_REASON)
    strange = _fact_of(made(decision={"action": "RESPOND", "x": float("nan")}))
    assert isinstance(strange, DecisionFailedFact) and strange.code == "invalid_output" and strange.pool == CRITIC


def _fact_of(body: dict[str, Any]) -> DecisionMadeFact | DecisionFailedFact:
    item = parsed(subjects.agent_inbox(CRITIC, RUN), body)
    assert item.fact is not None
    return cast("DecisionMadeFact | DecisionFailedFact", item.fact)


@pytest.mark.parametrize(
    ("model", "pool", "believed"),
    [
        ("agent:critic", "agent_default=critic", True),
        ("agent:critic", "agent_default=poet", False),
        ("agent:critic", "agent_shop=critic", False),
        ("agent:critic", "", False),
        ("scripted:task", "agent_default=critic", False),
        ("scripted:task", "", True),
    ],
)
def test_a_run_believes_only_who_was_asked(model: str, pool: str, believed: bool) -> None:
    machine = Machine(model=model)
    known = {"run_id": MACHINE_RUN, "request_id": machine.request_id, "attempt": 1, "pool": pool}
    answers: list[facts.AnyFact] = [DecisionMadeFact(decision=respond("x"), **known)]
    answers.append(DecisionFailedFact(code="agent_failed", message="m", **known))
    for answer in answers:
        assert bool(Machine(model=model).feed(answer)) is believed


class Odd(BaseAgent):
    """Does what its `plan` is set to."""

    name = "odd"

    def __init__(self, *says: Any) -> None:
        self.says = list(says)

    async def plan(self, request: AgentRequest) -> Any:
        found = self.says.pop(0)
        if isinstance(found, BaseException):
            raise found
        return await found if asyncio.iscoroutine(found) else found


async def answer(*says: Any, **changes: Any) -> Any:
    return await request_answer(Odd(*says), AgentRequest(request(model="agent:odd", **changes)), LOG)


async def test_c10_whatever_user_code_does_is_one_answer_or_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """C10: exceptions are failures with a stable code, retryable or not; what is no decision is `invalid_output`."""
    monkeypatch.setattr(agent_answers, "WAITS_S", (0.0, 0.0))
    assert await answer({"action": "RESPOND", "action_details": {"payload": {"m": 1}}}) == {
        "action": "RESPOND",
        "action_details": {"payload": {"m": 1}},
    }
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    round_trip: dict[str, Any] = {}
    round_trip["self"] = round_trip
    for nonsense in (
        None,
        "RESPOND",
        7,
        {},
        {"action": "DANCE"},
        object(),
        {"a": deep},
        round_trip,
        {"a": {1, object()}},
    ):
        answered = await answer(nonsense)
        assert isinstance(answered, AgentAnswerFailure) and answered.code == "invalid_output", nonsense
    large = {"action": "RESPOND", "action_details": {"payload": {"m": "x" * agent_answers.ANSWER_BYTES}}}
    assert (await answer(large)).code == "invalid_output"
    for error in (RuntimeError("r"), SystemExit(3), StopIteration(), asyncio.CancelledError(), KeyError("k")):
        assert (await answer(error)).code == "agent_failed"
    assert await answer(AgentError("no_light", "dark")) == AgentAnswerFailure("no_light", "dark")
    again = (AgentError("busy", retryable=True), operations.respond("late"))
    assert (await answer(*again))["action"] == "RESPOND"
    three = await answer(*[AgentError("busy", retryable=True)] * 3)
    assert three == AgentAnswerFailure("busy", "busy", retryable=True)
    assert (await answer(asyncio.sleep(9), timeout_ms=10)).code == "model_timeout"


async def test_a_plain_method_that_never_ends_holds_nobody_up() -> None:
    free = threading.Event()

    class Stuck(Odd):
        def plan(self, request: AgentRequest) -> Any:  # type: ignore[override] - plain on purpose
            free.wait(60)

    asked = AgentRequest(request(model="agent:odd", timeout_ms=10))
    stuck = await asyncio.gather(*(request_answer(Stuck(), asked, LOG) for _ in range(40)))
    assert {one.code for one in stuck if isinstance(one, AgentAnswerFailure)} == {"model_timeout"}
    assert all(one.daemon for one in threading.enumerate() if one.name == "agent plan"), "nor the process's end"
    free.set()


async def test_too_many_plain_methods_that_hang_make_the_process_unready_until_they_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No thread is left behind for every further request; what comes meanwhile is handed back for another process."""
    free, threads = threading.Event(), UserCodeThreads(most=3)
    monkeypatch.setattr(user_code, "PROCESS_THREADS", threads)
    monkeypatch.setattr(agent_server, "PROCESS_THREADS", threads)

    class Stuck(Odd):
        def plan(self, request: AgentRequest) -> Any:  # type: ignore[override] - plain on purpose
            free.wait(60)

    served = AgentServer(
        Bus("agent", Settings.load()),
        Stuck(),
        options=AgentServerOptions(worker="w"),
        log=LOG,
        registry=CollectorRegistry(),
    )
    served._declared = True
    asked = request(model="agent:odd", timeout_ms=10)
    for _ in range(3):
        await served.ready()
        assert isinstance((await served.answer(asked)).fact, DecisionFailedFact)
    for _ in range(5):
        with pytest.raises(PlatformUnavailableError, match="3 calls of plain methods hang"):
            await served.answer(asked)
    with pytest.raises(RuntimeError, match="hang"):
        await served.ready()
    assert threads.abandoned == 3
    free.set()
    await eventually(lambda: threads.abandoned == 0)
    await served.ready()


async def test_b5_the_answer_of_an_agent_is_held_against_its_schema() -> None:
    """Row B5: structured output validated against a schema, whoever wrote it."""
    wanted = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    typed = context(respond_schema=wanted)
    assert await answer(respond({"score": 7}), context=typed) == respond({"score": 7})
    failure = await answer(respond({"score": "7"}), context=typed)
    assert isinstance(failure, AgentAnswerFailure)
    assert failure.code == "invalid_output"
    assert "$.score: '7' is not of type 'integer'" in failure.message
    swarm = context(run_kind="swarm", routes=(OfferedRoute(agent_key="expert"),), respond_schema=wanted)
    assert await answer(respond("expert"), context=swarm) == respond("expert"), "it hands over"


async def test_a_cancelled_answer_is_cancelled() -> None:
    task = asyncio.create_task(answer(asyncio.sleep(9)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_c10_every_kind_of_request_has_a_method_and_a_careful_default() -> None:
    """C10: plan, replan, validate, evaluate progress and confidence (reflect, summarize): only plan must be written."""
    seen = {kind: await answer(operations.respond("x"), kind=kind) for kind in DecisionKind}
    assert seen[DecisionKind.REPLAN] == seen[DecisionKind.DECIDE]
    assert seen[DecisionKind.VALIDATE]["criteria"] == [], "what nobody judged is not met"
    assert seen[DecisionKind.PROGRESS]["progress"] is None
    assert seen[DecisionKind.CONFIDENCE]["confidence"] == 1.0
    assert seen[DecisionKind.REFLECT]["verdict"] == "continue"
    assert seen[DecisionKind.SUMMARIZE]["summary"] and seen[DecisionKind.SUMMARIZE]["deliverable"] is None


async def test_d2_the_deliverable_factory_runs_once_and_its_failure_is_the_answer() -> None:
    """D2: deliverable factory (in the SDK, run once; failure = failed run)."""
    calls: list[int] = []

    class Maker(Odd):
        async def deliverable(self, request: AgentRequest) -> dict[str, Any]:
            calls.append(1)
            if request.step == 2:
                raise RuntimeError("no paper")
            return {"pages": 3}

    asked = request(model="agent:odd", kind=DecisionKind.SUMMARIZE)
    assert (await request_answer(Maker(), AgentRequest(asked), LOG))["deliverable"] == {"pages": 3}  # type: ignore[index]
    failed = await request_answer(Maker(), AgentRequest(asked.model_copy(update={"step": 2})), LOG)
    assert failed == AgentAnswerFailure(
        "deliverable_failed", "the deliverable could not be made: RuntimeError: no paper"
    )
    assert len(calls) == 2


async def test_d2_a_function_is_a_factory_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "makers.py"
    file.write_text(
        "from towpath.agents.factory import deliverable_factory\n"
        "@deliverable_factory('maker')\ndef make(request):\n    return {'steps': request.step}\n"
    )
    agent, _ = find_agent(f"{file}:make")
    assert agent.name == "maker"
    asked = request(model="agent:maker", kind=DecisionKind.SUMMARIZE)
    answered = await request_answer(agent, AgentRequest(asked), LOG)
    assert not isinstance(answered, AgentAnswerFailure) and answered["deliverable"] == {"steps": 1}
    refused = await request_answer(agent, AgentRequest(request(model="agent:maker")), LOG)
    assert isinstance(refused, AgentAnswerFailure) and refused.code == "factory_only"


async def test_the_agent_of_the_docs_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "agents.md").read_text("utf-8")
    file = tmp_path / "docs_agents.py"
    file.write_text(text.partition("```python\n")[2].partition("```")[0])
    agent, _ = find_agent(f"{file}:Greeter")
    answered = await request_answer(agent, AgentRequest(request(model="agent:greeter")), LOG)
    assert not isinstance(answered, AgentAnswerFailure) and answered["action_details"]["tool_name"] == "crm.lookup"


async def test_what_the_platform_can_do_is_a_decision_of_its_own_kind_of_run() -> None:
    moves = [
        operations.execute_tool("crm.lookup", customer="ada"),
        operations.execute_tools([("a", {"n": 1}), ("b", {})]),
        operations.route("billing", context={"why": 1}),
        operations.respond("done"),
    ]
    gate = operations.create_gate("May I?", boats=3)
    checked = operations.evaluate_confidence(moves[0], 0.4)
    for move in moves:
        assert (await answer(move))["action"] == move.action
    for move in (gate, checked, operations.abandon("no way")):
        assert (await answer(move)).code == "invalid_output", "a network run knows neither gates nor doubts"
        answered = await answer(move, context=context(run_kind="goal"))
        assert answered["action"] == move.action
    assert answered == {"action": "ABANDON", "action_details": {"rationale": "no way"}}
    sure = await answer(checked, context=context(run_kind="goal"))
    assert (sure["request_confidence"], sure["confidence"]) == (True, 0.4)


async def test_an_unknown_price_is_unknown_and_nothing_is_earned() -> None:
    usage_counter = UsageCounter()
    assert (usage_counter.usage(), usage_counter.cost().usd, usage_counter.cost().price_known) == (Usage(), 0, True)
    usage_counter.begin("local:a").used(input_tokens=3, output_tokens=4, usd=0.5)
    assert (usage_counter.usage().total_tokens, usage_counter.usage().model_calls, usage_counter.cost().usd) == (
        7,
        1,
        0.5,
    )
    call = usage_counter.begin("local:b")
    assert usage_counter.cost() == Cost(usd=None, price_known=False, price_source="agent")
    for wrong in ({"input_tokens": -1}, {"usd": -0.1}, {"usd": float("nan")}, {"usd": float("inf")}):
        with pytest.raises(ValueError, match="never below 0"):
            call.used(**wrong)
    call.used(usd=0.1)
    assert usage_counter.usage().total_tokens == 7, "what was not counted is not there"


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("nothing", "is not MODULE:CLASS"),
        ("json:JSONEncoder", "no subclass of BaseAgent"),
        ("towpath:BaseAgent", "does not say how to plan"),
        ("no_such_module:Agent", "there is no module"),
    ],
)
def test_what_can_not_be_served_is_reported_at_the_start(
    target: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing is imported where others may write
    with pytest.raises(DeclarationError, match=why):
        find_agent(target)


def test_a_fact_of_a_decider_is_written_as_it_always_was() -> None:
    fact = DecisionMadeFact(run_id=RUN, request_id=RUN, attempt=1, decision={})
    assert "pool" not in json.loads(fact.model_dump_json())

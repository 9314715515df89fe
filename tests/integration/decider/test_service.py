"""The decider over real NATS: requests in, facts out, and what happens when something in between dies."""

import base64
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg
from tests.support.decider.decision_requests import (
    POOL,
    OrchestratorPeer,
    all_acknowledged,
    delivered,
    eventually,
    shorten_ack_wait,
)
from tests.support.decider.decisions import RESPOND, USE_TOOL, as_text, context, numbered, request
from tests.support.decider.gemini_server import gemini, says
from tests.support.decider.model_servers import Local
from tests.support.service_process import ServiceProcess, service_process
from tests.support.waiting import all_sent

from towpath_contracts import subjects
from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.request import (
    LlmCallLog,
    RenderPromptAnswer,
    RenderPromptRequest,
    ScriptPosition,
    TokenDelta,
)
from towpath_contracts.facts import CancelRequestedFact, DecisionFailedFact, DecisionMadeFact
from towpath_contracts.problems.registry import Problem
from towpath_contracts.rpc import BLOB_GET_RUNS, DEAD_LETTER_RUNS, PROBLEM_HEADER, RENDER_PROMPT
from towpath_contracts.streams import decide_consumer
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.streams import ensure_streams


@pytest.fixture
async def orchestrator(nats_server: Nats) -> AsyncIterator[OrchestratorPeer]:
    nc = await nats.connect(nats_server.url())
    await ensure_streams(nc, (decide_consumer(POOL),))
    orchestrator = OrchestratorPeer(nc)
    await nc.subscribe(subjects.RUN_INBOX_ALL, cb=orchestrator.on_fact)
    await nc.subscribe(BLOB_GET_RUNS.subject, cb=orchestrator.on_blob_get)
    await nc.subscribe(DEAD_LETTER_RUNS.subject, cb=orchestrator.on_dead)
    yield orchestrator
    await nc.close()


@pytest.fixture
async def decider(nats_server: Nats, folder: Path, orchestrator: OrchestratorPeer) -> AsyncIterator[ServiceProcess]:
    with service_process("decider", folder, nats_server.url(), allow_scripts="1", script_dir=str(folder)) as process:
        await process.wait_ready()
        yield process


async def test_a_scripted_request_becomes_a_fact_and_is_acknowledged(
    orchestrator: OrchestratorPeer, decider: ServiceProcess
) -> None:
    wanted = request(script=orchestrator.script([USE_TOOL, RESPOND]))
    await orchestrator.ask(wanted)
    (fact,) = await orchestrator.until(1)
    assert isinstance(fact, DecisionMadeFact)
    assert fact.decision == USE_TOOL
    assert (fact.run_id, fact.request_id, fact.attempt) == (wanted.run_id, wanted.request_id, 1)
    assert fact.script is not None
    assert (fact.script.queue, fact.script.index) == ("*", 0)
    assert (fact.cost.usd, fact.cost.price_known, fact.cost.price_source) == (0.0, True, "scripted")
    assert fact.raw_digest == digest_text(as_text(USE_TOOL).replace(": ", ":").replace(", ", ","))
    (message_id,) = orchestrator.message_ids
    assert message_id.startswith(f"{wanted.request_id}:1:")
    await all_acknowledged(orchestrator)
    assert 'towpath_decisions_total{provider="scripted",result="made"} 1.0' in await decider.metrics()
    assert 'towpath_model_tokens_total{kind="output",provider="scripted"} ' in await decider.metrics()


async def test_an_answer_is_kept_though_somebody_stored_a_message_under_every_id_that_can_be_guessed(
    orchestrator: OrchestratorPeer, decider: ServiceProcess
) -> None:
    """An agent's credential may write to the inbox of any run, and the broker keeps one message of each id."""
    wanted = request(script=orchestrator.script([RESPOND]))
    forged = subjects.agent_inbox(subjects.agent_pool("default", "evil"), wanted.run_id)
    body = CancelRequestedFact(run_id=wanted.run_id, by="evil").model_dump_json().encode()
    for guessed in (f"{wanted.request_id}:1", f"{wanted.request_id}:1:"):
        await orchestrator.nc.jetstream().publish(forged, body, headers={"Nats-Msg-Id": guessed})
    await orchestrator.ask(wanted)
    await orchestrator.until(3)
    assert (await orchestrator.nc.jetstream().stream_info("INBOX")).state.messages == 3


async def test_a_script_is_fetched_once_and_positions_come_from_the_request(
    orchestrator: OrchestratorPeer, decider: ServiceProcess
) -> None:
    entries = [USE_TOOL, {**RESPOND, "agent": "triage"}]
    for number in range(10):
        await orchestrator.ask(numbered(number, script=orchestrator.script(entries, {"*": 1})))
    facts = await orchestrator.until(10)
    assert {fact.decision["action"] for fact in facts if isinstance(fact, DecisionMadeFact)} == {"RESPOND"}
    assert orchestrator.blobs_asked == 2  # the two pieces of one script
    await orchestrator.ask(numbered(10, script=orchestrator.script(entries, {"*": 1, "triage": 2})))
    last = (await orchestrator.until(11))[-1]
    assert isinstance(last, DecisionFailedFact)
    assert last.code == "script_exhausted"
    assert last.message == "the script of 2 entries has nothing left for agent triage: add what it does next"


async def test_raw_entries_go_through_repair_and_unknown_actions_are_refused(
    orchestrator: OrchestratorPeer, decider: ServiceProcess
) -> None:
    await orchestrator.ask(numbered(1, script=orchestrator.script([{"raw": ["no idea", as_text(RESPOND)]}])))
    (repaired,) = await orchestrator.until(1)
    assert isinstance(repaired, DecisionMadeFact)
    assert repaired.usage.model_calls == 2
    await orchestrator.ask(numbered(2, script=orchestrator.script([{"action": "DANCE", "action_details": {}}])))
    refused = (await orchestrator.until(2))[-1]
    assert isinstance(refused, DecisionFailedFact)
    assert refused.code == "invalid_output"
    assert "DANCE" in refused.message
    assert refused.script is not None


async def test_b12_what_a_model_writes_is_sent_while_it_writes_and_a_quick_answer_is_not(
    orchestrator: OrchestratorPeer, decider: ServiceProcess
) -> None:
    """Row B12: pieces of a decision on core NATS, in order, with attempt and writer; of no assessment."""
    listener: list[TokenDelta] = []

    async def on_text(message: Msg) -> None:
        listener.append(TokenDelta.model_validate_json(message.data))

    await orchestrator.nc.subscribe(subjects.RUN_TOKENS_ALL, cb=on_text)
    slow = {**RESPOND, "delay_ms": 600}
    judged = {"kind": "confidence", "confidence": 0.9, "delay_ms": 300}
    await orchestrator.ask(numbered(1, script=orchestrator.script([slow]), attempt=3))
    await orchestrator.ask(numbered(2, script=orchestrator.script([RESPOND])))
    await orchestrator.ask(numbered(3, script=orchestrator.script([judged]), kind="confidence"))
    await orchestrator.until(3)
    await all_sent(orchestrator.nc)
    written = as_text(RESPOND).replace(": ", ":").replace(", ", ",")
    await eventually(lambda: "".join(one.text for one in listener) == written)
    assert [one.index for one in listener] == list(range(len(listener))) and 2 <= len(listener) <= 14
    assert {(one.run_id, one.attempt, one.writer, one.agent_key) for one in listener} == {
        (numbered(1).run_id, 3, listener[0].writer, context().agent_key)
    }


async def test_a_slow_call_holds_nobody_up(orchestrator: OrchestratorPeer, decider: ServiceProcess) -> None:
    slow = orchestrator.script([{**RESPOND, "delay_ms": 3_000}])
    quick = orchestrator.script([RESPOND])
    for number in range(20):
        await orchestrator.ask(numbered(number, script=slow))
    for number in range(20, 60):
        await orchestrator.ask(numbered(number, script=quick))
    facts = await orchestrator.until(40)
    assert {fact.run_id for fact in facts[:40]} == {numbered(number).run_id for number in range(20, 60)}
    await orchestrator.until(60)
    await all_acknowledged(orchestrator)


async def test_a_request_that_comes_twice_is_answered_from_memory(
    orchestrator: OrchestratorPeer, decider: ServiceProcess
) -> None:
    script = orchestrator.script([{"raw": ["bad", as_text(RESPOND)]}])
    await orchestrator.ask(request(script=script))
    await orchestrator.until(1)
    await orchestrator.ask(request(script=script, attempt=2))
    first, second = await orchestrator.until(2)
    assert isinstance(first, DecisionMadeFact)
    assert isinstance(second, DecisionMadeFact)
    assert (second.attempt, second.usage) == (2, first.usage)
    assert orchestrator.message_ids[1].startswith(f"{second.request_id}:2:")
    assert 'towpath_decisions_total{provider="scripted",result="made"} 1.0' in await decider.metrics()


async def test_a_decider_that_is_stopped_hands_its_requests_back(
    orchestrator: OrchestratorPeer, decider: ServiceProcess, nats_server: Nats, folder: Path
) -> None:
    await orchestrator.ask(request(script=orchestrator.script([{**RESPOND, "delay_ms": 8_000}])))
    await eventually(lambda: orchestrator.blobs_asked == 2)
    decider.terminate()
    with service_process("decider", folder, nats_server.url(), allow_scripts="1") as second:
        await second.wait_ready()
        (fact,) = await orchestrator.until(1)
        assert isinstance(fact, DecisionMadeFact)
        assert orchestrator.blobs_asked == 4  # the second decider asked for the script again: it made the decision
        assert decider.process.wait(15) in (0, -signal.SIGTERM)  # uvicorn raises the signal again at its end


async def test_a_request_of_a_killed_decider_is_answered_by_another(
    orchestrator: OrchestratorPeer, nats_server: Nats, folder: Path
) -> None:
    await shorten_ack_wait(orchestrator, 2)
    with service_process("decider", folder, nats_server.url(), allow_scripts="1") as first:
        await first.wait_ready()
        slow = orchestrator.script([{**RESPOND, "delay_ms": 1_500}])
        await orchestrator.ask(request(script=slow))
        counted = numbered(1, script=slow, max_calls=4)
        await orchestrator.ask(counted)
        await eventually(lambda: orchestrator.blobs_asked >= 2)
        await delivered(orchestrator, 2)
        first.kill()
    assert orchestrator.facts == []
    with service_process("decider", folder, nats_server.url(), allow_scripts="1") as second:
        await second.wait_ready()
        facts = {fact.run_id: fact for fact in await orchestrator.until(2)}
        await all_acknowledged(orchestrator)
    lost = facts.pop(counted.run_id)  # with a budget nobody is asked twice in one attempt: the first may have been paid
    assert isinstance(lost, DecisionFailedFact)
    assert (lost.code, lost.attempt, lost.usage.model_calls) == ("call_lost", 1, 0)
    (fact,) = facts.values()
    assert isinstance(fact, DecisionMadeFact)
    assert len(orchestrator.facts) == 2


async def test_a_script_from_a_file_is_played(
    orchestrator: OrchestratorPeer, decider: ServiceProcess, folder: Path
) -> None:
    (folder / "demo.json").write_text(json.dumps([USE_TOOL, RESPOND]))
    await orchestrator.ask(request(model="scripted:demo", script=ScriptPosition(cursors={"*": 1})))
    (fact,) = await orchestrator.until(1)
    assert isinstance(fact, DecisionMadeFact)
    assert fact.decision == RESPOND


async def test_scripts_are_refused_where_they_are_not_allowed(
    orchestrator: OrchestratorPeer, nats_server: Nats, folder: Path
) -> None:
    with service_process("decider", folder, nats_server.url()) as process:
        await process.wait_ready()
        await orchestrator.ask(request(script=orchestrator.script([RESPOND])))
        (fact,) = await orchestrator.until(1)
    assert isinstance(fact, DecisionFailedFact)
    assert fact.code == "script_not_allowed"
    assert orchestrator.blobs_asked == 0


async def test_a_script_that_is_not_what_its_digest_says_is_refused(
    orchestrator: OrchestratorPeer, decider: ServiceProcess
) -> None:
    script = orchestrator.script([RESPOND])
    assert script.digest is not None
    orchestrator.scripts[script.digest] = b'[{"action": "RESPOND", "action_details": {"payload": "forged"}}]'
    await orchestrator.ask(request(script=script))
    (fact,) = await orchestrator.until(1)
    assert isinstance(fact, DecisionFailedFact)
    assert fact.code == "script_invalid"


async def test_malformed_requests_are_reported_and_taken_out(
    orchestrator: OrchestratorPeer, decider: ServiceProcess
) -> None:
    js = orchestrator.nc.jetstream()
    await js.publish(subjects.decide(POOL), b"\xff\x00 no json")
    await js.publish(subjects.decide(POOL), b"{}")
    half = json.dumps({"run_id": str(request().run_id), "request_id": str(request().request_id), "attempt": 3})
    await js.publish(subjects.decide(POOL), half.encode())
    endless = request(timeout_ms=1, lease_ms=1).model_dump_json().replace('_ms":1', '_ms":' + "9" * 400)
    await js.publish(subjects.decide(POOL), endless.encode())
    await orchestrator.ask(numbered(1, script=orchestrator.script([RESPOND])))
    assert isinstance((await orchestrator.until(1))[-1], DecisionMadeFact)
    await all_acknowledged(orchestrator)
    assert {(letter.stream, letter.subject, letter.tells) for letter in orchestrator.dead} == {
        ("DECIDE", subjects.decide(POOL), True)
    }
    bodies = [base64.b64decode(letter.body_base64) for letter in orchestrator.dead]
    assert bodies == [b"\xff\x00 no json", b"{}", half.encode(), endless.encode()]
    assert len({letter.delivery for letter in orchestrator.dead}) == 4


async def test_a_gemini_decision_is_logged_with_bodies_under_debug(
    orchestrator: OrchestratorPeer, nats_server: Nats, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[LlmCallLog] = []

    async def on_log(message: Msg) -> None:
        logged.append(LlmCallLog.model_validate_json(message.data))

    await orchestrator.nc.subscribe(subjects.LOG_LLM_CALL, cb=on_log)
    monkeypatch.setenv("GEMINI_API_KEY", "secret-key")
    with (
        gemini(says(as_text(RESPOND))) as model,
        service_process("decider", folder, nats_server.url(), gemini_base_url=model.url) as process,
    ):
        await process.wait_ready()
        await orchestrator.ask(request(model="gemini:gemini-2.5-flash", debug=True))
        (fact,) = await orchestrator.until(1)
        await eventually(lambda: len(logged) == 1)
    assert isinstance(fact, DecisionMadeFact)
    assert logged[0].raw_text == as_text(RESPOND)
    assert logged[0].prompt_digest == fact.prompt_digest
    assert "secret-key" not in process.log.read_text()


async def test_b17_a_decider_offers_tools_natively_to_the_models_that_its_settings_name(
    orchestrator: OrchestratorPeer, nats_server: Nats, folder: Path
) -> None:
    """Row B17: a switch per model, and the same decision, from the settings of a process to its fact."""
    dialect = Local()
    called = dialect.streamed(dialect.calls_tools(("crm_lookup", '{"customer": "ada"}'), text="I must know who."))
    with gemini(called) as model:
        settings = {"local_url": f"{model.url}/v1", "native_tools": '{"local": true, "local:old": false}'}
        with service_process("decider", folder, nats_server.url(), **settings) as process:
            await process.wait_ready()
            await orchestrator.ask(numbered(1, model="local:qwen3"))
            await orchestrator.until(1)
            await orchestrator.ask(numbered(2, model="local:old"))
            facts = await orchestrator.until(2)
        assert ["tools" in one.body for one in model.seen] == [True, False]
    calls = [fact.decision["action_details"] for fact in facts if isinstance(fact, DecisionMadeFact)]
    assert [one["tool_name"] for one in calls] == ["crm.lookup", "crm.lookup"]


async def test_the_prompt_of_an_agent_can_be_shown(orchestrator: OrchestratorPeer, decider: ServiceProcess) -> None:
    async def ask(base: str) -> Msg:
        body = RenderPromptRequest(context=context(base_prompt=base)).model_dump_json().encode()
        return await orchestrator.nc.request(RENDER_PROMPT.subject, body, timeout=60)

    shown = RenderPromptAnswer.model_validate_json((await ask("You are {{ agent_key }}.")).data)
    assert shown.prompt.startswith("You are triage.\n\n# Constraints")
    assert shown.digest == digest_text(shown.prompt)
    refused = await ask("{{ nothing }}")
    assert (refused.headers or {})[PROBLEM_HEADER] == "prompt_invalid"
    assert "there is no variable 'nothing'" in Problem.model_validate_json(refused.data).detail

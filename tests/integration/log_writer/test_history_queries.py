"""What the log-writer answers, and what it keeps of logs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.orchestrator import run_history as h
from tests.support.orchestrator.run_log import wait_for
from tests.support.platform.history_platform import Place, new_run, open_place
from tests.support.service_process import ServiceProcess, service_process

from towpath_contracts import subjects
from towpath_contracts.decisions.request import DecisionKind, LlmCallLog, ToolLog
from towpath_contracts.ids import execution_id, request_id
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import GET_LLM_CALLS
from towpath_contracts.runs.views import GetLlmCalls, LlmCalls
from towpath_embedded.servers.nats import Nats


@pytest.fixture
async def place(nats_server: Nats, database: DatabaseUrl) -> AsyncIterator[Place]:
    async with open_place(nats_server, database) as opened:
        yield opened


@pytest.fixture
async def writer(place: Place, nats_server: Nats, folder: Path) -> AsyncIterator[ServiceProcess]:
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as process:
        await process.wait_ready()
        yield process


async def test_history_is_shown_only_to_its_project(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    await place.log.tell(place.log.keep(run, h.whole_run(run, 2, "mine"), "mine"))
    await place.complete(run)
    assert len((await place.history(run, "mine")).steps) == 2
    with pytest.raises(ProblemError) as refused:
        await place.history(run, "theirs")
    assert refused.value.problem.code == "run_not_found"
    theirs = await place.bus.request(GET_LLM_CALLS, GetLlmCalls(project="theirs", run_id=run))
    assert theirs.calls == ()


async def test_texts_that_postgres_can_not_hold_are_kept_with_a_mark(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    transitions = h.whole_run(run, 2)
    transitions[2] = [h.decided(run, 1, {"action": "USE_TOOL", "action_reasoning": "a\x00b"}), *transitions[2][1:]]
    transitions[3] = [h.finished(run, 1, result={"text": "nul \x00", "n": float("inf")}), *transitions[3][1:]]
    await place.log.tell(place.log.keep(run, transitions))
    await place.complete(run)
    step = (await place.history(run)).steps[0]
    assert step["reasoning"] == "a\ufffdb"
    assert step["result"]["0"]["result"] == {"text": "nul \ufffd", "n": "Infinity"}
    assert await place.rows("SELECT * FROM history.skipped_event") == []


async def test_a_long_history_comes_in_pages(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    transitions = h.whole_run(run, 40)
    for step in range(1, 40):
        place_of = 2 * step + 1
        large = h.finished(run, step, result={"text": "x" * 60_000})
        transitions[place_of] = [large, *transitions[place_of][1:]]
    messages = place.log.keep(run, transitions)
    await place.log.tell(messages[:20])  # the rest must be read in pages that fit into a message
    await place.complete(run, within_s=60)
    steps: list[Any] = []
    calls: list[Any] = []
    after: int | None = -1
    pages = 0
    while after is not None:
        page = await place.history(run, after=after)
        steps += page.steps
        calls += page.tool_executions
        after = page.next_after_step
        pages += 1
    assert [step["step_number"] for step in steps] == list(range(1, 41))
    assert len(calls) == 39
    assert all(len(call["result"]["text"]) == 60_000 for call in calls)
    assert pages > 1
    few, last = await place.history(run, after=3, limit=2), await place.history(run, after=38, limit=2)
    assert ([step["step_number"] for step in few.steps], few.next_after_step) == ([4, 5], 5)
    assert ([step["step_number"] for step in last.steps], last.next_after_step) == ([39, 40], None)


async def test_model_calls_are_taken_from_logs_and_where_these_are_missing_from_events(
    place: Place, writer: ServiceProcess
) -> None:
    run = new_run()
    transitions = h.whole_run(run, 3)
    asked = next(n for n, made in enumerate(transitions) if any(one.type == "decision_requested" for one in made))
    transitions.insert(asked + 1, [h.postponed(run, 1)])
    await place.log.tell(place.log.keep(run, transitions))
    js = place.log.nc.jetstream()
    bodies = {"prompt": "What now?\x00", "raw_text": '{"action": "RESPOND"}'}
    for number in (1, 2):
        call = LlmCallLog(
            request_id=request_id(run, 2, "decide", 1),
            run_id=run,
            project="default",
            attempt=1,
            call=number,
            step=2,
            agent_key="triage",
            kind=DecisionKind.DECIDE,
            model="gemini:gemini-2.5-flash",
            started_at=h.BEGIN,
            duration_ms=12,
            usage=h.USAGE,
            cost=h.COST,
            prompt_digest="sha256:p",
            raw_digest="sha256:r",
            **bodies,
        )
        for _ in range(2):  # delivered twice, written once
            await js.publish(subjects.LOG_LLM_CALL, call.model_dump_json().encode())
    await place.complete(run)

    async def calls() -> LlmCalls:
        answer = await place.bus.request(GET_LLM_CALLS, GetLlmCalls(project="default", run_id=run))
        assert isinstance(answer, LlmCalls)
        return answer

    async def all_told() -> bool:
        return len((await calls()).calls) == 5

    await wait_for(all_told)
    found = (await calls()).calls
    assert [call["step_number"] for call in found] == [1, 1, 2, 2, 3]
    of_step = await place.bus.request(GET_LLM_CALLS, GetLlmCalls(project="default", run_id=run, step=2))
    assert isinstance(of_step, LlmCalls) and list(of_step.calls) == list(found[2:4])
    assert [call.get("prompt") for call in found] == [None, None, "What now?\ufffd", "What now?\ufffd", None]
    put_off, answered = sorted(found[:2], key=lambda call: call["error"] is None)
    assert put_off["error"] == "model_rate_limited: later" and put_off["request_id"] == answered["request_id"]
    assert answered["model"] == "scripted:task"
    assert answered["total_tokens"] == 110
    assert found[2]["raw_text"] == '{"action": "RESPOND"}'


async def test_what_a_tool_wrote_is_kept_once(place: Place, writer: ServiceProcess) -> None:
    run, foreign = new_run(), new_run()
    await place.log.tell(place.log.keep(foreign, h.whole_run(foreign, 2, "other"), "other"))

    async def is_known() -> bool:
        return bool(await place.rows(f"SELECT 1 FROM history.run_cursor WHERE run_id = '{foreign}'"))

    await wait_for(is_known)
    line = ToolLog(
        execution_id=execution_id(run, 1, 0),
        run_id=run,
        project="default",
        tool="crm.lookup",
        worker="w",
        at=h.BEGIN,
        message="found\x00 her",
        fields={"n": 1},
        toolset="default",
    )
    js = place.log.nc.jetstream()
    forged = line.model_copy(update={"message": "said by a worker of another project"})
    await js.publish(subjects.log_tool("stranger", "default"), forged.model_dump_json().encode())
    theirs = line.model_copy(update={"run_id": foreign, "execution_id": execution_id(foreign, 1, 0)})
    await js.publish(subjects.log_tool(line.project, "default"), theirs.model_dump_json().encode())
    await js.publish(subjects.log_tool(line.project, "mail"), line.model_dump_json().encode())
    of_another_tool = theirs.model_copy(update={"project": "other", "tool": "mail.send"})
    await js.publish(subjects.log_tool("other", "default"), of_another_tool.model_dump_json().encode())
    for _ in range(3):
        await js.publish(subjects.log_tool(line.project, "default"), line.model_dump_json().encode())
    query = "SELECT message, fields::text FROM history.tool_log"

    async def kept() -> bool:
        return await place.rows(query) == [("found\ufffd her", '{"n":1}')]

    await wait_for(kept)


async def test_the_log_writer_may_change_nothing_but_history(place: Place) -> None:
    connection = await asyncpg.connect(place.address)
    try:
        for forbidden in (
            "SELECT * FROM runs.run",
            "DELETE FROM history.agent_execution_history",
            "SELECT * FROM tas.audit_entry",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(forbidden)
    finally:
        await connection.close()

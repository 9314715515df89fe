"""What a worker can't read goes out again; in the end the call fails and the model is told."""

import base64
import uuid
from typing import Any

import pytest
from tests.integration.tas.test_calls import dead_letters, eventually_dead
from tests.support.tas.tas_caller import query, row, settled
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc, subjects
from towpath_contracts.dead_letters import ReportDeadLetter
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import ToolInvocation, ToolSpec
from towpath_contracts.tools.workers import RegisterTools

__all__ = ["shared_tas", "tas"]


def letter(given: ToolInvocation, delivery: int, **changes: Any) -> ReportDeadLetter:
    """What a worker reports of a delivery whose arguments it can't read."""
    body = given.model_dump_json().replace('"args":', '"arg":').encode()
    fields = {
        "stream": "TOOLEXEC",
        "subject": subjects.tool_exec(given.project, given.toolset),
        "reason": "malformed",
        "body_base64": base64.b64encode(body).decode(),
        "delivery": delivery,
    }
    return ReportDeadLetter.model_validate({**fields, **changes})


async def test_a_delivery_nobody_can_read_goes_out_again_and_then_fails(tas: Running) -> None:
    caller, before = tas.caller, await dead_letters(tas, "TOOLEXEC")
    request = await caller.put(caller.request("orders.refund"))
    first = await caller.dispatched(request)
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(first, 1))
    second = await caller.dispatched(request, times=2)
    assert (first.attempt, second.attempt) == (1, 2)
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(first, 1))
    assert (await row(tas.dsn, first.execution_id))["attempt"] == 2, "an old attempt is not spoken of any more"
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(second, 2))
    third = await caller.dispatched(request, times=3)
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(third, 3))
    fact = await caller.fact(request, "tool.finished")
    assert (fact["status"], fact["failure"]["code"]) == ("failed", "dead_lettered")
    assert (await caller.claim(third)).granted is False
    await eventually_dead(tas, "TOOLEXEC", before + 3)
    kept = await query(tas.dsn, "SELECT project, effect_id FROM runs.dead_letter WHERE run_id = $1", request.run_id)
    assert {(found["project"], found["effect_id"]) for found in kept} == {(request.project, request.execution_id)}


async def test_nobody_plants_a_letter_with_another_project_and_there_is_an_end_to_them(tas: Running) -> None:
    caller = tas.caller
    waiting = await caller.call("orders.refund")
    elsewhere = subjects.tool_exec("victim", waiting.toolset)
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(waiting, 31, subject=elsewhere))
    stranger = waiting.model_copy(update={"run_id": uuid.uuid4()})
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(stranger, 32))
    body = {"body_base64": base64.b64encode(b"x" * 500_000).decode()}
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(waiting, 33, **body))
    planted = await query(
        tas.dsn,
        "SELECT run_id, project, octet_length(body) AS size, cut FROM runs.dead_letter WHERE subject IN ($1, $2)"
        " AND project IS NULL ORDER BY dead_letter_id",
        *(elsewhere, subjects.tool_exec(waiting.project, waiting.toolset)),
    )
    assert [(found["run_id"], found["cut"]) for found in planted] == [(None, False), (None, False), (None, True)]
    assert planted[2]["size"] == 16 * 1024

    flood = (
        "INSERT INTO runs.dead_letter (stream, subject, reason, body)"
        " SELECT 'TOOLEXEC', 'flood', 'r', '' FROM generate_series(1, 1000) RETURNING 1"
    )
    await query(tas.dsn, flood)
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(stranger, 34, reason="one too many"))
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(waiting, 35, reason="mine"))
    kept = await query(tas.dsn, "SELECT reason FROM runs.dead_letter WHERE reason IN ('one too many', 'mine')")
    await query(tas.dsn, "DELETE FROM runs.dead_letter WHERE subject = 'flood' RETURNING 1")
    assert [found["reason"] for found in kept] == ["mine"]


async def test_a_worker_is_believed_only_as_far_as_the_ledger_agrees(tas: Running) -> None:
    caller = tas.caller
    running = await caller.call("orders.refund")
    claim_id = uuid.uuid4()
    assert (await caller.claim(running, claim_id)).granted
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(running, 11))
    waiting = await caller.call("orders.refund")
    elsewhere = subjects.tool_exec("other", waiting.toolset)
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(waiting, 12, subject=elsewhere))
    await caller.send(rpc.DEAD_LETTER_CALLS, letter(waiting, 13, tells=False))
    for call in (running, waiting):
        assert (await row(tas.dsn, call.execution_id))["attempt"] == 1
    await caller.report(running, claim_id)
    await settled(tas.dsn, running.execution_id, "succeeded")
    for changes in ({"stream": "INBOX"}, {"subject": "tool.outcome"}):
        with pytest.raises(ProblemError, match="forbidden"):
            await caller.send(rpc.DEAD_LETTER_CALLS, letter(waiting, 14, **changes))


async def test_a_letter_of_the_workers_streams_is_sent_again_by_its_owner(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.find")
    (made,) = await query(
        tas.dsn,
        "INSERT INTO runs.dead_letter (stream, subject, reason, body) VALUES ('TOOLEXEC', $1, 'r', $2)"
        " RETURNING dead_letter_id",
        *(subjects.tool_exec(invocation.project, invocation.toolset), invocation.model_dump_json().encode()),
    )
    await caller.ask(rpc.REPUBLISH, dead_letter_id=made["dead_letter_id"])
    again = await caller.dispatched(caller.request("orders.find", execution_id=invocation.execution_id), times=2)
    assert again == invocation


SPEC = ToolSpec(name="mine", toolset="mine", description="d", parameters={"type": "object"}, effect_class="pure")


async def ask(tas: Running, method: rpc.RpcMethod, place: tuple[str, str], request: Any) -> tuple[str, str]:
    """Ask as a worker of *place* does; returns the problem's code, or an empty one, and the body."""
    subject = subjects.for_toolset(method.subject, *place)
    answer = await tas.caller.nc.request(subject, request.model_dump_json().encode(), timeout=60)
    return (answer.headers or {}).get(rpc.PROBLEM_HEADER, ""), answer.data.decode()


@pytest.mark.parametrize(
    ("project", "toolset", "code"), [("", "mine", ""), ("stranger", "mine", "forbidden"), ("", "other", "forbidden")]
)
async def test_a_worker_registers_tools_of_its_own_toolset_only(
    tas: Running, project: str, toolset: str, code: str
) -> None:
    own = tas.caller.project
    request = RegisterTools(toolset="mine", worker="w", owner="o", project=project or own, tools=(SPEC,))
    found, body = await ask(tas, rpc.REGISTER_TOOLS, (own, toolset), request)
    assert found == code, body


@pytest.mark.parametrize(("toolset", "code"), [("mine", ""), ("other", "forbidden")])
async def test_a_worker_reports_deliveries_of_its_own_toolset_only(tas: Running, toolset: str, code: str) -> None:
    letter = ReportDeadLetter(
        stream="TOOLEXEC",
        subject=subjects.tool_exec(tas.caller.project, toolset),
        reason="malformed",
        body_base64="e30=",
        delivery=len(toolset),
    )
    found, body = await ask(tas, rpc.DEAD_LETTER_CALLS, (tas.caller.project, "mine"), letter)
    assert found == code, body

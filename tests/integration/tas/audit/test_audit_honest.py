"""What honest people do in an odd order is no fault: edits after a pause, edits back, and exports that end between."""

from typing import Any

from tests.integration.tas.audit.test_audit_grounds import faults, sealed_so_far
from tests.integration.tas.test_approvals import LARGE, make_key, policy, vote, waiting
from tests.integration.tas.test_switches import orchestrator, switch
from tests.support.tas.tas_caller import query, settled
from tests.support.tas.tas_running import Running, audit_holds, shared_tas, tas

__all__ = ["audit_holds", "shared_tas", "tas"]


async def test_a_call_that_was_held_after_its_approval_and_then_edited(tas: Running) -> None:
    request, asked = await waiting(tas)
    async with orchestrator(tas.caller):
        await switch(tas.caller, "pause", name="orders.refund")
        await vote(tas.caller, asked, "approved")
        await tas.caller.again(request)
        await settled(tas.dsn, request.execution_id, "requested")
        await tas.caller.apply(policy("quorum: 2"))
        await switch(tas.caller, "resume", name="orders.refund")
        await tas.caller.again(request)
        fresh = await tas.caller.fact(request, "approval.required", times=2)
        await vote(tas.caller, fresh, "edit", args={**LARGE, "amount": 200})
    assert await faults(tas) == []


async def test_a_call_that_was_edited_and_edited_back(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 2")
    await vote(tas.caller, asked, "edit", args={**LARGE, "amount": 200})
    fresh = await tas.caller.fact(request, "approval.required", times=2)
    await vote(tas.caller, fresh, "edit", "cleo", args=LARGE)
    assert await faults(tas) == []


async def test_an_export_that_ends_between_an_edit_and_the_question_about_it(tas: Running) -> None:
    request, asked = await waiting(tas)
    await vote(tas.caller, asked, "edit", args={**LARGE, "amount": 200})
    await sealed_so_far(tas)
    asked_at = (
        "SELECT at FROM tas.audit_record WHERE execution_id = $1 AND verdict = 'require_approval' ORDER BY at DESC"
    )
    assert await faults(tas, until=(await query(tas.dsn, asked_at, request.execution_id))[0]["at"]) == []


async def test_an_export_that_ends_before_a_key_was_made(tas: Running) -> None:
    request, asked = await waiting(tas)
    until = await sealed_so_far(tas)
    key: dict[str, Any] = await make_key(tas, "ben")
    assert await vote(tas.caller, asked, "approved", "ben", **key) == "approved"
    await tas.caller.again(request)
    await tas.caller.dispatched(request)
    assert await faults(tas, until=until) == []

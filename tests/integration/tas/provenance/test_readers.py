"""Who may know what a run has read, in a real TAS: told by what tools declare, their ledger rows and nobody else."""

import json
import uuid
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.tas.provenance.test_provenance import begun, returned, verdict
from tests.support.tas.tas_caller import row, tool
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.tools.readers import declared_readers
from towpath_tas.app.calls import run_ancestors

__all__ = ["shared_tas", "tas"]

ANY = {"type": "object"}
ANN, BOB, EVE = "ann@acme.example", "bob@acme.example", "eve@evil.example"
SECRET = "The plan for autumn is called Halyard"
TOOLS = (
    tool("orders.plans", "pure", parameters=ANY, readers=declared_readers([ANN, BOB])),
    tool(
        "orders.mails",
        "pure",
        parameters=ANY,
        trusted_fields=("mails.sender",),
        readers=declared_readers({"of": "mails", "fields": ["sender", "to"]}),
    ),
    tool("orders.share", "idempotent", parameters=ANY, sinks=(), readers=declared_readers({"args": "with"})),
    tool("orders.news", "pure", parameters=ANY, readers=declared_readers("anybody")),
    tool("orders.notes", "pure", parameters=ANY),
    tool("orders.send", "irreversible", parameters=ANY, sinks=("to",), readers=declared_readers("anybody")),
)
ALL = 'kind: Policy\nrules:\n  - {name: everything, tool: "*", effect: allow}\n'
STRICT = ALL + '  - {name: told, tool: "*", effect: deny, when: size(origin.leaks) > 0}\n'
LOOSE = ALL + '  - {name: told, tool: "*", effect: deny, when: origin.confidential && size(origin.leaks) > 0}\n'
TASK = f"Send the plan to {EVE}, {BOB} or {ANN}"


async def ruled(tas: Running, policy: str = STRICT) -> None:
    await tas.caller.register(*TOOLS)
    await tas.caller.apply(policy)


async def sends(tas: Running, run_id: UUID, body: Any, *to: str) -> list[bool]:
    """Have *body* sent to each of *to*, and say to whom it went."""
    said = [await verdict(tas, run_id, "orders.send", step=9, to=one, body=body) for one in to]
    assert set(said) <= {"permitted", "tool.denied"}
    return [one == "permitted" for one in said]


async def test_a_secret_goes_to_its_readers_and_to_nobody_else_whom_the_task_names(tas: Running) -> None:
    await ruled(tas, ALL)
    run_id = await begun(tas, TASK)
    await returned(tas, run_id, "orders.plans", {"text": SECRET})
    assert await sends(tas, run_id, SECRET, EVE) == [True], "without the rule it goes out"
    await ruled(tas)
    run_id = await begun(tas, TASK)
    await returned(tas, run_id, "orders.plans", {"text": SECRET})
    assert await sends(tas, run_id, f"Hello.\n{SECRET}. Bye", ANN, BOB, EVE) == [True, True, False]
    assert await sends(tas, run_id, "Nothing of it", EVE) == [True]


async def test_undeclared_is_held_by_the_strict_rule_and_passes_the_loose_one(tas: Running) -> None:
    for policy, passes in ((STRICT, False), (LOOSE, True)):
        await ruled(tas, policy)
        run_id = await begun(tas, TASK)
        await returned(tas, run_id, "orders.notes", {"text": SECRET})
        assert await sends(tas, run_id, SECRET, ANN) == [passes]
        await returned(tas, run_id, "orders.news", {"text": "The lock keeper comes at seven"})
        assert await sends(tas, run_id, "The lock keeper comes at seven", EVE) == [True]


async def test_each_mail_may_be_known_to_its_own_people(tas: Running) -> None:
    await ruled(tas)
    run_id = await begun(tas, TASK)
    mails = [
        {"sender": EVE, "to": [ANN], "body": "Buy shoes now, they are cheap"},
        {"sender": BOB, "to": [ANN], "body": SECRET},
    ]
    await returned(tas, run_id, "orders.mails", {"mails": mails})
    assert await sends(tas, run_id, "Buy shoes now, they are cheap", EVE, ANN, BOB) == [True, True, False]
    assert await sends(tas, run_id, SECRET, EVE, ANN, BOB) == [False, True, True]


async def test_readers_from_arguments_are_those_that_the_call_ran_with(tas: Running) -> None:
    await ruled(tas, ALL + '  - {name: asks, tool: "orders.share", effect: require_approval}\n')
    run_id = await begun(tas, TASK)
    request = await tas.caller.put(tas.caller.request("orders.share", run_id=run_id, args={"with": [EVE]}, step=1))
    asked = await tas.caller.fact(request, "approval.required")
    fields = {"project": tas.caller.project, "approval_id": asked["approval_id"], "gate_id": asked["approval_id"]}
    edit = {"verdict": "edit", "reason": "not to her", "args": {"with": [ANN]}}
    await tas.caller.ask(rpc.RESOLVE_APPROVAL, **fields, actor="ben", roles=["approver"], **edit)
    await tas.caller.again(request)
    invocation = await tas.caller.dispatched(request)
    assert invocation.args == {"with": [ANN]}
    claim_id = uuid.uuid4()
    assert (await tas.caller.claim(invocation, claim_id)).granted
    await tas.caller.confirmation(await tas.caller.report(invocation, claim_id, result={"text": SECRET}))
    await ruled(tas)
    assert await sends(tas, run_id, SECRET, EVE, ANN) == [False, True]


async def test_what_a_run_has_read_keeps_its_readers_in_children_and_forks(tas: Running) -> None:
    await ruled(tas)
    run_id = await begun(tas, TASK)
    await returned(tas, run_id, "orders.plans", {"text": SECRET})
    parent = {"parent": {"run_id": str(run_id), "root_id": str(run_id), "step": 1, "index": 0, "depth": 1}}
    child = await begun(tas, f"Tell her: {SECRET}", **parent)
    fork = await begun(tas, TASK, forked_from={"run_id": str(run_id), "step": 2})
    for run in (child, fork):
        assert await sends(tas, run, SECRET, EVE, ANN) == [False, True]


async def test_a_large_result_and_a_failure_keep_their_readers(tas: Running) -> None:
    await ruled(tas)
    run_id = await begun(tas, TASK)
    data = canonical_json({"text": SECRET, "more": ["so long"] * 20_000}).encode()
    connection = await asyncpg.connect(tas.dsn)
    try:
        await connection.execute(
            "INSERT INTO runs.blob (project, digest, data, size) VALUES ($1, $2, $3, $4)",
            *(tas.caller.project, digest_text(data), data, len(data)),
        )
    finally:
        await connection.close()
    await returned(tas, run_id, "orders.plans", None, blob=True, result_digest=digest_text(data))
    failure = {"code": "x", "message": "there is no plan with the number hx7-99-zk"}
    await returned(tas, run_id, "orders.plans", None, step=2, status="failed", failure=failure)
    assert await sends(tas, run_id, SECRET, EVE, ANN) == [False, True]
    assert await sends(tas, run_id, "there is no plan with the number hx7-99-zk", EVE, ANN) == [False, True]


async def test_without_a_task_that_can_be_read_nothing_goes_anywhere(tas: Running) -> None:
    await ruled(tas, LOOSE)
    lost = {"parent": {"run_id": "01900000-0000-7000-8000-000000000000", "step": 1}}
    assert await sends(tas, await begun(tas, TASK, **lost), "own words", ANN) == [False]


@pytest.mark.parametrize("effect", ["deny", "require_approval"])
async def test_people_and_models_are_told_who_may_know_it_and_the_audit_is_not(tas: Running, effect: str) -> None:
    await ruled(tas, STRICT.replace("deny", effect))
    run_id = await begun(tas, TASK)
    await returned(tas, run_id, "orders.plans", {"text": SECRET})
    request = await tas.caller.put(
        tas.caller.request("orders.send", run_id=run_id, args={"to": EVE, "body": SECRET}, step=4)
    )
    if effect == "deny":
        denial = (await tas.caller.fact(request, "tool.denied"))["denial"]
        assert denial["rule"] == "told"
        expected = (
            f"may be known to {ANN}, {BOB} only (it was read with orders.plans in step 1), and goes to {EVE} (to)"
        )
        assert expected in denial["reason"]
    else:
        origins = (await tas.caller.fact(request, "approval.required"))["origins"]
        assert [(one["path"], one.get("leak")) for one in origins] == [("to", True), ("body", None)]
        assert origins[1]["may_know"] == [{"tool": "orders.plans", "step": 1, "readers": [ANN, BOB]}]
    (entry,) = [one for one in await tas.caller.audit(execution_id=request.execution_id) if one.phase == "decision"]
    words = entry.detail["origin"]
    assert (words["confidential"], words["readers_known"], words["leaks"]) == (True, True, ["to"])
    assert not any(name in json.dumps(entry.detail) for name in (ANN, BOB, EVE, SECRET))
    seen = json.loads((await row(tas.dsn, request.execution_id))["context"])["origin"]
    assert (seen["readers"], seen["leaks"]) == ([ANN, BOB], [EVE]), "a policy diff decides by it again"


async def test_a_dry_run_knows_readers_and_takes_stated_ones(tas: Running) -> None:
    await ruled(tas)
    run_id = await begun(tas, TASK)
    await returned(tas, run_id, "orders.plans", {"text": SECRET})
    fields = {"project": tas.caller.project, "network": "support", "agent_key": "billing", "tool": "orders.send"}
    for to, found in ((EVE, "deny"), (ANN, "allow")):
        args = {"to": to, "body": SECRET}
        assert (await tas.caller.ask(rpc.CHECK_ACCESS, **fields, args=args, run_id=run_id)).verdict == found
    for stated, found in (({"leaks": [EVE]}, "deny"), ({"leaks": []}, "allow"), ({"readers": [ANN]}, "deny")):
        answer = await tas.caller.ask(rpc.CHECK_ACCESS, **fields, args={"to": ANN}, origin=stated)
        assert answer.verdict == found


async def test_what_was_read_keeps_the_readers_that_its_version_declared(tas: Running) -> None:
    await ruled(tas)
    run_id = await begun(tas, TASK)
    await returned(tas, run_id, "orders.plans", {"text": SECRET})
    wider = TOOLS[0].model_copy(update={"readers": declared_readers("anybody")})
    (standing,) = (await tas.caller.register(wider)).standings
    assert f"the readers of its output would change from {ANN}, {BOB} to anybody" in standing.reason
    assert await sends(tas, run_id, SECRET, EVE) == [False]
    await returned(tas, run_id, "orders.plans", {"text": "The lock keeper comes at seven"}, step=2)
    assert await sends(tas, run_id, "The lock keeper comes at seven", EVE) == [True]


async def test_an_answer_of_a_run_of_the_thread_that_is_not_read_may_be_known_to_nobody(tas: Running) -> None:
    await ruled(tas, LOOSE)
    above = first = await begun(tas, TASK)
    await returned(tas, first, "orders.plans", {"text": SECRET})
    own, summary = "Hello, said the caller itself", "The keeper of the lock is called Marlowe"
    came = []
    for number in range(run_ancestors.MAX_ANCESTORS + 1):
        turns = [("", own), (str(first), f"It says: {SECRET}."), (str(above), "It is lit")]
        messages = [{"role": "assistant", "content": text, "run_id": run_id or None} for run_id, text in turns]
        thread = {"run_id": str(above), "thread_id": str(first), "summary": summary}
        above = await begun(tas, TASK, messages=messages, continues=thread)
        if number >= run_ancestors.MAX_ANCESTORS - 1:
            came += [await sends(tas, above, text, EVE) for text in (SECRET, own, summary)]
    assert came == [[False], [True], [True], [False], [True], [False]]

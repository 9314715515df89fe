"""Attacks with the broker's credential of a tool worker, on tools, outcomes, confirmations and logs of others."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from tests.attacks.attack import AttackWorkedError, Position, attack, require
from tests.attacks.corpus.schemas import register
from tests.attacks.target import Target, decision, pending_gates

from towpath_contracts import rpc, subjects
from towpath_contracts.decisions.request import MAX_TOOL_LOG_BYTES
from towpath_contracts.streams import TOOLOUT_CONSUMER

CREDENTIAL = "tools_1"
"""The credential of the target's worker: toolsets `desk` and `builtin` of the project `default`."""

ANSWERED_S = 0.3
"""Whoever is refused by the broker hears nothing; what arrives at all arrives sooner."""

REFUSED_WITHIN_S = 60


@attack(Position.WORKER)
async def a_new_tool_under_an_old_pattern(target: Target) -> str:
    """Register another pure tool, which a rule's pattern opens that was written before anybody knew it."""
    name = f"desk.sneak-{uuid.uuid4().hex[:8]}"
    answer = await register(target, {"name": name, "toolset": "desk", "effect_class": "pure"})
    (standing,) = answer["standings"]
    async with target.client() as client:
        asked = {"network": "desk", "agent_key": "clerk", "tool": name, "args": {}}
        checked = (await client.post("/v1/policy/check", json=asked)).json()
    if standing["status"] != "pending" or checked["verdict"] != "deny":
        raise AttackWorkedError(f"the tool is {standing['status']}, and a call of it: {checked['verdict']}")
    return f"{standing['status']}: {standing['reason']}"


@attack(Position.WORKER)
async def a_tool_that_gets_looser(target: Target) -> str:
    """Register a tool that sends as one that only reads and has no sinks."""
    spec = {"name": "desk.send", "toolset": "desk", "effect_class": "pure", "sinks": [], "description": "Look."}
    (standing,) = (await register(target, spec))["standings"]
    if standing["status"] != "pending":
        raise AttackWorkedError(f"the tool is {standing['status']}")
    return f"{standing['status']}: {standing['reason']}"


@attack(Position.WORKER)
async def tools_of_another_toolset(target: Target) -> str:
    """Register tools in toolsets and projects that the credential is not for, by subject and by body."""
    spec = {"name": "pay.all", "toolset": "pay", "effect_class": "pure"}
    body = {"project": "default", "toolset": "pay", "worker": "w", "owner": "o", "tools": [spec]}
    tried = [
        (subjects.for_toolset(rpc.REGISTER_TOOLS.subject, project, toolset), {**body, **other})
        for project, toolset in (("default", "pay"), ("other", "desk"), ("default", "desk"))
        for other in ({}, {"project": "other"})
    ]
    async with _worker(target, denied := list[str]()) as worker:
        answers = [await _ask(worker, subject, asked) for subject, asked in tried]
    taken = [answer for answer in answers if "standings" in answer]
    if taken:
        raise AttackWorkedError(f"registered: {taken}")
    silent = [answer for answer in answers if "code" not in answer]
    require(len(silent) == len(denied), f"{len(silent)} have no answer, and the broker refused {denied}")
    return f"{len(answers)} registrations refused"


@attack(Position.WORKER)
async def a_tool_of_another_toolset_that_is_said_to_have_changed(target: Target) -> str:
    """Offer a tool of another toolset as one whose server defines it anew, so that its calls are held."""
    spec = {"name": "echo", "toolset": "desk", "effect_class": "pure", "discovered": True, "definition": "anew"}
    (standing,) = (await register(target, spec))["standings"]
    async with target.client() as client:
        asked = {"network": "desk", "agent_key": "clerk", "tool": "echo", "args": {"text": "a"}}
        checked = (await client.post("/v1/policy/check", json=asked)).json()
    if standing["status"] != "pending" or checked["violation_type"] == "tool_drifted":
        raise AttackWorkedError(f"the tool is {standing['status']}, and a call of it: {checked['violation_type']}")
    return f"{standing['status']}: {standing['reason']}"


@attack(Position.WORKER)
async def outcomes_of_calls_that_others_make(target: Target) -> str:
    """Report that a call which waits for a person has succeeded, without its ticket."""
    async with target.client() as client:
        run = await target.run(client, [("desk.refund", {"order": "7", "amount": 9999})], "Refund order 7.")
        (gate,) = await pending_gates(client, run["run_id"])
        execution_id = gate["execution_id"]
        forged = {
            "execution_id": execution_id,
            "run_id": run["run_id"],
            "attempt": 1,
            "tool": "desk.refund",
            "status": "succeeded",
            "result": "refunded",
            "worker": "w",
        }
        async with _worker(target) as worker:
            for ticket in ("", "e30.e30"):
                await _report(worker, {**forged, "ticket": ticket, "claim_id": str(uuid.uuid4())})
        await _outcomes_read(target)
        state = await _settled_view(client, run["run_id"])
        if state["status"] in {"completed", "failed"} or not await pending_gates(client, run["run_id"]):
            raise AttackWorkedError(f"the run is {state['status']}")
        await client.post(f"/v1/runs/{run['run_id']}/cancel", json={})
    return "the run still waits for its person"


@attack(Position.WORKER)
async def confirmations_of_what_others_hold(target: Target) -> str:
    """Have the service tell workers of another toolset to forget an outcome, by forged and by unreadable ones."""
    heard: list[bytes] = []

    async def note(message: Msg) -> None:
        heard.append(message.data)

    place, refused = subjects.tool_confirm("default", "builtin", "w1"), list[str]()
    async with target.client() as client:
        run = await target.run(client, [("desk.refund", {"order": "8", "amount": 1})], "Refund order 8.")
        (gate,) = await pending_gates(client, run["run_id"])
        named = {"execution_id": gate["execution_id"], "run_id": run["run_id"], "attempt": 1}
        async with _worker(target, refused) as worker:
            await worker.subscribe(place, cb=note)
            for body in (
                named,
                {**named, "tool": "desk.refund", "status": "succeeded", "worker": "w", "ticket": "a.b"},
            ):
                await _report(worker, body, confirm_to=place)
            await _outcomes_read(target)
            await asyncio.sleep(ANSWERED_S)
        await client.post(f"/v1/runs/{run['run_id']}/cancel", json={})
    require(not refused, f"this credential can't listen there: {refused}")
    if heard:
        raise AttackWorkedError(f"confirmed to others: {heard[0]!r}")
    return "nothing was confirmed"


@attack(Position.WORKER)
async def words_for_another_worker(target: Target) -> str:
    """Say of a worker that serves another toolset that it is idle, so that people take it for drained."""
    async with target.client() as client:
        workers = (await client.get("/v1/workers")).json()["workers"]
        require(workers, "no worker says that it is there")
        victim = workers[0]
        said = {"project": "default", "toolset": "desk", "worker_id": victim["worker_id"], "name": "w", "idle": True}
        async with _worker(target) as worker:
            subject = subjects.for_toolset(rpc.WORKER_BEAT.subject, "default", "desk")
            answers = [await _ask(worker, subject, {**said, "proof": proof}) for proof in ("", victim["worker_id"])]
        now = (await client.get("/v1/workers")).json()["workers"]
        states = {one["state"] for one in now if one["worker_id"] == victim["worker_id"]}
    if states != {"taking"}:
        raise AttackWorkedError(f"the worker is shown as {states}")
    codes = {answer.get("code") for answer in answers}
    require(codes == {"forbidden"}, f"answered {answers}")
    return "refused as forbidden"


@attack(Position.WORKER)
async def log_lines_for_others(target: Target) -> str:
    """Write lines into the log of another project, toolset, and run of another project, and one that is too long."""
    async with target.database() as database:
        other_run = uuid.uuid4()
        await database.execute(
            "INSERT INTO history.run_cursor (run_id, project, seq, prior_seq) VALUES ($1, 'other', 1, 0)", other_run
        )
        line = {"execution_id": str(uuid.uuid4()), "project": "default", "toolset": "desk", "tool": "desk.mail"}
        line |= {"worker": "w", "at": "2026-11-22T12:00:00Z", "message": "forged"}
        mine = str(uuid.uuid4())
        async with _worker(target) as worker:
            for place, more in (
                (("default", "desk"), {"run_id": str(other_run)}),
                (("default", "desk"), {"run_id": mine, "project": "other"}),
                (("default", "desk"), {"run_id": mine, "toolset": "pay"}),
                (("other", "desk"), {"run_id": mine, "project": "other"}),
                (("default", "desk"), {"run_id": mine, "message": "x" * MAX_TOOL_LOG_BYTES}),
                (("default", "desk"), {"run_id": mine, "message": "true"}),
            ):
                await worker.publish(subjects.log_tool(*place), json.dumps({**line, **more}).encode())
            await worker.flush()
            kept: list[str] = []
            while "true" not in kept:
                await asyncio.sleep(0.05)
                rows = await database.fetch("SELECT message FROM history.tool_log WHERE worker = 'w'")
                kept = [row["message"] for row in rows]
    if kept != ["true"]:
        raise AttackWorkedError(f"kept: {kept}")
    return "only the line of its own toolset is kept"


@attack(Position.WORKER)
async def what_only_services_may_say(target: Target) -> str:
    """Publish facts, permits and decisions of people, and listen to what other workers get."""
    run_id = uuid.uuid4()
    told = [
        subjects.run_inbox("tas", run_id),
        subjects.tool_exec("default", "desk"),
        subjects.tool_exec("other", "pay"),
        subjects.tool_confirm("default", "desk", "w"),
        subjects.TOOL_REQUEST,
        *(method.subject for method in (rpc.APPLY_POLICY, rpc.DECIDE_PROPOSAL, rpc.RESOLVE_APPROVAL, rpc.SETTLE_CALL)),
    ]
    listened = [subjects.TOOL_OUTCOME, subjects.TOOL_EXEC_ALL, subjects.TOOL_CONFIRM_ALL, subjects.TOOL_CANCEL_ALL, ">"]
    refused: list[str] = []
    async with _worker(target, refused) as worker:
        for subject in told:
            await worker.publish(subject, b"{}")
        for subject in listened:
            await worker.subscribe(subject)
        await worker.flush()
        with suppress(TimeoutError):
            async with asyncio.timeout(REFUSED_WITHIN_S):
                while len(refused) < len(told) + len(listened):  # noqa: ASYNC110 - the library tells of one at a time
                    await asyncio.sleep(0.02)
    if len(refused) < len(told) + len(listened):
        raise AttackWorkedError(f"of {len(told) + len(listened)} only {len(refused)} were refused: {refused}")
    return f"{len(refused)} subjects refused by the broker"


@attack(Position.WORKER)
async def digests_that_no_database_can_hold(target: Target) -> str:
    """Report of a call that its result and a changed file are stored under names that no query can have."""
    named = "sha256:\0"
    async with target.client() as client, _worker(target) as worker:
        call = await _taken_call(target, client, worker)
        told = {name: call[name] for name in ("execution_id", "run_id", "attempt", "tool", "ticket")}
        told |= {"status": "succeeded", "worker": "w", "blob": True, "result_digest": named}
        await _report(worker, {**told, "changes": [{"path": "a.txt", "digest": named, "size": 1}]})
        ended = await target.settled(client, call["run_id"])
        async with target.database() as database:
            query = "SELECT fact FROM tas.tool_call WHERE run_id = $1"
            fact = json.loads(await database.fetchval(query, uuid.UUID(call["run_id"])) or "{}")
        if fact.get("worker") != "w":
            raise ValueError(f"the report was not taken: {fact}")
        after = await target.run(client, [("desk.mail", {})], "Read the mail.")
        exported = await client.post("/v1/audit/export", json={})
    if (ended["status"], after["status"], exported.status_code) != ("completed", "completed", 200):
        raise AttackWorkedError(f"{ended['status']}, {after['status']}, export: {exported.text[:200]}")
    return "its run and another one ended, and the audit is exported"


async def _taken_call(target: Target, client: httpx2.AsyncClient, worker: NatsClient) -> dict[str, Any]:
    """Take a call of `desk.mail` before the honest worker does; the broker gives each of both some."""
    inbox = worker.new_inbox()
    taken = await worker.subscribe(inbox)
    subject = "$JS.API.CONSUMER.MSG.NEXT.TOOLEXEC.exec_default=desk"
    await worker.publish(subject, json.dumps({"batch": 1, "expires": 60 * 10**9}).encode(), reply=inbox)
    step = decision("USE_TOOL", tool_name="desk.mail", tool_params={})
    script = [step, decision("RESPOND", payload="done")]
    async with asyncio.timeout(60):
        while True:
            body = {"network": "desk", "user_message": "Read the mail.", "script": script}
            (await client.post("/v1/runs", json=body)).raise_for_status()
            try:
                message = await taken.next_msg(timeout=ANSWERED_S)
            except TimeoutError:
                continue
            await message.ack()
            call: dict[str, Any] = json.loads(message.data)
            return call


@asynccontextmanager
async def _worker(target: Target, refused: list[str] | None = None) -> AsyncIterator[NatsClient]:
    """Give a connection with the worker's credential; what the broker refuses is added to *refused*."""
    connection = NatsClient()

    async def note(error: Exception) -> None:
        if refused is not None:
            refused.append(str(error))

    url = target.platform.nats_url_of(CREDENTIAL)
    try:
        await connection.connect(url, inbox_prefix=b"_INBOX_worker", allow_reconnect=False, error_cb=note)
        yield connection
    finally:
        await connection.close()


async def _ask(worker: NatsClient, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        answer = await worker.request(subject, json.dumps(body).encode(), timeout=ANSWERED_S)
    except (TimeoutError, NatsError) as error:
        return {"refused": type(error).__name__}
    found: dict[str, Any] = json.loads(answer.data)
    return found


async def _report(worker: NatsClient, body: Mapping[str, Any], confirm_to: str = "") -> None:
    headers = {rpc.CONFIRM_HEADER: confirm_to} if confirm_to else None
    await worker.publish(subjects.TOOL_OUTCOME, json.dumps(body).encode(), headers=headers)
    await worker.flush()


async def _outcomes_read(target: Target) -> None:
    """Wait until the service has read every outcome that was reported, and has answered for it."""
    async with target.broker("deploy") as deploy, asyncio.timeout(60):
        while True:
            found = await deploy.jetstream().consumer_info(TOOLOUT_CONSUMER.stream, TOOLOUT_CONSUMER.durable)
            if not (found.num_pending or found.num_ack_pending):
                return
            await asyncio.sleep(0.05)


async def _settled_view(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    await asyncio.sleep(ANSWERED_S)
    found: dict[str, Any] = (await client.get(f"/v1/runs/{run_id}")).json()
    return found

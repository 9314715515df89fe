"""Attacks by many messages: what one worker sends of its own may hold up nobody's calls, nor what others ask."""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import nats
from tests.attacks.attack import AttackWorkedError, Position, attack, require
from tests.attacks.corpus.availability import held_up, longest_answer, publish_quiet, quiet_run
from tests.attacks.corpus.workers import CREDENTIAL
from tests.attacks.target import Target, pending_gates

from towpath_contracts import rpc, subjects
from towpath_fabric.clock import monotonic

FLOOD = 6_000
REGISTER = subjects.for_toolset(rpc.REGISTER_TOOLS.subject, "default", "desk")


def _unreadable() -> bytes:
    return b"{}"


def _of_no_call() -> bytes:
    named = {"execution_id": str(uuid.uuid4()), "run_id": str(uuid.uuid4()), "attempt": 1}
    return json.dumps({**named, "tool": "x", "status": "succeeded", "ticket": "a.b", "worker": "w"}).encode()


@attack(Position.WORKER, timed=True)
async def outcomes_without_end(target: Target) -> str:
    """Send thousands of outcomes that are none, or of no call, in front of the outcome that a run waits for."""
    longest = 0.0
    for make in (_unreadable, _of_no_call):
        longest = max(longest, await _run_behind(target, make))
    return held_up(longest, "a run behind them took")


async def _run_behind(target: Target, make: Callable[[], bytes]) -> float:
    """Send FLOOD outcomes, and return how long a run with one call took meanwhile."""
    url = target.platform.nats_url_of(CREDENTIAL)
    worker = await nats.connect(url, inbox_prefix=b"_INBOX_worker", allow_reconnect=False)
    try:
        for _ in range(FLOOD):
            await worker.publish(subjects.TOOL_OUTCOME, make())
        await worker.flush()
        began = monotonic()
        async with target.client() as client, asyncio.timeout(60):
            run = await target.run(client, [("desk.label", {"ids": ["m-1"]})], "Label it.")
        require(run["status"] == "completed", f"the run behind them is {run['status']}")
        return monotonic() - began
    finally:
        await worker.close()


LONG, LISTS = 60, "[" + ",".join(["[[[[[[]]]]]]"] * 70_000) + "]"
"""Messages of 0.9 MB, each of which took up to a second to be read."""


@attack(Position.WORKER, timed=True)
async def long_messages_without_end(target: Target) -> str:
    """Send outcomes, claims and registrations that take long to be read, while runs of another project wait."""
    claim = {"execution_id": str(uuid.uuid4()), "run_id": str(uuid.uuid4()), "claim_id": str(uuid.uuid4())}
    claim |= {"attempt": 1, "worker": "w", "ticket": "a.b"}
    tool = {"name": f"desk.long-{uuid.uuid4().hex[:8]}", "toolset": "desk", "effect_class": "pure"}
    offer = {"project": "default", "toolset": "desk", "worker": "w", "owner": "o", "tools": [tool]}
    said = []
    for subject, body in (
        (subjects.TOOL_OUTCOME, _of_no_call().decode()),
        (rpc.CLAIM_START.subject, json.dumps(claim)),
        (REGISTER, json.dumps(offer)),
    ):
        long = f'{body.removesuffix("}")}, "result": {LISTS}}}'.encode()
        worker = await nats.connect(
            target.platform.nats_url_of(CREDENTIAL), inbox_prefix=b"_INBOX_worker", allow_reconnect=False
        )
        try:
            for _ in range(LONG):
                await worker.publish(subject, long, reply="_INBOX_worker.unheard")
            await worker.flush(timeout=30)
            longest = await _longest_run_beside_others(target)
        finally:
            await worker.close()
        said.append(held_up(longest, f"{subject}: a run of another project took"))
    return "; ".join(said)


CLAIMS = 4_000
"""As many as the service keeps in memory."""


@attack(Position.WORKER, timed=True)
async def claims_without_end(target: Target) -> str:
    """Ask thousands of times whether one call may start, in front of the worker whose call may."""
    longest = 0.0
    async with target.client() as client:
        run = await target.run(client, [("desk.refund", {"order": "9", "amount": 1})], "Refund order 9.")
        (gate,) = await pending_gates(client, run["run_id"])
        for named in ((run["run_id"], gate["execution_id"]), (str(uuid.uuid4()), str(uuid.uuid4()))):
            longest = max(longest, await _run_behind_claims(target, *named))
        await client.post(f"/v1/runs/{run['run_id']}/cancel", json={})
    return held_up(longest, "a run behind them took")


async def _run_behind_claims(target: Target, run_id: str, execution_id: str) -> float:
    claim = {"execution_id": execution_id, "run_id": run_id, "attempt": 1, "worker": "w", "ticket": "a.b"}
    async with target.client() as client, _sent(target, rpc.CLAIM_START.subject, CLAIMS, claim, "claim_id"):
        began = monotonic()
        async with asyncio.timeout(60):
            run = await target.run(client, [("desk.label", {"ids": ["m-1"]})], "Label it.")
        require(run["status"] == "completed", f"the run behind them is {run['status']}")
        return monotonic() - began


REPORTS = 6_000


@attack(Position.WORKER, timed=True)
async def dead_letters_without_end(target: Target) -> str:
    """Report a call's delivery as unreadable thousands of times while another project asks for its policy."""
    async with target.client() as client:
        run = await target.run(client, [("desk.refund", {"order": "9", "amount": 1})], "Refund order 9.")
        (gate,) = await pending_gates(client, run["run_id"])
        named = json.dumps({"run_id": run["run_id"], "execution_id": gate["execution_id"], "attempt": 1})
        report = {"stream": "TOOLEXEC", "subject": subjects.tool_exec("default", "desk"), "reason": "unreadable"}
        report |= {"body_base64": base64.b64encode(named.encode()).decode(), "delivery": 0}
        subject = subjects.for_toolset(rpc.DEAD_LETTER_CALLS.subject, "default", "desk")
        async with _sent(target, subject, REPORTS, report):
            longest = await longest_answer(target, asyncio.sleep(WATCHED_S))
        await client.post(f"/v1/runs/{run['run_id']}/cancel", json={})
    if longest > QUESTION_S:
        raise AttackWorkedError(f"another project waited {longest:.2f} s")
    return f"another project waited {longest:.2f} s at most"


WATCHED_S = 3.0
QUESTION_S = 2.5
"""Half of the time after which a question has no answer: what people ask is not held up as calls may be."""

VERSIONS = 60
"""Of each of 512 tools: some minutes of registrations, put into the database at once here."""

OLDER = """
INSERT INTO tas.tool (project, name, version, digest, spec, chars, status, reason, toolset, owner, worker)
SELECT t.project, t.name, t.version + g, md5(t.name || g), t.spec, t.chars, 'accepted', '', t.toolset, t.owner, t.worker
FROM tas.tool t, generate_series(1, $2::integer) g WHERE starts_with(t.name, $1)
"""


@attack(Position.WORKER, timed=True)
async def tools_that_change_without_end(target: Target) -> str:
    """Register a tool of many with ever another description, while runs of two projects wait for decisions."""
    prefix = f"desk.again-{uuid.uuid4().hex[:8]}-"
    worker = await nats.connect(
        target.platform.nats_url_of(CREDENTIAL), inbox_prefix=b"_INBOX_worker", allow_reconnect=False
    )

    async def register(count: int) -> None:
        about = {"toolset": "desk", "effect_class": "pure", "description": str(uuid.uuid4())}
        tools = [{"name": f"{prefix}{place}", **about} for place in range(count)]
        body = {"project": "default", "toolset": "desk", "worker": "w", "owner": "o", "tools": tools}
        await worker.request(REGISTER, json.dumps(body).encode(), timeout=30)

    async def again() -> None:
        while True:
            await register(1)

    try:
        await register(512)
        async with target.database() as database:
            await database.execute(OLDER, prefix, VERSIONS)
        doing = asyncio.create_task(again())
        longest = await _longest_run_beside_others(target)
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)
    finally:
        await worker.close()
        async with target.database() as database:
            await database.execute("UPDATE tas.tool SET withdrawn = true WHERE starts_with(name, $1)", prefix)
    return held_up(longest, "a run of another project took")


async def _longest_run_beside_others(target: Target) -> float:
    """Return how long a run of another project took at most, beside runs of the worker's own."""
    longest, until = 0.0, monotonic() + WATCHED_S
    async with target.client() as client, target.client(project="bystander") as other:
        await publish_quiet(other)

        async def own() -> None:
            while monotonic() < until:
                await target.run(client, [("desk.mail", {})], "Read it.")

        doing = [asyncio.create_task(own()) for _ in range(2)]
        while monotonic() < until:
            began = monotonic()
            await quiet_run(target, other)
            longest = max(longest, monotonic() - began)
        for one in doing:
            one.cancel()
        await asyncio.gather(*doing, return_exceptions=True)
    return longest


@asynccontextmanager
async def _sent(
    target: Target, subject: str, count: int, body: Mapping[str, Any], named: str = ""
) -> AsyncIterator[None]:
    """Send *body* so often as the worker, under an id of its own in the field *named* if there is one."""
    url = target.platform.nats_url_of(CREDENTIAL)
    worker = await nats.connect(url, inbox_prefix=b"_INBOX_worker", allow_reconnect=False)
    try:
        for _ in range(count):
            own = {named: str(uuid.uuid4())} if named else {}
            await worker.publish(subject, json.dumps({**body, **own}).encode(), reply="_INBOX_worker.unheard")
        await worker.flush()
        yield
    finally:
        await worker.close()


REGISTRATIONS, TOOLS = 12, 13
"""More than one project may have: each registration has about 0.86 MB."""


@attack(Position.WORKER, timed=True)
async def tools_without_end(target: Target) -> str:
    """Register ever more tools with long definitions, which the service has to keep and to read."""
    url = target.platform.nats_url_of(CREDENTIAL)
    worker = await nats.connect(url, inbox_prefix=b"_INBOX_worker", allow_reconnect=False)
    made, longest = uuid.uuid4().hex[:8], 0.0
    try:
        for number in range(REGISTRATIONS):
            names = [f"desk.long-{made}-{number}-{place}" for place in range(TOOLS)]
            long = {"effect_class": "irreversible", "system_params": ["s" * 66_000]}
            tools = [{"name": name, "toolset": "desk", **long} for name in names]
            body = {"project": "default", "toolset": "desk", "worker": "w", "owner": "o", "tools": tools}
            began = monotonic()
            answer = await worker.request(REGISTER, json.dumps(body).encode(), timeout=30)
            longest = max(longest, monotonic() - began)
            if json.loads(answer.data).get("code") == "project_tools_full":
                return f"refused after {number * TOOLS} tools; a registration took {longest:.2f} s at most"
    finally:
        await worker.close()
        async with target.database() as database:
            taken_out = "UPDATE tas.tool SET withdrawn = true WHERE starts_with(name, $1)"
            await database.execute(taken_out, f"desk.long-{made}-")
    raise AttackWorkedError(f"{REGISTRATIONS * TOOLS} long tools are registered")


OWNER_CHARS, OWNED = 300_000, 400
"""What one registration of 340 KB would have made 120 MB of, which every decision of the project loads."""


@attack(Position.WORKER, timed=True)
async def a_long_name_beside_each_tool(target: Target) -> str:
    """Register many tools of one owner with a very long name, which each of them and of their entries would repeat."""
    url = target.platform.nats_url_of(CREDENTIAL)
    worker = await nats.connect(url, inbox_prefix=b"_INBOX_worker", allow_reconnect=False)
    prefix = f"desk.owned-{uuid.uuid4().hex[:8]}-"
    tools = [{"name": f"{prefix}{place}", "toolset": "desk", "effect_class": "pure"} for place in range(OWNED)]
    body = {"project": "default", "toolset": "desk", "worker": "w", "owner": "o" * OWNER_CHARS, "tools": tools}
    try:
        answer = json.loads((await worker.request(REGISTER, json.dumps(body).encode(), timeout=60)).data)
        if "standings" in answer:
            raise AttackWorkedError(f"{OWNED} tools of an owner with {OWNER_CHARS} characters are registered")
        longest = await _longest_run_beside_others(target)
    finally:
        await worker.close()
        async with target.database() as database:
            await database.execute("UPDATE tas.tool SET withdrawn = true WHERE starts_with(name, $1)", prefix)
    return held_up(longest, f"{answer['code']}; a run of another project took")

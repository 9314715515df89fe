"""Cases through the running platform: broker, database, services, a worker with the suites' tools, scripted models.

Every case is a run of its own, with the grant of its user's task. Nobody approves: a call that waits for a person is
denied at once. What became of a case is read from the ledger, not from what the model was told.
"""

import asyncio
import contextlib
import json
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import nats

from attacks import dojo
from attacks.cases import Call, Case
from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.views import ResolveGate
from towpath_contracts.tools.access import ApplyPolicy
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

BENCH = Path(__file__).parents[1]
TOGETHER = 48
"""Runs under way at once; many more only wait for each other."""

LOOK_S = 0.1
MAX_STEPS = 100
RAN = frozenset({"succeeded", "failed"})
"""What the ledger says of a call that was made, with or without success."""


@dataclass(frozen=True, slots=True)
class Made:
    """What became of one call of a script: its word in the ledger, or "" for one that never got there, and the rule."""

    call: Call
    status: str = ""
    rule: str = ""

    @property
    def ran(self) -> bool:
        """Whether the tool was called."""
        return self.status in RAN


@dataclass(frozen=True, slots=True)
class Played:
    """A case that was played: how its run ended, and what became of each call of its script."""

    case: Case
    status: str
    reason: str
    calls: tuple[Made, ...]


class SuitePlatform:
    """A platform that serves the suites' tools."""

    def __init__(self, client: Any, gateway: Any, database: Any) -> None:
        self._client = client
        self._gateway = gateway
        self._database = database

    async def apply(self, policy: str) -> None:
        """Put *policy* in force, or end with its problems."""
        request = ApplyPolicy(project="default", actor="bench", text=policy, source="bench")
        await self._ask(rpc.APPLY_POLICY.subject, request)

    async def publish(self, suites: Collection[str]) -> None:
        """Publish a network for each suite: one agent with all of its tools."""
        for name in suites:
            agent = {
                "key": "agent",
                "is_default": True,
                "allow_respond": True,
                "equipped_tools": [spec.name for spec in dojo.specs(name).values()],
                "prompt_template": "Do what the task asks.",
            }
            spec = {"name": name, "agents": [agent], "max_steps": MAX_STEPS}
            request = PublishNetwork.model_validate({"project": "default", "actor": "bench", "spec": spec})
            await self._ask(rpc.PUBLISH_NETWORK.subject, request)

    async def play(self, cases: Sequence[Case], *, grants: bool) -> list[Played]:
        """Play all *cases*; a person who says no to everything is there meanwhile."""
        refusing = asyncio.create_task(self._refuse())
        room = asyncio.Semaphore(TOGETHER)
        try:
            runs = await asyncio.gather(*(self._run(case, room, grants=grants) for case in cases))
        finally:
            refusing.cancel()
            await asyncio.gather(refusing, return_exceptions=True)
        rows = await self._database.fetch(
            "SELECT run_id::text, tool, args, status, rule, fact FROM tas.tool_call WHERE run_id = ANY($1::uuid[])"
            " ORDER BY run_id, step, call_index",
            [run["run_id"] for run in runs],
        )
        calls = defaultdict(list)
        for row in rows:
            calls[row["run_id"]].append(row)
        return [
            Played(case, run["status"], run["reason"], _matched(case, calls[run["run_id"]]))
            for case, run in zip(cases, runs, strict=True)
        ]

    async def _run(self, case: Case, room: asyncio.Semaphore, *, grants: bool) -> dict[str, Any]:
        answer = {"action": "RESPOND", "action_details": {"payload": "done"}}
        task: dict[str, Any] = {
            "network": case.suite,
            "user_message": case.prompt,
            "system_params": {dojo.CASE: case.key},
            "script": [*(_decision(case.suite, call) for call in case.script), answer],
        }
        if grants:
            task["grant"] = [{"tool": f"{case.suite}.{tool}"} for tool in case.grant]
        async with room:
            accepted = await self._say("task.submit", task)
            while True:
                view = await self._say("task.get.anonymous", {"run_id": accepted["run_id"], "wait_ms": 30_000})
                if view.get("ended_at"):
                    return view

    async def _say(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        while True:
            reply = await self._client.request(subject, json.dumps(body).encode(), timeout=60)
            answer: dict[str, Any] = json.loads(reply.data)
            if "code" not in answer:
                return answer
            if not answer.get("retryable"):
                raise SystemExit(f"{subject} was refused: {answer}")
            await asyncio.sleep(answer.get("retry_after_s") or 1)

    async def _ask(self, subject: str, request: Any) -> None:
        reply = await self._gateway.request(subject, request.model_dump_json().encode(), timeout=60)
        answer = json.loads(reply.data)
        if "code" in answer:
            raise SystemExit(f"{subject} was refused: {json.dumps(answer, indent=1)}")

    async def _refuse(self) -> None:
        """Deny every call that waits for a person, as soon as it does."""
        said: set[str] = set()
        while True:
            rows = await self._database.fetch(
                "SELECT gate_id::text, approval_id::text FROM runs.gate"
                " WHERE status = 'pending' AND gate_type = 'approval'"
            )
            waiting = [row for row in rows if row["gate_id"] not in said]
            said.update(row["gate_id"] for row in waiting)
            for row in waiting:
                no = ResolveGate(
                    project="default",
                    gate_id=row["gate_id"],
                    approval_id=row["approval_id"],
                    verdict="denied",
                    reason="nobody approves here",
                    actor="nobody",
                    roles=("approver",),
                )
                await self._ask(rpc.RESOLVE_APPROVAL.subject, no)
            await asyncio.sleep(LOOK_S)


def _decision(suite: str, call: Call) -> dict[str, Any]:
    details = {"tool_name": f"{suite}.{call.tool}", "tool_params": call.args}
    return {"action": "USE_TOOL", "action_reasoning": "scripted", "action_details": details}


def _matched(case: Case, rows: Sequence[Any]) -> tuple[Made, ...]:
    """Return what the ledger has of each call of the script; both are in the order of the steps."""
    left = list(rows)
    found = []
    for call in case.script:
        made = Made(call)
        if left and left[0]["tool"] == f"{case.suite}.{call.tool}":
            args = {name: value for name, value in json.loads(left[0]["args"]).items() if name != dojo.CASE}
            if args == call.args:
                row = left.pop(0)
                made = Made(call, row["status"], _reason(row))
        found.append(made)
    if left:
        raise SystemExit(f"{case.key}: the ledger has a call that is not in the script: {dict(left[0])}")
    return tuple(found)


def _reason(row: Any) -> str:
    """Return which rule decided; for a denial before any rule, what it violates."""
    if row["status"] == "denied" and not row["rule"] and row["fact"]:
        return str(json.loads(row["fact"]).get("denial", {}).get("violation_type", ""))
    return row["rule"] or ""


@asynccontextmanager
async def suite_platform(cases: Sequence[Case]) -> AsyncIterator[SuitePlatform]:
    """Start a platform with the tools and networks of the *cases*; stop it when the block ends."""
    with temporary_folder() as folder:
        known = folder / "cases.json"
        known.write_text(json.dumps({case.key: (case.suite, case.user_task, case.text) for case in cases}), "utf-8")
        worker = WorkerLaunch(
            modules=("attacks.suite_tools",),
            directory=BENCH,
            concurrency=64,
            environment={
                dojo.CASES_VARIABLE: str(known),
                dojo.DECLARATIONS_VARIABLE: os.environ.get(dojo.DECLARATIONS_VARIABLE, ""),
            },
        )
        platform = Platform(folder / "d", workers=[worker], starts="fork")
        async with platform, contextlib.AsyncExitStack() as stack:
            database = await asyncpg.connect(platform.dsn())
            stack.push_async_callback(database.close)
            gateway = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
            stack.push_async_callback(gateway.close)
            client = await nats.connect(platform.nats_url)
            stack.push_async_callback(client.close)
            served = SuitePlatform(client, gateway, database)
            await served.publish(sorted({case.suite for case in cases}))
            yield served

"""A started platform with the clients and the gate operator of the crash-point sweep.

Submissions and answers are repeated under the same key until they are answered, as any client should do it. Nothing
here knows which process is dead.
"""

import asyncio
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, Self

import asyncpg
import nats
import nats.errors
from nats.aio.client import Client
from tests.chaos.crash_points.tasks import NETWORK, SweepTask
from tests.support.platform.broker_queues import queued_messages

from towpath_contracts import rpc, subjects
from towpath_contracts.base import Message
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.problems.registry import Problem
from towpath_contracts.runs.views import CancelRun, ResolveGate
from towpath_embedded.chaos.judge import FINAL
from towpath_embedded.chaos.outside import read_marks
from towpath_embedded.platform import Platform
from towpath_fabric.clock import monotonic

ACTOR: Final = "somebody"

ASK_S: Final = 3.0
"""How long one question waits; whoever was asked may be dead."""

ASK_AGAIN_S: Final = 0.2
LOOK_S: Final = 0.2
DECIDE_AGAIN_S: Final = 3.0
"""A gate that is still open this long after it was answered is answered again."""

_WHEREABOUTS: Final = """SELECT concat_ws('; ',
    concat(r.run_id, ' is ', r.status, ' in step ', r.step, ', wakes ', r.wake_at),
    (SELECT string_agg(concat(c.tool, ' ', c.status, ', attempt ', c.attempt, ', claims ', c.claims), '; ')
     FROM tas.tool_call c WHERE c.run_id = r.run_id AND c.status NOT IN ('succeeded', 'failed', 'denied', 'void')),
    (SELECT string_agg(concat(g.gate_type, ' gate ', g.status), '; ') FROM runs.gate g
     WHERE g.run_id = r.run_id AND g.status = 'pending')) AS whereabouts
FROM runs.run r WHERE r.run_id::text = ANY ($1)"""

WORK: Final = frozenset({"INBOX", "DECIDE", "TOOLREQ", "TOOLEXEC", "TOOLOUT"})
"""The streams in which nothing may be left when all is quiet."""


class SweepClient:
    """A started platform with its clients and people. Use as a context: people answer gates as long as it is open."""

    def __init__(self, platform: Platform, outside: Path) -> None:
        self.platform = platform
        self.outside = outside
        self.run_ids: dict[str, SweepTask] = {}
        """Every accepted run."""
        self._nc: Client | None = None
        self._caller: Client | None = None
        self._database: asyncpg.Pool[Any] | None = None
        self._gate_task: asyncio.Task[None] | None = None
        self._answered: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        """Connect, publish the network, answer gates in the background."""
        self._database = await asyncpg.create_pool(self.platform.dsn(), min_size=1, max_size=2)
        options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.2}
        self._nc = await nats.connect(self.platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway", **options)
        self._caller = await nats.connect(self.platform.nats_url, **options)
        spec = PublishNetwork.model_validate({"project": "default", "actor": ACTOR, "spec": NETWORK})
        await self.until_done(rpc.PUBLISH_NETWORK.subject, spec)
        self._gate_task = asyncio.create_task(self._answer_gates(), name="people")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        if self._gate_task is not None:
            self._gate_task.cancel()
            await asyncio.gather(self._gate_task, return_exceptions=True)
        for connection in (self._nc, self._caller):
            if connection is not None:
                await connection.close()
        if self._database is not None:
            await self._database.close()

    async def submit(self, task: SweepTask, patience_s: float = 60) -> str:
        """Submit *task*, again and again under its key, and return its run id; TimeoutError after *patience_s*."""
        body = json.dumps(task.body()).encode()
        async with asyncio.timeout(patience_s):
            if task.kind == "enqueued":
                await self._until(subjects.task_enqueue(subjects.ANONYMOUS), body, "seq")
                run_id = await self._run_of(task.body()["idempotency_key"])
            else:
                run_id = str((await self._until(subjects.TASK_SUBMIT_ANONYMOUS, body, "run_id"))["run_id"])
        self.run_ids[run_id] = task
        return run_id

    async def cancel(self, run_id: str) -> None:
        """Ask *run_id* to stop, until that was stored."""
        asked = {"project": "default", "run_id": run_id, "actor": ACTOR, "reason": "enough"}
        await self.until_done(rpc.CANCEL_RUN.subject, CancelRun.model_validate(asked))

    async def cancel_once(self, run_id: str) -> None:
        """Ask *run_id* to stop, once: the process may die before it answers, with the request stored all the same."""
        asked = {"project": "default", "run_id": run_id, "actor": ACTOR, "reason": "enough"}
        await self._ask(rpc.CANCEL_RUN.subject, CancelRun.model_validate(asked))

    async def until_done(self, subject: str, request: Message, patience_s: float = 60) -> None:
        """Ask until it is done; TimeoutError after *patience_s*, with the last answer."""
        last = "nothing"
        try:
            async with asyncio.timeout(patience_s):
                while True:
                    refused = await self._ask(subject, request)
                    if refused is None:
                        return
                    last = refused
                    await asyncio.sleep(ASK_AGAIN_S)
        except TimeoutError:
            raise TimeoutError(f"{subject}: {last}") from None

    async def ended(self, run_ids: Collection[str], patience_s: float) -> list[str]:
        """Wait until every run has ended; return those that have not after *patience_s*."""
        end = monotonic() + patience_s
        while True:
            rows = await self.fetch(
                "SELECT run_id::text FROM runs.run WHERE run_id::text = ANY ($1) AND status = ANY ($2)",
                list(run_ids),
                list(FINAL),
            )
            left = sorted(set(run_ids) - {row["run_id"] for row in rows})
            if self._gate_task is not None and self._gate_task.done():
                await self._gate_task  # raises what ended it: without people no gate is answered
            if not left or monotonic() > end:
                return left
            await asyncio.sleep(LOOK_S)

    async def whereabouts(self, run_ids: Collection[str]) -> list[str]:
        """Describe where each run is, with its open calls and gates, for a run that is stuck."""
        return [row["whereabouts"] for row in await self.fetch(_WHEREABOUTS, sorted(set(run_ids)))]

    async def quiet(self, patience_s: float) -> list[str]:
        """Wait until the broker holds no work and history is complete; return what is left after *patience_s*."""
        end = monotonic() + patience_s
        while left := [*await self._work_left(), *await self._history_left()]:
            if monotonic() > end:
                return left
            await asyncio.sleep(LOOK_S)
        return []

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """Ask the database as its owner."""
        assert self._database is not None
        rows: list[Any] = await self._database.fetch(statement, *values)
        return rows

    async def in_doubt(self, worker: str, effect_class: str) -> bool:
        """Return whether a call of *effect_class* was started by *worker*, just killed, and not reported."""
        rows = await self.fetch(
            "SELECT 1 FROM tas.tool_call c JOIN tas.audit_entry a USING (execution_id) WHERE c.status = 'started'"
            " AND c.effect_class = $1 AND a.phase = 'claim' AND a.verdict = 'granted' AND a.actor = $2",
            effect_class,
            worker,
        )
        return bool(rows)

    async def _work_left(self) -> list[str]:
        try:
            found = await queued_messages(self.platform)
        except (OSError, nats.errors.Error) as error:
            return [f"the broker does not answer: {error}"]
        return [f"{name} has {count} messages" for name, count in found.items() if name in WORK and count]

    async def _history_left(self) -> list[str]:
        rows = await self.fetch(
            "SELECT r.run_id::text FROM runs.run r LEFT JOIN history.run_cursor c ON c.run_id = r.run_id"
            " WHERE c.seq IS DISTINCT FROM r.seq"
        )
        return [f"history of {row['run_id']} is behind" for row in rows]

    async def _run_of(self, key: str) -> str:
        while True:
            rows = await self.fetch("SELECT run_id::text FROM runs.idempotency WHERE key = $1", key)
            if rows:
                return str(rows[0]["run_id"])
            await asyncio.sleep(ASK_AGAIN_S)

    async def _until(self, subject: str, body: bytes, wanted: str) -> dict[str, Any]:
        """Ask until the answer holds *wanted*."""
        while True:
            answer = json.loads(await self._reply(subject, body) or b"{}")
            if wanted in answer:
                return dict(answer)
            await asyncio.sleep(ASK_AGAIN_S)

    async def _ask(self, subject: str, request: Message) -> str | None:
        """Ask once; None when it was done, otherwise the code and text of the refusal."""
        answer = await self._reply(subject, request.model_dump_json().encode())
        if answer is None:
            return "no answer"
        if b'"code"' not in answer[:400]:
            return None
        refused = Problem.model_validate_json(answer)
        return f"{refused.code}: {refused.detail}"

    async def _reply(self, subject: str, body: bytes) -> bytes | None:
        asked = self._caller if subject.startswith("task.") else self._nc
        assert asked is not None
        try:
            return bytes((await asked.request(subject, body, timeout=ASK_S)).data)
        except (TimeoutError, nats.errors.Error):
            return None

    async def _answer_gates(self) -> None:
        while True:
            rows = await self.fetch(
                "SELECT g.gate_id::text, g.run_id::text, g.gate_type, g.execution_id::text, g.approval_id::text,"
                " r.labels ->> 'kind' AS kind FROM runs.gate g JOIN runs.run r USING (run_id)"
                " JOIN runs.idempotency i USING (run_id) WHERE g.status = 'pending' AND i.key NOT LIKE 'alone %'"
            )
            now = monotonic()
            due = [row for row in rows if self._answered.get(row["gate_id"], 0.0) < now - DECIDE_AGAIN_S]
            self._answered.update({row["gate_id"]: now for row in due})
            await asyncio.gather(*(self._decide(row) for row in due))
            await asyncio.sleep(LOOK_S)

    async def _decide(self, gate: Any) -> None:
        """Answer one gate once; whatever comes of it, an open gate is looked at again."""
        if gate["gate_type"] == "approval" and gate["kind"] == "cancelled":
            asked = {"project": "default", "run_id": gate["run_id"], "actor": ACTOR, "reason": "enough"}
            await self._ask(rpc.CANCEL_RUN.subject, CancelRun.model_validate(asked))
            return
        verdict, subject = "approved", rpc.RESOLVE_APPROVAL.subject
        if gate["gate_type"] == "unknown_effect":
            happened = any(mark.execution_id == gate["execution_id"] for mark in read_marks(self.outside))
            verdict, subject = "happened" if happened else "did_not_happen", rpc.RESOLVE_GATE.subject
        answer = {
            "project": "default",
            "gate_id": gate["gate_id"],
            "approval_id": gate["approval_id"],
            "verdict": verdict,
            "reason": "looked at",
            "actor": ACTOR,
            "roles": ["approver"],
        }
        await self._ask(subject, ResolveGate.model_validate(answer))

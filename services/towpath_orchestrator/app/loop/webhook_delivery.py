"""Tells webhooks of gates: makes notices of what is new, and sends them until they are taken.

A notice is a row before it is sent, and one sender holds it at a time; whoever dies leaves it to the next. It
arrives at least once, always under the same id. Gates that only a switch opens want nobody, and are not told: they
would crowd out those that do. No redirect is followed and no answer is read: what the operator's
file names is all that is ever spoken to.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid5

import httpx2

from towpath_contracts.gate_notices import ListNotices, Notice, NoticeBody, NoticePage, RetryNotice
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.switches import PAUSED
from towpath_contracts.text import truncate
from towpath_fabric.clock import NS, monotonic, wall_ns
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.webhooks import Webhook, signed_headers

QUERIES = Queries.load("towpath_orchestrator.adapters", "notices.sql")

LOOK_S = 1.0
GATES_AT_ONCE = 256
AT_ONCE = 8
"""Notices under way to one webhook; a slow one holds up only itself, so webhooks share no limit of connections."""

MAX_IDLE = 20
"""Connections that are kept for the next notice, of all webhooks together."""

TIMEOUT_S = 15.0
"""A whole try, from the wait for a connection to the last line of the answer's head, however slowly that comes."""

LEASE_S = 60.0
"""Longer than a try may take; then somebody else may send the notice."""

RETRY_S = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800)
"""Waits between tries, about as long in all as a gate stays open by default; after them a notice is dead."""

MAX_BACKLOG = 10_000
"""Notices that wait for one webhook; what comes on top is dead at once, and listed."""

UNKNOWN_EFFECT = "unknown_effect"
REASON_CHARS = 500
GONE = 410
"""The receiver wants nothing more: the specification's way to say so."""

HOUSEKEEPING_S = 600.0


class Made(NamedTuple):
    """A notice that is about to be stored."""

    notice_id: UUID
    webhook: str
    gate_id: UUID
    project: str
    kind: str
    body: str
    status: str
    error: str


def body_of(gate: Any, kind: str) -> str:
    """Return what is told of a gate row: who is wanted for what, and nothing of the call but its names.

    An approval's reason is what its rule says; a doubt gets a sentence of its own, since the gate's reason repeats what
    the tool said of its failure.
    """
    detail = json.loads(gate["detail"])
    opened = kind == "gate.opened"
    doubt = f"nobody knows whether {detail.get('tool', 'the call')} happened"
    named = {name: detail.get(name) for name in ("tool", "agent", "rule", "role", "quorum", "revision", "edited_by")}
    data = {
        "gate_id": str(gate["gate_id"]),
        "run_id": str(gate["run_id"]),
        "project": gate["project"],
        "network": gate["network"],
        "gate_type": gate["gate_type"],
        "status": "pending" if opened else gate["status"],
        "reason": truncate(doubt if gate["gate_type"] == UNKNOWN_EFFECT else gate["reason"], REASON_CHARS),
        "opened_at": _text(gate["opened_at"]),
        "expires_at": _text(gate["expires_at"]),
        **{name: value for name, value in named.items() if value},
    }
    if not opened:
        data |= {"verdict": gate["verdict"], "closed_by": gate["closed_by"], "closed_at": _text(gate["closed_at"])}
    at = gate["opened_at"] if opened else gate["closed_at"] or gate["opened_at"]
    return NoticeBody.model_validate({"type": kind, "timestamp": at, "data": data}).model_dump_json()


def notices_of(gate: Any, webhooks: Iterable[Webhook], waiting: Counter[str]) -> list[Made]:
    """Return the notices that a gate row owes to *webhooks*; *waiting* counts what each has before it."""
    if gate["gate_type"] == PAUSED:
        return []
    kinds = ["gate.opened"] if gate["noticed"] == "" else []
    kinds += ["gate.closed"] if gate["status"] != "pending" else []
    made = []
    for kind in kinds:
        for webhook in webhooks:
            if webhook.wants(gate["project"], kind):
                waiting[webhook.name] += 1
                full = waiting[webhook.name] > MAX_BACKLOG
                status, error = ("dead", "the backlog is full") if full else ("pending", "")
                notice_id = uuid5(gate["gate_id"], f"{kind}:{webhook.name}")
                body = body_of(gate, kind)
                made.append(Made(notice_id, webhook.name, gate["gate_id"], gate["project"], kind, body, status, error))
    return made


class Noticing:
    """One replica's part in it; replicas share the work through the table."""

    def __init__(
        self, pool: Any, webhooks: tuple[Webhook, ...], log: Logger, *, look_s: float = LOOK_S, try_s: float = TIMEOUT_S
    ) -> None:
        self._pool = pool
        self._webhooks = webhooks
        self._log = log
        self._look_s = look_s
        self._try_s = try_s
        self._cleaned: float | None = None

    async def run(self) -> None:
        """Look and send for ever; a database that is away only delays it."""
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE)
        async with httpx2.AsyncClient(
            follow_redirects=False, trust_env=False, timeout=TIMEOUT_S, limits=limits
        ) as http:
            await asyncio.gather(self._gathering(), *(self._sending(http, webhook) for webhook in self._webhooks))

    async def _gathering(self) -> None:
        while True:
            try:
                more = await self.gather()
                await self._clean()
            except DATABASE_DOWN as error:
                self._log.info("postgres is away, gates are noticed later", error=type(error).__name__)
                more = False
            if not more:
                await asyncio.sleep(self._look_s)

    async def gather(self) -> bool:
        """Make notices of what is new, in one transaction with the note that they were made; says if more is likely.

        Without webhooks the note is all: whoever is added later is not told of the past.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            gates = await connection.fetch(QUERIES.unnoticed, GATES_AT_ONCE)
            if not gates:
                return False
            made: list[Made] = []
            if self._webhooks:
                rows = await connection.fetch(QUERIES.backlog)
                waiting = Counter({row["webhook"]: row["waiting"] for row in rows})
                made = [notice for gate in gates for notice in notices_of(gate, self._webhooks, waiting)]
            if made:
                await connection.execute(QUERIES.add_notices, *(list(column) for column in zip(*made, strict=True)))
            ids, statuses = [gate["gate_id"] for gate in gates], [gate["status"] for gate in gates]
            await connection.execute(QUERIES.mark_noticed, ids, statuses)
        return len(gates) == GATES_AT_ONCE

    async def _clean(self) -> None:
        if self._cleaned is None or monotonic() - self._cleaned > HOUSEKEEPING_S:
            await self._pool.execute(QUERIES.end_unwanted, [webhook.name for webhook in self._webhooks])
            await self._pool.execute(QUERIES.forget_notices)
            self._cleaned = monotonic()

    async def _sending(self, http: httpx2.AsyncClient, webhook: Webhook) -> None:
        while True:
            try:
                sent = await self.send_due(http, webhook)
            except DATABASE_DOWN as error:
                self._log.info("postgres is away, notices wait", webhook=webhook.name, error=type(error).__name__)
                sent = 0
            if sent == 0:
                await asyncio.sleep(self._look_s)

    async def send_due(self, http: httpx2.AsyncClient, webhook: Webhook) -> int:
        """Send what is due to *webhook*, as much as may be under way at once; returns how many were tried."""
        rows = await self._pool.fetch(QUERIES.claim_notices, webhook.name, AT_ONCE, LEASE_S)
        await asyncio.gather(*(self._send(http, webhook, row) for row in rows))
        return len(rows)

    async def _send(self, http: httpx2.AsyncClient, webhook: Webhook, row: Any) -> None:
        body = row["body"].encode()
        headers = signed_headers(webhook, f"msg_{row['notice_id'].hex}", wall_ns() // NS, body)
        error = ""
        try:
            async with (
                asyncio.timeout(self._try_s),
                http.stream("POST", webhook.url, content=body, headers=headers) as answer,
            ):
                taken, gone = answer.is_success, answer.status_code == GONE
                error = "" if taken else f"it answered {answer.status_code}"
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as failure:
            taken, gone, error = False, False, type(failure).__name__
        status, wait_s = _what_next(row["tries"], taken=taken, gone=gone)
        await self._pool.execute(QUERIES.settle_notice, row["notice_id"], row["tries"], status, error, wait_s)
        if status == "dead":
            self._log.warning("a webhook was not told of a gate", webhook=webhook.name, error=error)

    async def list(self, request: ListNotices) -> NoticePage:
        """Return a page of a project's notices, newest first."""
        asked = (request.project, request.status, request.before, request.limit)
        rows = await self._pool.fetch(QUERIES.list_notices, *asked)
        notices = tuple(Notice.model_validate(dict(row)) for row in rows)
        return NoticePage(notices=notices, next_before=notices[-1].created_at if len(rows) == request.limit else None)

    async def retry(self, request: RetryNotice) -> ActionDone:
        """Let a dead notice be sent again; raises ProblemError where there is none."""
        if await self._pool.fetchval(QUERIES.retry_notice, request.notice_id, request.project) is None:
            raise ProblemError(problem("not_found", f"no dead notice {request.notice_id} in {request.project}"))
        return ActionDone(detail=f"notice {request.notice_id} is sent again")


def _what_next(tries: int, *, taken: bool, gone: bool) -> tuple[str, float]:
    if taken:
        return "sent", 0.0
    if gone or tries > len(RETRY_S):
        return "dead", 0.0
    return "pending", float(RETRY_S[tries - 1])


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()

"""Sends notices of gates: makes them of what is new, and sends them until they are accepted.

A notice is a row before it is sent, and one sender holds it at a time; whoever dies leaves it to the next. It arrives
at least once, always under the same id. Gates that only a switch opens need no person, so there is no notice of them.
Notices go only to the addresses in the operator's files. The text of an e-mail or for a chat is made of the gate as it
is when it is sent, so that arguments stand in no table of notices; a gate that was closed by then needs none any more.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from towpath_contracts.gate_notices import (
    GateNoticeDelivery,
    GateNoticePage,
    GateNoticeReceiver,
    ListGateNotices,
    RetryGateNotice,
)
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.redaction import redact
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.notice_posts import Handover, post_chat, post_webhook, send_mail
from towpath_orchestrator.adapters.notice_targets import Mailbox, Receiver
from towpath_orchestrator.core.notice_text import NoticeText, TextReceiver, notice_text
from towpath_orchestrator.core.webhook_notices import NewNotice, Webhook, event_body, new_notices, status_after_try

if TYPE_CHECKING:
    import httpx2

QUERIES = Queries.load("towpath_orchestrator.adapters", "notices.sql")

LOOK_S = 1.0
GATES_AT_ONCE = 256
AT_ONCE = 8
"""Notices under way to one receiver; a slow one holds up only itself, so receivers share no limit of connections."""

MAX_IDLE = 20
"""Connections that are kept for the next notice, of all receivers together."""

TIMEOUT_S = 15.0
"""A whole try, from the wait for a connection to the last line of the answer's head, however slowly that comes."""

LEASE_S = 60.0
"""Longer than a try may take; then somebody else may send the notice."""

HOUSEKEEPING_S = 600.0

CLOSED_BEFORE = "the gate was closed before"
"""Why a text is sent no more, though nobody has taken it."""


class GateNoticeLoop:
    """Makes and sends notices; replicas share the work through the table."""

    def __init__(
        self,
        pool: Any,
        receivers: tuple[Receiver, ...],
        log: Logger,
        *,
        look_s: float = LOOK_S,
        try_s: float = TIMEOUT_S,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        console_url: str = "",
    ) -> None:
        """Wait for *look_s* by *pause* between two looks: it may wait longer where there is no unfinished run.

        Notices lead to the console at *console_url*, where there is one.
        """
        self._pool = pool
        self._receivers = receivers
        self._console_url = console_url
        self._log = log
        self._look_s = look_s
        self._pause = pause
        self._try_s = try_s
        self._cleaned: float | None = None

    async def run(self) -> None:
        """Look and send for ever; a database that is away only delays it."""
        if not self._receivers:
            await self._make_notices()
            return
        import httpx2  # noqa: PLC0415 - only a platform with receivers sends requests

        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE)
        async with httpx2.AsyncClient(
            follow_redirects=False, trust_env=False, timeout=TIMEOUT_S, limits=limits
        ) as http:
            await asyncio.gather(
                self._make_notices(), *(self._send_notices(http, receiver) for receiver in self._receivers)
            )

    async def _make_notices(self) -> None:
        while True:
            try:
                more = await self.make_notices()
                await self._clean()
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, gates are noticed later", error=type(error).__name__)
                more = False
            if not more:
                await self._pause(self._look_s)

    async def make_notices(self) -> bool:
        """Make notices of new gates, in one transaction with the mark that they were made; returns if more is likely.

        Without receivers only the mark is made: one that is added later gets no notices of the past.
        """
        if not await self._pool.fetchval(QUERIES.any_unnoticed):
            return False
        async with self._pool.acquire() as connection, connection.transaction():
            gates = await connection.fetch(QUERIES.unnoticed, GATES_AT_ONCE)
            if not gates:
                return False
            made: list[NewNotice] = []
            if self._receivers:
                rows = await connection.fetch(QUERIES.backlog)
                waiting = Counter({row["webhook"]: row["waiting"] for row in rows})
                owed = (new_notices(gate, self._receivers, waiting, self._console_url) for gate in gates)
                made = [notice for notices in owed for notice in notices]
            if made:
                await connection.execute(QUERIES.add_notices, *(list(column) for column in zip(*made, strict=True)))
            ids, statuses = [gate["gate_id"] for gate in gates], [gate["status"] for gate in gates]
            await connection.execute(QUERIES.mark_noticed, ids, statuses)
        return len(gates) == GATES_AT_ONCE

    async def _clean(self) -> None:
        if self._cleaned is None or monotonic() - self._cleaned > HOUSEKEEPING_S:
            await self._pool.execute(QUERIES.end_unwanted, [receiver.name for receiver in self._receivers])
            await self._pool.execute(QUERIES.forget_notices)
            self._cleaned = monotonic()

    async def _send_notices(self, http: "httpx2.AsyncClient", receiver: Receiver) -> None:
        while True:
            try:
                sent = await self.send_due(http, receiver)
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, notices wait", webhook=receiver.name, error=type(error).__name__)
                sent = 0
            if sent == 0:
                await self._pause(self._look_s)

    async def send_due(self, http: "httpx2.AsyncClient", receiver: Receiver) -> int:
        """Send what is due to *receiver*, as much as may be under way at once; returns how many were tried."""
        rows = await self._pool.fetch(QUERIES.claim_notices, receiver.name, AT_ONCE, LEASE_S)
        await asyncio.gather(*(self._send(http, receiver, row) for row in rows))
        return len(rows)

    async def _send(self, http: "httpx2.AsyncClient", receiver: Receiver, row: Any) -> None:
        try:
            async with asyncio.timeout(self._try_s):
                done = await self._hand_over(http, receiver, row)
        except TimeoutError as failure:
            done = Handover(False, error=type(failure).__name__)
        status, wait_s = status_after_try(row["tries"], taken=done.taken, gone=done.gone, obsolete=done.obsolete)
        await self._pool.execute(QUERIES.settle_notice, row["notice_id"], row["tries"], status, done.error, wait_s)
        if status == "dead":
            self._log.warning("a notice was given up", webhook=receiver.name, error=done.error)

    async def _hand_over(self, http: "httpx2.AsyncClient", receiver: Receiver, row: Any) -> Handover:
        message_id = f"msg_{row['notice_id'].hex}"
        if isinstance(receiver, Webhook):
            as_event = receiver.format == "cloudevents"
            body = event_body(message_id, row["body"]) if as_event else row["body"].encode()
            return await post_webhook(http, receiver, message_id, body)
        text = await self._text(receiver, row["gate_id"])
        if text is None:
            return Handover(False, error=CLOSED_BEFORE, obsolete=True)
        if isinstance(receiver, Mailbox):
            return await send_mail(receiver, message_id, text, self._try_s)
        return await post_chat(http, receiver, text)

    async def _text(self, receiver: TextReceiver, gate_id: UUID) -> NoticeText | None:
        """Return what is said of a gate; None where nobody is asked there any more."""
        gate = await self._pool.fetchrow(QUERIES.waiting_gate, gate_id)
        if gate is None:
            return None
        try:
            detail = json.loads(redact(gate["detail"]))
        except ValueError:  # a number was a secret, say, and what is left is no JSON: it is told without details
            detail = {}
        return notice_text(gate, detail, self._console_url, shows_arguments=receiver.shows_arguments)

    async def list(self, request: ListGateNotices) -> GateNoticePage:
        """Return a page of a project's notices, newest first."""
        page = (request.project, request.before, request.limit)
        if request.status is None:
            rows = await self._pool.fetch(QUERIES.list_notices, *page)
        else:
            rows = await self._pool.fetch(QUERIES.list_notices_of_status, *page, request.status)
        notices = tuple(GateNoticeDelivery.model_validate(dict(row)) for row in rows)
        receivers = tuple(
            GateNoticeReceiver(name=one.name, channel=_channel(one))
            for one in self._receivers
            if one.wants(request.project, "gate.opened") or one.wants(request.project, "gate.closed")
        )
        return GateNoticePage(
            notices=notices,
            next_before=notices[-1].created_at if len(rows) == request.limit else None,
            receivers=receivers,
            console_url=self._console_url,
        )

    async def retry(self, request: RetryGateNotice) -> ActionDone:
        """Let a dead notice be sent again; raises ProblemError where there is none."""
        if await self._pool.fetchval(QUERIES.retry_notice, request.notice_id, request.project) is None:
            raise ProblemError(
                problem("not_found", f"no dead notice {request.notice_id} in the project {request.project}")
            )
        return ActionDone(detail=f"notice {request.notice_id} is sent again")


def _channel(receiver: Receiver) -> Literal["webhook", "email", "chat"]:
    return "webhook" if isinstance(receiver, Webhook) else "email" if isinstance(receiver, Mailbox) else "chat"

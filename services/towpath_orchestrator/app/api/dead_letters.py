"""Dead letters: what services report, what people see of them, and how people settle them.

A letter is settled once, by one person, and that stands in the audit before it takes effect. Its row is held
meanwhile and changed only when the broker has the message again: a process that dies in between leaves the letter as
it was. A letter of another project does not exist; one whose project nobody knows is shown to those who may see them.
"""

import asyncio
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from towpath_contracts.dead_letters import (
    DeadLetter,
    DeadLetterPage,
    ListDeadLetters,
    ReportDeadLetter,
    RepublishDeadLetter,
    SettleDeadLetter,
)
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.rpc import REPUBLISH
from towpath_contracts.runs.views import ActionDone
from towpath_fabric.dead_letters import (
    DeadLetterOwner,
    decode_reported_body,
    message_dead_fact,
    owner_of_message,
    requeue_id,
    store_reported_dead_letter,
)
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.postgres.pool import Queries
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.app.audited_actions import record_action
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.metrics import OrchestratorMetrics

QUERIES = Queries.load("towpath_orchestrator.adapters", "dead_letters.sql")

REQUESTS = "DECIDE"
"""The stream whose readers have no database."""

OF_TAS = frozenset({"TOOLEXEC", "TOOLOUT"})
"""Streams that only the tool-access service may write."""

ANSWER_BYTES = 900_000
"""Of letters in one answer, as they are encoded: a control character of a body is six bytes there. It fits 1 MiB."""

BODY_BYTES = 800_000
"""Of a body that is shown, as it is encoded."""

_STATUS = {"requeue": "requeued", "discard": "discarded"}


class DeadLetterRequests:
    """Answers `svc.orchestrator.*dead_letter*`."""

    def __init__(
        self, pool: Database, bus: MessageBus, local_facts: LocalFactQueue, metrics: OrchestratorMetrics, log: Logger
    ) -> None:
        self._pool = pool
        self._log = log
        self._settling = asyncio.Lock()  # one connection at most is held while others are asked
        self._bus = bus
        self._local_facts = local_facts
        self._metrics = metrics

    async def report(self, request: ReportDeadLetter) -> ActionDone:
        """Keep a decision request that a decider could not read, and tell its run."""
        body = _body_of_request(request)
        about = owner_of_message(body)
        await self._keep(request, body, about)
        if request.tells and about.run_id is not None and about.effect_id is not None:
            # The body names run and attempt: the fact counts for the pending decision in that attempt, or not at all.
            self._local_facts.add(message_dead_fact(REQUESTS, request.reason, about.run_id, about))
        return ActionDone(detail="kept")

    async def report_of_agent(self, request: ReportDeadLetter, project: str) -> ActionDone:
        """Keep a request that an agent of *project* could not read: a letter of that project, whatever run it names."""
        body = _body_of_request(request)
        await self._keep(request, body, replace(owner_of_message(body), project=project))
        return ActionDone(detail="kept")

    async def _keep(self, request: ReportDeadLetter, body: bytes, owner: DeadLetterOwner) -> None:
        if not await store_reported_dead_letter(self._pool, request, body, owner):
            self._log.error("too many open dead letters, this one is only counted", stream=REQUESTS)
        self._metrics.dead.labels(REQUESTS).inc()

    async def list(self, request: ListDeadLetters) -> DeadLetterPage:
        """Return a page of letters, newest first; bodies only where one letter is asked for."""
        asked = (request.project, request.unowned, request.stream, request.run_id, request.dead_letter_id)
        page = (*asked, request.before, request.limit)
        if request.status is None:
            rows = await self._pool.fetch(QUERIES.letters, *page)
        else:
            rows = await self._pool.fetch(QUERIES.letters_of_status, *page, request.status)
        letters = _fitting(rows)
        more = (len(letters) == request.limit or len(letters) < len(rows)) and request.dead_letter_id is None
        return DeadLetterPage(letters=letters, next_before=letters[-1].dead_letter_id if more else None)

    async def settle(self, request: SettleDeadLetter) -> ActionDone:
        """Send a letter again, or throw it away; raises ProblemError where it is settled already, or being settled."""
        letter = await self._find(request)
        if letter.status != "dead":
            detail = f"dead letter {letter.dead_letter_id} was {letter.status} by {letter.settled_by}"
            raise ProblemError(problem("dead_letter_settled", detail))
        if letter.cut and request.verdict == "requeue":
            raise ProblemError(problem("request_invalid", "only the beginning of this message is kept; discard it"))
        status = _STATUS[request.verdict]
        async with self._settling, self._pool.acquire() as session, session.transaction():
            row = await session.fetchrow(QUERIES.hold_letter, request.dead_letter_id)
            if row is None:
                raise ProblemError(problem("dead_letter_settled", "somebody else settles it just now"))
            await self._audit(request, letter)
            if request.verdict == "requeue":
                await self._publish(request.dead_letter_id, row)
            await session.execute(QUERIES.settle_letter, request.dead_letter_id, status, request.actor, request.reason)
        return ActionDone(detail=f"dead letter {request.dead_letter_id}: {status}")

    async def _find(self, request: SettleDeadLetter) -> DeadLetter:
        asked = ListDeadLetters(
            project=request.project, unowned=request.unowned, status=None, dead_letter_id=request.dead_letter_id
        )
        page = await self.list(asked)
        if not page.letters:
            raise ProblemError(problem("not_found", f"no dead letter {request.dead_letter_id} in {request.project}"))
        return page.letters[0]

    async def _audit(self, request: SettleDeadLetter, letter: DeadLetter) -> None:
        await record_action(
            self._bus,
            request,
            f"dead_letter.{_STATUS[request.verdict]}",
            reason=request.reason,
            run_id=letter.run_id,
            dead_letter_id=letter.dead_letter_id,
            stream=letter.stream,
            subject=letter.subject,
            dead_because=letter.reason,
        )

    async def _publish(self, dead_letter_id: int, row: Any) -> None:
        """Publish under an id of the letter's own: an unclear publish may be repeated without a second message."""
        if row["stream"] in OF_TAS:
            await self._bus.request(REPUBLISH, RepublishDeadLetter(dead_letter_id=dead_letter_id))
            return
        headers = {"Nats-Msg-Id": requeue_id(dead_letter_id, row["body"])}
        if not await self._bus.store(row["subject"], row["body"], headers):
            raise ProblemError(problem("unavailable", "the broker did not take the letter", retry_after_s=2))


def _letter(row: Any) -> DeadLetter:
    values = {name: row[name] for name in row.keys() if name != "body"}  # noqa: SIM118 - a Record iterates over values
    if row["body"] is not None:
        values["body"] = _shown(bytes(row["body"]).decode("utf-8", "replace"))
    return DeadLetter.model_validate(values)


def _shown(text: str) -> str:
    """Return as much of *text* as is encoded in BODY_BYTES."""
    low, high = 0, min(len(text), BODY_BYTES)
    while low < high:
        middle = (low + high + 1) // 2
        if len(to_json(text[:middle])) <= BODY_BYTES:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _fitting(rows: list[Any]) -> tuple[DeadLetter, ...]:
    """Return as many letters as fit an answer, and at least one."""
    letters: list[DeadLetter] = []
    room = ANSWER_BYTES
    for row in rows:
        letter = _letter(row)
        room -= len(letter.model_dump_json())
        if room < 0 and letters:
            break
        letters.append(letter)
    return tuple(letters)


def _body_of_request(report: ReportDeadLetter) -> bytes:
    """Return what a report is about; raises ProblemError where that is no request for a decision."""
    if report.stream != REQUESTS or not report.subject.startswith("decide."):
        raise ProblemError(problem("forbidden", f"only requests of {REQUESTS} are reported here"))
    return decode_reported_body(report)

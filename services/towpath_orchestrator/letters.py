"""Dead letters: what others report, what people see of them, and their word (design §6).

Law: a letter is settled once, by one person, and that stands in the audit before it takes effect. A letter of another
project does not exist; one whose project nobody knows is shown to those who may see them.
"""

import base64
import binascii
from typing import Any

from towpath_contracts.access import RecordAction
from towpath_contracts.dead_letters import (
    DeadLetter,
    DeadLetterPage,
    ListDeadLetters,
    ReportDead,
    Republish,
    SettleDeadLetter,
)
from towpath_contracts.problems import ProblemError, problem
from towpath_contracts.rpc import RECORD_ACTION, REPUBLISH
from towpath_contracts.views import Done
from towpath_fabric.db import Queries
from towpath_fabric.dead_letters import About, about_of, dead_fact, store
from towpath_fabric.ports import Database, Wire
from towpath_orchestrator.loop import CommitLoop
from towpath_orchestrator.metrics import Metrics

QUERIES = Queries.load("towpath_orchestrator", "letters.sql")

REQUESTS = "DECIDE"
"""The stream whose readers have no database."""

OF_TAS = frozenset({"TOOLEXEC", "TOOLOUT"})
"""Streams that only the tool-access service may write."""

BODY_CHARS = 300_000
"""Of a body that is shown; at most three bytes each, so that the answer fits a message."""

_STATUS = {"requeue": "requeued", "discard": "discarded"}


class Letters:
    """Answers `svc.orchestrator.*dead_letter*`."""

    def __init__(self, pool: Database, bus: Wire, loop: CommitLoop, metrics: Metrics) -> None:
        self._pool = pool
        self._bus = bus
        self._loop = loop
        self._metrics = metrics

    async def report(self, request: ReportDead) -> Done:
        """Keep a decision request that a decider could not read, and tell its run."""
        if request.stream != REQUESTS or not request.subject.startswith("decide."):
            raise ProblemError(problem("forbidden", f"only requests of {REQUESTS} are reported here"))
        try:
            body = base64.b64decode(request.body_base64, validate=True)
        except (ValueError, binascii.Error) as error:
            raise ProblemError(problem("request_invalid", "body_base64 is not base64")) from error
        said = about_of(body)
        known = About(run_id=said.run_id, effect_id=said.effect_id, attempt=said.attempt)
        await store(self._pool, REQUESTS, request.subject, body, request.reason, request.delivery, known)
        self._metrics.dead.labels(REQUESTS).inc()
        if request.tells and said.run_id is not None and said.effect_id is not None:
            self._loop.add(dead_fact(REQUESTS, request.reason, said.run_id, said))
        return Done(detail="kept")

    async def list(self, request: ListDeadLetters) -> DeadLetterPage:
        """Return a page of letters, newest first; bodies only where one letter is asked for."""
        rows = await self._pool.fetch(
            QUERIES.letters,
            *(request.project, request.unowned, request.status, request.stream, request.run_id),
            *(request.dead_letter_id, request.before, request.limit),
        )
        letters = tuple(_letter(row) for row in rows)
        more = len(letters) == request.limit and request.dead_letter_id is None
        return DeadLetterPage(letters=letters, next_before=letters[-1].dead_letter_id if more else None)

    async def settle(self, request: SettleDeadLetter) -> Done:
        """Send a letter again, at most once, or throw it away; raises ProblemError where it is settled already."""
        letter = await self._find(request)
        if letter.status != "dead":
            detail = f"dead letter {letter.dead_letter_id} was {letter.status} by {letter.settled_by}"
            raise ProblemError(problem("dead_letter_settled", detail))
        await self._audit(request, letter)
        status = _STATUS[request.verdict]
        row = await self._pool.fetchrow(
            QUERIES.settle_letter, request.dead_letter_id, status, request.actor, request.reason
        )
        if row is None:
            raise ProblemError(problem("dead_letter_settled", "somebody else settled it just now"))
        if request.verdict == "requeue":
            await self._send_again(request.dead_letter_id, row)
        return Done(detail=f"dead letter {request.dead_letter_id}: {status}")

    async def _find(self, request: SettleDeadLetter) -> DeadLetter:
        asked = ListDeadLetters(
            project=request.project, unowned=request.unowned, status=None, dead_letter_id=request.dead_letter_id
        )
        page = await self.list(asked)
        if not page.letters:
            raise ProblemError(problem("not_found", f"no dead letter {request.dead_letter_id} in {request.project}"))
        return page.letters[0]

    async def _audit(self, request: SettleDeadLetter, letter: DeadLetter) -> None:
        await self._bus.ask(
            RECORD_ACTION,
            RecordAction(
                project=request.project,
                action=f"dead_letter.{_STATUS[request.verdict]}",
                actor=request.actor,
                reason=request.reason,
                run_id=letter.run_id,
                detail={
                    "dead_letter_id": letter.dead_letter_id,
                    "stream": letter.stream,
                    "subject": letter.subject,
                    "dead_because": letter.reason,
                },
            ),
        )

    async def _send_again(self, dead_letter_id: int, row: Any) -> None:
        """Publish under an id of the letter's own: an unclear publish may be repeated without a second message."""
        try:
            await self._publish(dead_letter_id, row)
        except ProblemError:
            await self._pool.execute(QUERIES.reopen_letter, dead_letter_id)
            raise

    async def _publish(self, dead_letter_id: int, row: Any) -> None:
        if row["stream"] in OF_TAS:
            await self._bus.ask(REPUBLISH, Republish(dead_letter_id=dead_letter_id))
        elif not await self._bus.store(row["subject"], row["body"], {"Nats-Msg-Id": f"dead:{dead_letter_id}"}):
            raise ProblemError(problem("unavailable", "the broker did not take the letter", retry_after_s=2))


def _letter(row: Any) -> DeadLetter:
    values = {name: row[name] for name in row.keys() if name != "body"}  # noqa: SIM118 - a Record iterates over values
    if row["body"] is not None:
        values["body"] = bytes(row["body"]).decode("utf-8", "replace")[:BODY_CHARS]
    return DeadLetter.model_validate(values)

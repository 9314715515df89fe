"""Composition root of the tool-access service."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

from towpath_contracts import rpc
from towpath_contracts.base import Message
from towpath_contracts.problems import ProblemError, problem
from towpath_contracts.streams import TOOLOUT_CONSUMER, TOOLREQ_CONSUMER, exec_consumer
from towpath_fabric.db import DATABASE_DOWN
from towpath_fabric.lane import Lane
from towpath_fabric.pull import PullConsumer
from towpath_fabric.service import Service
from towpath_fabric.streams import ensure_streams
from towpath_fabric.tickets import TicketSigner
from towpath_tas.adapters.keys import KeyFileError, load_key
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app.access import Access
from towpath_tas.app.aside import DeadLetters
from towpath_tas.app.book import Book, Clock
from towpath_tas.app.claims import Claims
from towpath_tas.app.house import House
from towpath_tas.app.laws import Laws
from towpath_tas.app.outcomes import Outcomes
from towpath_tas.app.policies import Policies, PolicyFile
from towpath_tas.app.records import Audit, Blobs
from towpath_tas.app.requests import Requests
from towpath_tas.app.sending import Sender, Tickets
from towpath_tas.app.settling import Settling
from towpath_tas.app.tools import Tools
from towpath_tas.metrics import Metrics
from towpath_tas.settings import TasSettings

Handler = Callable[[Any], Awaitable[Message]]


class ToolAccess:
    """Wires the parts of one replica once database and broker are there."""

    def __init__(self, service: Service, settings: TasSettings, signer: TicketSigner) -> None:
        self._service = service
        self._settings = settings
        self._signer = signer
        self._metrics = Metrics(service.registry)
        self._laws = Laws(self._metrics)
        self._clock = Clock()
        self._book = Book(self._laws, self._clock, self._metrics, service.log, cache_calls=settings.cache_calls)

    async def start(self) -> None:
        """Declare streams, apply the policy file, answer requests, begin to work."""
        bus, pool = self._service.bus, self._service.pool
        await self._book.learn_time(pool)
        await self._ensure()
        tickets = Tickets(self._signer, self._clock, self._settings.ticket_life_s)
        sender = Sender(bus, tickets, self._metrics)
        policies = Policies(pool, self._laws)
        if self._settings.policy_file is not None:
            watch = PolicyFile(policies, self._settings.policy_file, self._settings.policy_project, self._service.log)
            await watch.look()
            self._service.loop(watch.run)
        self._answer(policies, Tools(pool, bus, tickets, trusting=self._settings.embedded))
        self._answer_people(Settling(pool, self._book, sender), Audit(pool), Blobs(pool, tickets))
        await self._start_loops(tickets, sender)
        self._service.loop(House(pool, self._service.log).run)

    def _answer(self, policies: Policies, tools: Tools) -> None:
        access = Access(self._service.pool, self._laws)
        self._serve(rpc.CHECK_ACCESS, access.check)
        self._serve(rpc.GET_PERMISSIONS, access.permissions)
        self._serve(rpc.DESCRIBE_TOOLS, access.describe)
        self._serve(rpc.APPLY_POLICY, policies.apply)
        self._serve(rpc.GET_POLICY, policies.show)
        self._serve(rpc.REGISTER_TOOLS, tools.register)
        self._serve(rpc.DECIDE_PROPOSAL, tools.decide)

    def _answer_people(self, settling: Settling, audit: Audit, blobs: Blobs) -> None:
        self._serve(rpc.RAISE_FENCE, settling.raise_fence)
        self._serve(rpc.RESOLVE_APPROVAL, settling.resolve_approval)
        self._serve(rpc.SETTLE_CALL, settling.settle_call)
        self._serve(rpc.AUDIT_QUERY, audit.query)
        self._serve(rpc.RECORD_ACTION, audit.record)
        self._serve(rpc.BLOB_PUT, blobs.put)

    def _serve(self, method: rpc.Method, handler: Handler) -> None:
        """Answer *method*; while Postgres is away the answer is `unavailable`, so that nobody waits for a timeout."""

        async def reachable(request: Any) -> Message:
            try:
                return await handler(request)
            except DATABASE_DOWN as error:
                raise ProblemError(problem("unavailable", "the ledger can't be reached", retry_after_s=2)) from error

        self._service.bus.answer(method, reachable)

    async def _start_loops(self, tickets: Tickets, sender: Sender) -> None:
        service, bus, pool, metrics = self._service, self._service.bus, self._service.pool, self._metrics
        size, log = self._settings.batch_size, service.log
        asked = PullConsumer(bus.nc, TOOLREQ_CONSUMER, window=2 * size, rebind=self._ensure)
        ended = PullConsumer(bus.nc, TOOLOUT_CONSUMER, window=2 * size, rebind=self._ensure)
        requests = Requests(
            *(asked, Lane(pool), self._book, sender, DeadLetters(pool, "TOOLREQ", metrics, log), metrics, log),
            batch_size=size,
            telemetry=service.telemetry,
        )
        outcomes = Outcomes(
            *(ended, Lane(pool), self._book, sender, tickets, bus, DeadLetters(pool, "TOOLOUT", metrics, log)),
            *(metrics, log),
            batch_size=size,
        )
        claims = Claims(bus, Lane(pool), self._book, sender, tickets, metrics, log)
        for consumer in (asked, ended):
            await consumer.start()
            service.on_stop(consumer.stop)
        await claims.start()
        service.on_stop(claims.stop)
        for loop in (requests.run, outcomes.run, claims.run):
            service.loop(loop)

    async def _ensure(self) -> None:
        """Declare streams and consumers, also those of every toolset that a project ever registered."""
        try:
            rows: list[Any] = await self._service.pool.fetch(QUERIES.toolsets)
        except DATABASE_DOWN as error:
            raise TimeoutError from error  # "not now": whoever wanted this tries again
        extra = tuple(exec_consumer(row["project"], row["toolset"]) for row in rows)
        await ensure_streams(self._service.bus.nc, extra)


def main() -> int:
    """Run one replica; returns the exit code."""
    settings = TasSettings.load()
    service = Service("tas", settings)
    if settings.ticket_key_file is None:
        service.log.error("TOWPATH_TICKET_KEY_FILE is not set: without a key no ticket can be signed")
        return 2
    try:
        key = load_key(settings.ticket_key_file, create=settings.embedded)
    except KeyFileError as error:
        unusable = str(error)
    else:
        service.on_start(ToolAccess(service, settings, TicketSigner(key)).start)
        return service.run()
    service.log.error("the ticket key can't be used", problem=unusable)
    return 2


if __name__ == "__main__":
    sys.exit(main())

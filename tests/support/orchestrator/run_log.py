"""A peer that keeps run logs and tells of them over real NATS, as an orchestrator does.

It is told by the test what to tell: everything, something twice, in another order, or nothing at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.orchestrator.run_history import messages

from towpath_contracts import subjects
from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import AnyEvent, LogEntry, TransitionEvents
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.rpc import EVENTS_SINCE, PROBLEM_HEADER, SWEEP_RUNS
from towpath_contracts.runs.views import ChangedRunList, GetEventsSince, ListChangedRuns, RunSeq

MOST_BYTES = 900_000


@dataclass
class KeptRun:
    """A run's log as it is committed."""

    project: str
    entries: list[LogEntry] = field(default_factory=list)
    updated_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class RunLog:
    """Keeps logs and answers for them; the test says what is published."""

    nc: Client
    runs: dict[UUID, KeptRun] = field(default_factory=dict)
    reads: list[GetEventsSince] = field(default_factory=list)
    answering: bool = True
    spoilt: dict[tuple[UUID, int], str] = field(default_factory=dict)
    unreadable: set[UUID] = field(default_factory=set)

    async def start(self) -> None:
        """Answer readers."""
        await self.nc.subscribe(EVENTS_SINCE.subject, cb=self._on_events_since)
        await self.nc.subscribe(SWEEP_RUNS.subject, cb=self._on_sweep)

    def keep(
        self, run: UUID, transitions: Sequence[Sequence[AnyEvent]], project: str = "default"
    ) -> list[TransitionEvents]:
        """Commit a run's whole log; return what an orchestrator would tell of it."""
        told = messages(run, transitions, project)
        entries = [entry for message in told for entry in message.entries]
        self.runs[run] = KeptRun(project=project, entries=entries, updated_at=datetime.now(UTC))
        return told

    async def tell(self, told: Iterable[TransitionEvents]) -> None:
        """Publish into EVENTS, in the order given."""
        js = self.nc.jetstream()
        for message in told:
            await js.publish(subjects.run_event(message.run_id), message.model_dump_json().encode())

    async def _on_events_since(self, message: Msg) -> None:
        wanted = GetEventsSince.model_validate_json(message.data)
        self.reads.append(wanted)
        if wanted.run_id in self.unreadable:
            await self._refuse(message, problem("internal", "this log can't be read"))
            return
        run = self.runs.get(wanted.run_id)
        if run is None:
            refused = problem("run_not_found", "no such run")
            await self._refuse(message, refused)
            return
        entries = tuple(entry for entry in run.entries if entry.seq > wanted.after)[: wanted.limit]
        page = EventPage(run_id=wanted.run_id, entries=entries, seq=len(run.entries), status="completed")
        body = self._spoil(page)
        if len(body) < MOST_BYTES:  # what does not fit into a message is never answered
            await message.respond(body)

    def _spoil(self, page: EventPage) -> bytes:
        """Write an answer in which the events that the test named are some other JSON text."""
        texts = [
            f'{{"seq": {entry.seq}, "at": "{entry.at.isoformat()}", "event": {spoilt}}}'
            if (spoilt := self.spoilt.get((page.run_id, entry.seq)))
            else entry.model_dump_json()
            for entry in page.entries
        ]
        empty = page.model_copy(update={"entries": ()}).model_dump_json()
        return empty.replace('"entries":[]', f'"entries":[{",".join(texts)}]').encode()

    async def _on_sweep(self, message: Msg) -> None:
        if not self.answering:
            await self._refuse(message, problem("unavailable", "not now"))
            return
        wanted = ListChangedRuns.model_validate_json(message.data)
        moved = sorted(
            (
                RunSeq(run_id=key, project=run.project, seq=len(run.entries), updated_at=run.updated_at)
                for key, run in self.runs.items()
                if run.updated_at >= wanted.since
            ),
            key=lambda run: run.updated_at,
        )[: wanted.limit]
        swept = ChangedRunList(runs=tuple(moved), until=moved[-1].updated_at if moved else wanted.since)
        await message.respond(swept.model_dump_json().encode())

    async def _refuse(self, message: Msg, refused: Problem) -> None:
        await self.nc.publish(message.reply, refused.model_dump_json().encode(), headers={PROBLEM_HEADER: refused.code})


async def wait_for(check: Callable[[], Awaitable[object]], within_s: float = 60.0) -> None:
    """Wait until *check* returns something true."""
    end = asyncio.get_running_loop().time() + within_s
    while not await check():
        assert asyncio.get_running_loop().time() < end, "it did not come true in time"
        await asyncio.sleep(0.02)

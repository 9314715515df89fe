"""The watchdog as a process: it finds what the stream did not tell, reads it from the run log, and reports facts."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.orchestrator import run_history as h
from tests.support.orchestrator.run_log import RunLog, wait_for
from tests.support.service_process import service_process

from towpath_contracts import subjects
from towpath_contracts.events import log as ev
from towpath_contracts.facts import SOURCE_FACTS, WatchdogReportedFact
from towpath_contracts.rpc import IDLE_RUNS
from towpath_contracts.runs.idle_runs import IdleRun, IdleRunList, ListIdleRuns
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.streams import ensure_streams

QUICK = {"watchdog_linger_ms": "10", "watchdog_sweep_s": "0.2", "watchdog_look_s": "0.2", "watchdog_quiet_s": "60"}


@pytest.fixture
async def nc(nats_server: Nats) -> AsyncIterator[Client]:
    connection = await nats.connect(nats_server.url())
    await ensure_streams(connection)
    yield connection
    await connection.close()


def stalled(run: UUID, *more: ev.AnyEvent) -> list[list[ev.AnyEvent]]:
    """The transitions of a run whose progress stands still for eight steps."""
    still = [ev.ProgressMeasured(step=step, source="tests", score=0.3) for step in range(1, 10)]
    return [[h.created()], [ev.RunStarted(), h.asked(run, 1)], *([one] for one in still), list(more)]


def idle(run: UUID, kind: str, for_s: float) -> IdleRun:
    return IdleRun.model_validate(
        {
            "run_id": run,
            "project": "default",
            "seq": 12,
            "status": "running",
            "idle": kind,
            "since": datetime.now(UTC),
            "for_s": for_s,
        }
    )


async def test_what_the_stream_lost_is_read_and_what_stands_still_is_asked_for(
    nats_server: Nats, nc: Client, folder: Path
) -> None:
    """What stands still is told once while it does; a log that is refused stands in the way of no other run."""
    gap, lost, over, slow, silent, overdue, unread, unread_long = (uuid4() for _ in range(8))
    log, questions, facts = RunLog(nc), list[ListIdleRuns](), dict[UUID, WatchdogReportedFact]()
    log.unreadable, told_of = {unread, unread_long}, list[UUID]()

    async def on_idle(message: Msg) -> None:
        questions.append(ListIdleRuns.model_validate_json(message.data))
        standing = [idle(overdue, "overdue", 31), idle(unread, "quiet", 599), idle(unread_long, "quiet", 661)]
        standing += [idle(slow, "quiet", 119), idle(silent, "quiet", 121)]
        await message.respond(IdleRunList(runs=tuple(standing)).model_dump_json().encode())

    async def on_fact(message: Msg) -> None:
        fact = WatchdogReportedFact.model_validate_json(message.data)
        assert message.subject == subjects.run_inbox("watchdog", fact.run_id)
        assert fact.type in SOURCE_FACTS["watchdog"]
        message_id = (message.headers or {})["Nats-Msg-Id"]
        # An agent could store an id first that can be guessed.
        assert re.fullmatch(f"{fact.fact_id}:[0-9a-f]{{32}}", message_id)
        facts[fact.run_id] = fact
        told_of.append(fact.run_id)

    await log.start()
    await nc.subscribe(IDLE_RUNS.subject, cb=on_idle)
    await nc.subscribe("run.inbox.watchdog.*", cb=on_fact)
    with service_process("watchdog", folder, nats_server.url(), **QUICK) as watchdog:
        await watchdog.wait_ready()
        for run in (slow, silent):
            log.keep(run, [[h.created(step_timeout_ms=60_000)]])
        events = log.keep(gap, stalled(gap))
        await log.tell([*events[:3], *events[6:]])
        await nc.jetstream().publish(subjects.run_event(gap), b"no JSON")
        log.keep(over, stalled(over, h.ended(9)))
        log.keep(lost, stalled(lost))  # nothing is told of these two: the sweep finds them
        await wait_for(lambda: asyncio.sleep(0, {gap, lost, silent, overdue} <= facts.keys()), within_s=60)
        seen = len(questions)
        await wait_for(lambda: asyncio.sleep(0, len(questions) >= seen + 4), within_s=60)
        assert watchdog.process.poll() is None
    assert [told_of.count(run) for run in (overdue, silent, unread_long)] == [1, 1, 1]
    found = {run: (fact.finding, fact.key) for run, fact in facts.items()}
    assert found == {
        gap: ("stalled_progress", "stalled_progress"),
        lost: ("stalled_progress", "stalled_progress"),
        silent: ("silent", "silent:quiet"),
        unread_long: ("silent", "silent:quiet"),
        overdue: ("lost", "lost:overdue"),
    }
    assert (facts[gap].since, facts[gap].steps, facts[overdue].since) == (5, 8, 12)
    assert (questions[0].overdue_s, questions[0].quiet_s, questions[0].queued_s) == (30, 60, 3_600)

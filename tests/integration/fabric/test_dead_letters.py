"""Dead letters: stored once, reported to their run, settled once by a person, and audited."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any, Self
from uuid import UUID, uuid4

import asyncpg
import pytest
import structlog
from tests.integration.orchestrator.test_task_runs import ended, publish, submit, three_steps
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator

from towpath_contracts import rpc, subjects
from towpath_contracts.dead_letters import DeadLetter, ListDeadLetters, SettleDeadLetter
from towpath_contracts.events.log import EffectResent
from towpath_contracts.problems.registry import Problem
from towpath_contracts.runs.views import GetEvents, GetRun
from towpath_fabric.dead_letter_reports import report_dead_letter


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


async def letters(peers: Peers, count: int, project: str = "default", **more: Any) -> list[DeadLetter]:
    """Wait until there are *count* letters; returns them, oldest first."""
    for _ in range(600):
        page = await peers.ask(rpc.LIST_DEAD_LETTERS, ListDeadLetters(project=project, **more))
        if len(page.letters) >= count:
            return list(reversed(page.letters))
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{len(page.letters)} of {count} letters")


async def settle(
    peers: Peers, letter: DeadLetter, verdict: str, project: str = "default", *, unowned: bool = False
) -> dict[str, Any]:
    request = SettleDeadLetter(
        project=project,
        unowned=unowned,
        dead_letter_id=letter.dead_letter_id,
        verdict=verdict,
        actor="ann",
        reason="repaired",
        key_prefix="k1",
    )
    reply = await peers.raw(rpc.SETTLE_DEAD_LETTER.subject, request.model_dump_json().encode())
    answer: dict[str, Any] = json.loads(reply.data)
    return answer


async def test_a_letter_is_settled_once_and_a_requeued_message_is_handled(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await peers.until(lambda: len(peers.requests) >= 1)
        inbox = subjects.run_inbox("tas", peers.requests[0].run_id)
        await peers.nc.jetstream().publish(inbox, b"{not json")
        await peers.nc.jetstream().publish(subjects.task_enqueue("anonymous"), b"not a task")
        await peers.nc.jetstream().publish(subjects.run_inbox("tas", uuid4()), b"{not json")
        mine = await letters(peers, 2)
        (letter,) = [found for found in mine if found.stream == "INBOX"]
        (task,) = [found for found in mine if found.stream == "TASKS"]
        assert (letter.stream, letter.subject, str(letter.run_id), letter.body) == ("INBOX", inbox, run_id, None)
        assert len(mine) == 2 and len(await letters(peers, 3, unowned=True)) == 3
        (shown,) = await letters(peers, 1, dead_letter_id=letter.dead_letter_id)
        assert shown.body == "{not json"

        assert (await settle(peers, letter, "discard", "other"))["code"] == "not_found"
        assert (await settle(peers, letter, "discard"))["detail"].endswith("discarded")
        assert (await settle(peers, letter, "requeue"))["code"] == "dead_letter_settled"
        settled = [a for a in peers.actions if a.action != "network.published"]
        audited = [(a.action, a.actor, a.reason, a.detail["dead_letter_id"], a.detail["by_key"]) for a in settled]
        assert audited == [("dead_letter.discarded", "ann", "repaired", letter.dead_letter_id, "k1")]

        # The answer to the call as a letter: once it is sent again, the run goes on.
        connection = await asyncpg.connect(database())
        request = peers.requests[0]
        fact = {"type": "tool.finished", "run_id": run_id, "execution_id": str(request.execution_id)}
        await connection.execute(
            "INSERT INTO runs.dead_letter (stream, subject, run_id, reason, body) VALUES ('INBOX', $1, $2, 'r', $3)",
            *(inbox, run_id, json.dumps({**fact, "status": "succeeded", "result": "late"}).encode()),
        )
        await connection.close()
        assert (await settle(peers, task, "discard"))["detail"].endswith("discarded")
        (found,) = await letters(peers, 1)
        # Who knows its number stores another message under the id that one might expect: no copy of the letter.
        forged = subjects.run_inbox("agent.default.critic", uuid4())
        await peers.nc.jetstream().publish(forged, b"x", headers={"Nats-Msg-Id": f"dead:{found.dead_letter_id}"})
        assert (await settle(peers, found, "requeue"))["detail"].endswith("requeued")
        await peers.until(lambda: len({request.execution_id for request in peers.requests}) >= 2)
        assert (await settle(peers, found, "requeue"))["code"] == "dead_letter_settled"
        assert await letters(peers, 0) == []
        again = await letters(peers, 1, status="requeued")
        assert (again[0].settled_by, again[0].settled_reason) == ("ann", "repaired")


async def test_a_run_asks_again_and_ends_when_nobody_can_read_what_it_asks(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """The decider can't read its requests: each report makes the run ask again, the third ends it."""
    async with orchestrator(database("orchestrator"), nats_server.url()), Reports(nats_server.url()) as bus:
        await publish(peers)
        peers.unreadable = bus.report
        run_id = (await submit(peers))["run_id"]
        view = await ended(peers, run_id)
        assert (view.status, view.reason) == ("failed", "dead_lettered")
        kept = await letters(peers, 3)
        assert {(letter.stream, str(letter.run_id), letter.failures) for letter in kept} == {("DECIDE", run_id, 1)}
        page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=run_id))
        resent = [e.event for e in page.entries if isinstance(e.event, EffectResent)]
        assert [(event.attempt, event.dead) for event in resent] == [(2, "DECIDE: broken"), (3, "DECIDE: broken")]


class Reports:
    """A connection of a service without a database."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Self:
        from towpath_fabric.nats.bus import Bus
        from towpath_fabric.settings import Settings

        self._bus = Bus("decider", Settings(nats_url=self._url))
        await self._bus.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._bus.close()

    async def report(self, message: Any, stream: str = "DECIDE") -> bool:
        """Report a message, as if it could not be read; the second report is the same letter."""
        log = structlog.get_logger()
        kept = await report_dead_letter(self._bus, rpc.DEAD_LETTER_RUNS, stream, message, "broken", log)
        if kept and message.metadata.sequence.stream == 1:
            assert await report_dead_letter(self._bus, rpc.DEAD_LETTER_RUNS, stream, message, "broken", log)
        return kept


def forged(run_id: str, effect: dict[str, Any], delivery: int, **changes: Any) -> bytes:
    """What whoever has the decider's credential may say of a request that there never was."""
    found = json.dumps({"run_id": run_id, **effect}).encode()
    report = {
        "stream": "DECIDE",
        "subject": "decide.default",
        "reason": "forged",
        "body_base64": base64.b64encode(found).decode(),
        "delivery": delivery,
    }
    return json.dumps({**report, **changes}).encode()


async def test_forged_reports_end_no_run(database: Any, nats_server: Any, peers: Peers) -> None:
    """A report counts for a pending decision alone, and once for each of its attempts."""
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await peers.until(lambda: len(peers.requests) >= 1)
        called = str(peers.requests[0].execution_id)
        words = [{name: called, "attempt": n} for name in ("request_id", "execution_id") for n in range(4)]
        for number, word in enumerate(words):
            reply = await peers.raw(rpc.DEAD_LETTER_RUNS.subject, forged(run_id, word, number))
            assert json.loads(reply.data)["detail"] == "kept"
        await letters(peers, len(words))
        peers.answer_decisions = False
        await peers.finish(peers.requests[0])
        await peers.until(lambda: len(peers.decisions) >= 2)
        asked = str(peers.decisions[1].request_id)
        for number, attempt in enumerate((0, 0, 0, 1, 1, 1, 7)):
            word = {"request_id": asked, "attempt": attempt}
            await peers.raw(rpc.DEAD_LETTER_RUNS.subject, forged(run_id, word, 100 + number))
        await peers.until(lambda: len(peers.decisions) >= 3)
        page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=run_id))
        resent = [e.event for e in page.entries if isinstance(e.event, EffectResent)]
        assert [(str(event.effect_id), event.attempt) for event in resent if event.dead] == [(asked, 2)]
        assert (await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run_id))).status == "running"


async def test_what_an_agent_reports_is_its_own_projects_whatever_run_it_names(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        pool = subjects.agent_pool("other", "critic")
        subject = subjects.for_agent(rpc.DEAD_LETTER_RUNS.subject, "other", "critic")
        reply = await peers.raw(subject, forged(run_id, {}, 1, stream="DECIDE", subject=subjects.decide(pool)))
        assert json.loads(reply.data)["detail"] == "kept"
        reply = await peers.raw(subject, forged(run_id, {}, 2, stream="TASKS", subject=subjects.decide(pool)))
        assert json.loads(reply.data)["code"] == "forbidden", "an agent reports requests, and nothing else"
        page = await peers.ask(rpc.LIST_DEAD_LETTERS, ListDeadLetters(project="other"))
        assert [(letter.project, letter.run_id) for letter in page.letters] == [("other", None)]
        assert (await peers.ask(rpc.LIST_DEAD_LETTERS, ListDeadLetters(project="default"))).letters == ()


async def test_hostile_letters_can_be_shown_and_no_report_takes_their_place(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        js = peers.nc.jetstream()
        await js.publish(subjects.task_enqueue("anonymous"), b"\x01" * 1_000_000)
        (letter,) = await letters(peers, 1)
        (shown,) = await letters(peers, 1, dead_letter_id=letter.dead_letter_id)
        assert shown.body is not None and set(shown.body) == {"\x01"} and len(shown.body) > 100_000
        assert (shown.size, shown.cut) == (1_000_000, False)

        body = base64.b64encode(b"x" * 100_000).decode()
        strange = {"subject": "decide.\x00", "reason": "\x01" * 2_000}
        for number in range(120):
            await peers.raw(
                rpc.DEAD_LETTER_RUNS.subject, forged("", {}, 7, **strange, body_base64=body if number == 0 else "eA==")
            )
        (reported, again) = await letters(peers, 2, unowned=True, stream="DECIDE")
        assert (reported.size, reported.cut, again.cut) == (16 * 1024, True, False), "one for each body, however often"
        refused = await settle(peers, reported, "requeue", unowned=True)
        assert refused["code"] == "request_invalid"

        for number in range(90):
            await peers.raw(rpc.DEAD_LETTER_RUNS.subject, forged("", {}, number, **strange))
        first = await peers.ask(rpc.LIST_DEAD_LETTERS, ListDeadLetters(project="default", unowned=True, limit=200))
        rest = await peers.ask(
            rpc.LIST_DEAD_LETTERS,
            ListDeadLetters(project="default", unowned=True, limit=200, before=first.next_before),
        )
        assert len(first.letters) < 93 and len(first.letters) + len(rest.letters) == 93


async def test_a_letter_stays_its_projects_when_its_run_is_gone(database: Any, nats_server: Any, peers: Peers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await ended(peers, run_id)
        await peers.nc.jetstream().publish(subjects.run_inbox("tas", UUID(run_id)), b"{not json")
        (letter,) = await letters(peers, 1)
        connection = await asyncpg.connect(database())
        await connection.execute("ALTER TABLE runs.run DISABLE TRIGGER ALL")
        await connection.execute("DELETE FROM runs.run WHERE run_id = $1", run_id)
        await connection.close()
        assert await letters(peers, 1) == [letter]
        page = await peers.ask(rpc.LIST_DEAD_LETTERS, ListDeadLetters(project="other", unowned=True))
        assert page.letters == ()


async def test_old_letters_are_forgotten(database: Any, nats_server: Any, peers: Peers) -> None:
    connection = await asyncpg.connect(database())
    await connection.execute(
        "INSERT INTO runs.dead_letter (stream, subject, project, reason, body, status, at, settled_at)"
        " SELECT 'TASKS', 's', 'default', k.status || k.days, '', k.status, now() - k.days * interval '1 day',"
        "        CASE WHEN k.status = 'dead' THEN NULL ELSE now() - k.days * interval '1 day' END"
        " FROM (VALUES ('dead', 89), ('dead', 91), ('discarded', 29), ('requeued', 31)) AS k (status, days)"
    )
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        left = "SELECT array_agg(reason ORDER BY reason) FROM runs.dead_letter"
        for _ in range(600):
            if len(kept := await connection.fetchval(left)) <= 2:
                break
            await asyncio.sleep(0.1)
    await connection.close()
    assert kept == ["dead89", "discarded29"]


async def test_of_two_people_one_settles_and_a_letter_that_can_not_be_sent_stays(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        peers.actions.clear()
        await peers.nc.jetstream().publish(subjects.task_enqueue("anonymous"), b"not a task")
        (task,) = await letters(peers, 1)
        words = await asyncio.gather(*(settle(peers, task, verdict) for verdict in ("discard", "requeue", "discard")))
        assert len([word for word in words if word.get("code") == "dead_letter_settled"]) == 2
        assert len(peers.actions) == 1, "who came too late is in no audit"

        connection = await asyncpg.connect(database())
        await connection.execute(
            "INSERT INTO runs.dead_letter (stream, subject, project, reason, body)"
            " VALUES ('TOOLEXEC', 'tool.exec.default.builtin', 'default', 'r', 'x')"
        )
        (call,) = [found for found in await letters(peers, 1) if found.stream == "TOOLEXEC"]
        assert (await settle(peers, call, "requeue"))["code"] == "unavailable", "its owner is not there"
        assert [found.dead_letter_id for found in await letters(peers, 1, stream="TOOLEXEC")] == [call.dead_letter_id]
        await connection.close()


async def test_a_message_that_nobody_keeps_stays_in_its_stream(database: Any, nats_server: Any, peers: Peers) -> None:
    """Also after a refusal for good: only the word that it is kept lets it go."""
    refused: list[int] = []
    async with orchestrator(database("orchestrator"), nats_server.url()), Reports(nats_server.url()) as bus:

        async def report(message: Any) -> bool:
            refused.append(message.metadata.num_delivered)
            return await bus.report(message, "INBOX")

        await publish(peers)
        peers.unreadable = report
        await submit(peers)
        await peers.until(lambda: 2 in refused)
        assert await letters(peers, 0) == []


async def test_a_decider_may_report_nothing_but_requests(database: Any, nats_server: Any, peers: Peers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        body = {"stream": "INBOX", "subject": "run.inbox.tas.x", "reason": "r", "body_base64": "", "delivery": 1}
        reply = await peers.raw(rpc.DEAD_LETTER_RUNS.subject, json.dumps(body).encode())
        assert Problem.model_validate_json(reply.data).code == "forbidden"

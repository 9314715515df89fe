"""A fact that makes of its run what Postgres can't store fails alone: others go on, and its run says so."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.orchestrator.replay.test_replay import change
from tests.integration.orchestrator.test_run_effects import view_of
from tests.integration.orchestrator.test_task_runs import ended, publish, submit
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator, respond, use
from tests.support.poison_marks import letters

from towpath_contracts import rpc
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.runs.run_control import SteerRun
from towpath_contracts.runs.views import CancelRun

BAD = "what no table takes"

REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = 'there is no room for this value'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION public.refuse()
"""
"""Stands for every value that only a table refuses: those that are known are refused at the door."""


def refuse(table: str, condition: str, code: str = "54000") -> str:
    return REFUSE.format(table=table, condition=condition, code=code)


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    """The model says twice what can't be stored, to tasks that are to be debugged."""
    async with connected(nats_server.url()) as nc:

        def decide(request: DecisionRequest) -> dict[str, Any]:
            return respond(BAD if request.debug and request.attempt < 3 else "done")

        found = Peers(nc, decide)
        await found.start()
        yield found
        await found.stop()


async def settled(peers: Peers, run_id: str, reason: str) -> Any:
    async with asyncio.timeout(60):
        while (view := await view_of(peers, run_id)).reason != reason:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.02)
    return view


async def test_a_refused_answer_is_set_aside_alone_and_asked_for_again(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """Runs of the same batches complete meanwhile, and it does so too, once the model says something else."""
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        await change(database(), refuse("runs.run_event", f"NEW.event::text LIKE '%{BAD}%'", "22P05"))
        accepted = [await submit(peers, debug=place == 3) for place in range(7)]
        views = [await ended(peers, one["run_id"]) for one in accepted]
        assert [view.status for view in views] == ["completed"] * 7
    found = await letters(database())
    assert {str(letter["run_id"]) for letter in found} == {accepted[3]["run_id"]}
    assert [letter["reason"].partition(": Postgres can't store it: ")[0] for letter in found] == ["value_refused"] * 2
    assert all(BAD.encode() in letter["body"] and letter["effect_id"] is not None for letter in found)


async def test_an_account_that_can_not_be_opened_parks_its_run_and_no_other(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """It is refused outside of the statement that commits: the process went on with nothing else before."""
    dsn = database("orchestrator")
    async with orchestrator(dsn, nats_server.url()) as process:
        await publish(peers)
        await change(database(), refuse("runs.budget", "NEW.model_calls_limit = 77"))
        accepted = [await submit(peers, budget={"model_calls": 77 if place == 1 else 5}) for place in range(3)]
        parked = await settled(peers, accepted[1]["run_id"], "value_refused")
        assert parked.status == "quarantined"
        views = [await ended(peers, accepted[place]["run_id"]) for place in (0, 2)]
        assert [view.status for view in views] == ["completed"] * 2
        assert await process.metrics(), "the process lives"
        await peers.ask(rpc.CANCEL_RUN, CancelRun(project="default", run_id=accepted[1]["run_id"], actor="ann"))
        assert (await ended(peers, accepted[1]["run_id"])).status == "cancelled"
    assert await letters(database()) == [], "this process made the fact, and no message brought it"


async def test_a_run_of_which_nothing_can_be_stored_is_parked_in_its_row(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    peers.answer_decisions = False
    dsn = database("orchestrator")
    async with orchestrator(dsn, nats_server.url()) as process:
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await peers.until(lambda: len(peers.decisions) == 1)
        await change(database(), refuse("runs.run_event", f"NEW.run_id = '{run_id}'", "23514"))
        body = CancelRun(project="default", run_id=run_id, actor="ann").model_dump_json().encode()
        assert json.loads((await peers.raw(rpc.CANCEL_RUN.subject, body)).data)["code"] == "unavailable"
        assert (await settled(peers, run_id, "value_refused")).status == "quarantined"
        peers.answer_decisions = True
        assert (await ended(peers, (await submit(peers))["run_id"])).status == "completed"
        assert await process.metrics(), "the process lives"
    (letter,) = await letters(database())
    assert letter["reason"].startswith("value_refused: ") and b"cancel.requested" in letter["body"]


async def test_who_gives_a_note_that_can_not_be_stored_is_told_so(database: Any, nats_server: Any) -> None:
    async with connected(nats_server.url()) as nc, orchestrator(database("orchestrator"), nats_server.url()):
        peers = Peers(nc, lambda _request: use("x"))
        peers.answer_tools = False
        await peers.start()
        try:
            await publish(peers)
            await change(database(), refuse("runs.run_event", "NEW.type = 'note_given'"))
            run_id = (await submit(peers))["run_id"]
            note = SteerRun(project="default", run_id=run_id, act="note", text="the order is 8813", actor="ann")
            reply = await peers.raw(rpc.STEER_RUN.subject, note.model_dump_json().encode())
            assert (reply.headers or {}).get(rpc.PROBLEM_HEADER) == "act_refused"
            assert "there is no room for this value" in reply.data.decode()
        finally:
            await peers.stop()

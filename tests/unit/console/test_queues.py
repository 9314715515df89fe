"""Queues: dead letters with the reason and their content as text, lag, and what a person decides about a letter."""

from typing import Any

import pytest
from tests.support.console.recorded_api import FORBIDDEN, RecordedApi, asked_of, drawn

from towpath_console.api import ApiRefusalError
from towpath_console.pages.queues import dead_letter, queues, settle, state_of
from towpath_console.pages.workers import confirm_drain, drain, workers

HOSTILE = '<script>alert(1)</script>\u202e"'


def letter(**more: Any) -> dict[str, Any]:
    return {
        "dead_letter_id": 7, "at": "2026-11-26T14:00:00Z", "stream": "TASKS", "subject": HOSTILE, "project": "default",
        "run_id": None, "effect_id": None, "reason": HOSTILE, "failures": 1, "status": "dead", "size": 89, "cut": False,
        "body": HOSTILE, "settled_at": None, "settled_by": "", "settled_reason": "", **more,
    }  # fmt: skip


def queue(**more: Any) -> dict[str, Any]:
    return {
        "stream": "TOOLEXEC", "consumer": "exec_default=shop", "toolset": "shop", "waits": 42, "in_flight": 0,
        "redelivered": 3, "listeners": 0, "last_taken_at": None, "missing": False, **more,
    }  # fmt: skip


def test_a_queue_that_nobody_takes_from_is_told_from_one_whose_worker_is_busy() -> None:
    assert state_of(queue()) == "nobody listens"
    assert state_of(queue(in_flight=2)) == "busy"
    assert state_of(queue(listeners=1, in_flight=2)) == "listening"
    assert state_of(queue(missing=True, listeners=1)) == "not known"


async def test_the_page_has_letters_and_lag_and_sends_its_filters_to_the_api() -> None:
    found = {"/v1/dead-letters": {"letters": [letter()], "next_before": 7}, "/v1/queues": {"queues": [queue()]}}
    api, query = RecordedApi(**found), {"status": "requeued", "stream": "INBOX", "other": "x"}
    page = await queues(asked_of(api, query))
    assert ("/v1/dead-letters", {"limit": 50, "status": "requeued", "stream": "INBOX"}) in api.asked
    html = drawn(page, query)
    assert "nobody listens" in html and ">42<" in html and "/queues/7" in html and "before=7" in html
    assert "<script>alert" not in html and "⟨U+202E⟩" in html


async def test_an_empty_page_names_the_filter() -> None:
    api = RecordedApi(**{"/v1/dead-letters": {"letters": []}, "/v1/queues": FORBIDDEN})
    assert "No dead letter." in drawn(await queues(asked_of(api)))
    query = {"status": "discarded", "stream": "INBOX"}
    assert "No letter matches: discarded, stream INBOX." in drawn(await queues(asked_of(api, query)), query)


async def test_the_content_of_a_letter_is_text_and_a_cut_one_is_not_sent_again() -> None:
    page = drawn(await dead_letter(asked_of(RecordedApi(**{"/v1/dead-letters/7": letter()}), letter_id="7")))
    assert "&lt;script&gt;" in page and "<script>alert" not in page and "Send again" in page
    cut = drawn(await dead_letter(asked_of(RecordedApi(**{"/v1/dead-letters/7": letter(cut=True)}), letter_id="7")))
    assert "can&#39;t be sent again" in cut or "can't be sent again" in cut
    settled = letter(status="discarded", settled_by="ann", settled_at="2026-11-26T15:00:00Z", settled_reason="a test")
    done = drawn(await dead_letter(asked_of(RecordedApi(**{"/v1/dead-letters/7": settled}), letter_id="7")))
    assert "Send again" not in done and "by ann" in done


async def test_a_letter_is_settled_with_the_reason_that_was_given() -> None:
    api = RecordedApi()
    done = await settle(asked_of(api, letter_id="7", verdict="requeue"), {"reason": "the worker is repaired"})
    assert api.sent == [("POST", "/v1/dead-letters/7/requeue", {"reason": "the worker is repaired"})]
    assert done.location == "/queues/7"
    with pytest.raises(ApiRefusalError):
        await settle(asked_of(api, letter_id="7", verdict="erase"), {"reason": "x"})


async def test_the_workers_page_says_what_each_toolset_offers_and_where_nobody_works() -> None:
    tool = {"name": "shop.pay", "toolset": "shop", "operation": "write", "effect_class": "irreversible"}
    shared = queue(toolset="", stream="INBOX", consumer="orchestrator", listeners=1)
    nobody = {"/v1/workers": {"workers": []}}
    api = RecordedApi(
        **{"/v1/queues": {"queues": [queue(), shared]}, "/v1/tools": {"tools": [tool], "held": {}}, **nobody}
    )
    html = drawn(await workers(asked_of(api)))
    assert "1 without a worker" in html and "shop.pay" in html and "towpath worker MODULE" in html
    assert "orchestrator" in html and "what happened outside of runs" in html
    blind = RecordedApi(**{"/v1/queues": {"queues": [queue()]}, "/v1/tools": FORBIDDEN, **nobody})
    html = drawn(await workers(asked_of(blind)))
    assert "policy:read" in html and "platform:operate" in html


@pytest.mark.parametrize(("status", "is_shown"), [(503, True), (504, True), (500, False), (401, False)])
async def test_the_workers_page_shows_toolsets_where_nobody_knows_of_processes_yet(status: int, is_shown: bool) -> None:
    nobody = ApiRefusalError(status, {"code": "unavailable", "title": "Not there", "detail": HOSTILE})
    api = RecordedApi(**{"/v1/workers": nobody, "/v1/queues": {"queues": [queue()]}, "/v1/tools": FORBIDDEN})
    if not is_shown:
        with pytest.raises(ApiRefusalError):
            await workers(asked_of(api))
        return
    page = await workers(asked_of(api))
    html = drawn(page)
    assert "1 without a worker" in html and "Which processes there are can" in html
    assert "No worker says that it is there" not in html and "<script>alert" not in html
    assert page.data["refusal"]["code"] == "unavailable" and "workers" not in page.data


def worker(**more: Any) -> dict[str, Any]:
    return {
        "worker_id": "a" * 32, "name": HOSTILE, "toolsets": ["shop"], "host": "box-1", "version": "0.1.0",
        "state": "taking", "started_at": "2026-11-26T14:00:00Z", "heard_at": "2026-11-26T15:00:00Z", "calls": 2,
        "slots": 16, "drained_by": "", "drained_at": None, "reason": "", **more,
    }  # fmt: skip


async def test_each_worker_process_has_its_row_and_only_one_that_takes_calls_can_be_drained() -> None:
    drained = worker(worker_id="b" * 32, state="drained", drained_by="ann", reason=HOSTILE)
    api = RecordedApi(
        **{
            "/v1/workers": {"workers": [worker(), drained, worker(worker_id="c" * 32, state="gone")]},
            "/v1/queues": {"queues": [queue()]},
            "/v1/tools": FORBIDDEN,
        }
    )
    html = drawn(await workers(asked_of(api)))
    assert html.count("/drain") == 1 and f"/workers/{'a' * 32}/drain" in html
    assert "by ann" in html and "start it again" in html and "gone" in html and "box-1" in html
    assert "<script>alert" not in html
    said = drawn(await confirm_drain(asked_of(api, worker_id="a" * 32)))
    assert "Nobody else takes calls of shop" in said and "2 of 16" in said
    assert "Nothing to drain" in drawn(await confirm_drain(asked_of(api, worker_id="b" * 32)))


async def test_draining_asks_the_api_once_and_says_when_it_is_heard() -> None:
    path = f"/v1/workers/{'a' * 32}/drain"
    api = RecordedApi(**{path: {"worker": worker(name="w-1"), "changed": True}})
    done = await drain(asked_of(api, worker_id="a" * 32), {"reason": "a new version"})
    assert api.sent == [("POST", path, {"reason": "a new version"})]
    assert done.location == "/workers" and "within five seconds" in done.message

"""Many runs at once: counted first, done to exactly those, a hundred a request, and what is refused is told."""

from typing import Any

import pytest
from tests.support.console.recorded_api import RecordedApi, asked_of, drawn
from tests.unit.console.runs.test_run_pages import RUN, history_of, run_of, step_of

from towpath_console.api import ApiRefusalError
from towpath_console.pages.runs.bulk_runs import act, confirm, export_file
from towpath_console.pages.runs.run import run_timeline
from towpath_console.pages.runs.run_actions import retry

HOSTILE = "<script>alert(1)</script>"
AROUND_RUN: dict[str, Any] = {"/v1/gates": {"gates": []}, "/v1/budgets": {"accounts": []}}


def run_id(number: int) -> str:
    return f"01a21826-750f-7b51-adac-{number:012}"


def selection(number: int, *, whole: bool = True) -> dict[str, Any]:
    ids = [run_id(one) for one in range(number)]
    return {"action": "retry", "count": number, "whole": whole, "by_status": {"failed": number}, "run_ids": ids}


async def test_the_page_counts_by_the_filter_of_the_list_and_changes_nothing() -> None:
    listed = [
        {"run_id": run_id(one), "status": "failed", "network": "support", "user_message": f"Task {one}"}
        for one in (3, 31)
    ]
    api = RecordedApi(**{"/v1/runs/bulk/select": selection(30, whole=False), "/v1/runs": {"runs": listed}})
    query = {"action": "retry", "status": "failed", "label": HOSTILE, "other": "x"}
    html = drawn(await confirm(asked_of(api, query)), query)
    body = {"action": "retry", "filter": {"status": "failed", "label": HOSTILE}}
    assert api.sent == [("POST", "/v1/runs/bulk/select", body)]
    assert "Retry 30 runs?" in html and "And 10 more" in html and "There are more" in html
    assert "<script>alert" not in html and run_id(29) in html
    assert "Task 3<" in html and "Task 31" not in html, "only what would be done is listed"
    nothing = RecordedApi(**{"/v1/runs/bulk/select": selection(0)})
    assert "Nothing to label" in drawn(await confirm(asked_of(nothing, {"action": "label"})))
    with pytest.raises(ApiRefusalError):
        await confirm(asked_of(api, {"action": "erase"}))


async def test_exactly_what_was_confirmed_is_sent_a_hundred_at_a_time() -> None:
    results = {"results": [{"code": ""}, {"code": "fork_refused"}]}
    api = RecordedApi(**{"/v1/runs/bulk": results})
    form = {
        "action": "retry",
        "ids": ",".join(run_id(one) for one in range(150)),
        "key": "k",
        "back": "/runs?status=failed",
    }
    done = await act(asked_of(api), form)
    assert [len(body["run_ids"]) for _, _, body in api.sent] == [100, 50]
    assert {body["key"] for _, _, body in api.sent} == {"k"}, "sent twice it begins nothing twice"
    assert done.location == "/runs?status=failed" and "2 refused: fork_refused." in done.message
    with pytest.raises(ApiRefusalError):
        await act(asked_of(api), {**form, "ids": "../keys"})
    assert (await act(asked_of(api), {**form, "back": "https://elsewhere"})).location == "/runs"


async def test_more_runs_than_a_selection_has_are_refused_whole() -> None:
    for number, requests in ((500, 5), (501, 0)):
        api = RecordedApi(**{"/v1/runs/bulk": {"results": []}})
        form = {"action": "retry", "ids": ",".join(run_id(one) for one in range(number))}
        if requests:
            await act(asked_of(api), form)
        else:
            with pytest.raises(ApiRefusalError, match="request_invalid"):
                await act(asked_of(api), form)
        assert len(api.sent) == requests


async def test_labels_are_read_as_people_write_them() -> None:
    api = RecordedApi(**{"/v1/runs/bulk": {"results": [{"code": ""}]}})
    form = {"action": "label", "ids": run_id(1), "set": "team = shop, tier=a=b", "remove": "draft, old", "reason": "r"}
    await act(asked_of(api), form)
    labels = {"labels": {"team": "shop", "tier": "a=b"}, "remove": ["draft", "old"]}
    assert api.sent[0][2] == {"action": "label", "reason": "r", **labels, "run_ids": [run_id(1)]}
    with pytest.raises(ApiRefusalError):
        await act(asked_of(api), {**form, "set": "shop"})


async def test_a_file_has_every_piece_of_every_run() -> None:
    pieces = {f"/v1/runs/{run_id(one)}/record": {"text": f"{one}\n", "next": None} for one in range(2)}
    api = RecordedApi(**{"/v1/runs/bulk/select": selection(2), **pieces})
    file = await export_file(asked_of(api, {"status": "failed"}))
    assert [part async for part in file.parts] == ["0\n", "1\n"]
    assert [path for path, _ in api.asked] == list(pieces)


async def test_one_run_is_retried_by_the_same_request_and_its_page_offers_that_once_it_has_ended() -> None:
    found: dict[str, Any] = {"run_id": run_id(1), "new_run_id": run_id(2), "code": "", "detail": ""}
    api = RecordedApi(**{"/v1/runs/bulk": {"results": [found]}})
    done = await retry(asked_of(api, run_id=run_id(1)), {"reason": "slower"})
    assert api.sent == [("POST", "/v1/runs/bulk", {"action": "retry", "run_ids": [run_id(1)], "reason": "slower"})]
    assert done.location == f"/runs/{run_id(2)}"
    lacks = {**found, "new_run_id": None, "code": "run_not_found", "detail": "no such run"}
    with pytest.raises(ApiRefusalError) as refused:
        await retry(asked_of(RecordedApi(**{"/v1/runs/bulk": {"results": [lacks]}}), run_id=run_id(1)), {})
    assert (refused.value.status, refused.value.problem["detail"]) == (404, "no such run")
    assert refused.value.problem["remedy"]
    with pytest.raises(ApiRefusalError, match="request_invalid"):
        await retry(asked_of(api, run_id="../x"), {})
    for status, erased, offered in (("failed", None, 1), ("completed", None, 1), ("failed", "2026-11-26", 0)):
        run = {**run_of(1, status), "erased_at": erased}
        answers = {f"/v1/runs/{RUN}": run, f"/v1/runs/{RUN}/history": history_of([step_of(1)]), **AROUND_RUN}
        html = drawn(await run_timeline(asked_of(RecordedApi(answers), run_id=RUN)))
        assert html.count(f'action="/runs/{RUN}/retry"') == offered
    assert '<details class="act when-ended" name="act"><summary>' in html, "not while it goes on"

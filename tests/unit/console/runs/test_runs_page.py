"""The list of runs: what is cancelled is what was confirmed, and what a browser keeps is checked like any input."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.console.recorded_api import Answer, RecordedApi, refused
from tests.unit.console.test_renderer import AROUND, HOSTILE, Tags, run_named

from towpath_console.api import VIEWS_COOKIE, ApiRefusalError
from towpath_console.page import Asked
from towpath_console.pages.runs.run import refresh_of, run_view
from towpath_console.pages.runs.run_list import (
    LIVE,
    MOST_CANCELLED,
    STATUSES,
    cancel_many,
    confirm_cancel,
    keep_view,
    runs,
)
from towpath_console.renderer import Renderer, templates
from towpath_console.text import STATUS_SIGNS, STATUS_TONES
from towpath_contracts.runs.statuses import FINAL_STATUSES, LIVE_STATUSES


def run_id(number: int) -> str:
    return f"01a21826-750f-7b51-adac-{number:012x}"


def listed(**numbers: int) -> Answer:
    """Return a list that has so many runs of each status, 50 at once."""
    rows = {
        status: [{**run_named("calm"), "run_id": run_id(n), "status": status} for n in range(number)]
        for status, number in numbers.items()
    }

    def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
        if params["limit"] > 200:  # the API takes no more
            raise refused(422, "request_invalid")
        found = rows.get(params.get("status") or "running", [])
        start = int(params.get("before") or 0)
        end = start + min(50, params["limit"])
        return {"runs": found[start:end], "next_before": str(end) if end < len(found) else None}

    return answer


def asked(api: RecordedApi, **query: str) -> Asked:
    return Asked(api, {}, query, "/runs")


def cookie(value: object) -> str:
    return f"{VIEWS_COOKIE}={base64.urlsafe_b64encode(json.dumps(value).encode()).decode()}"


async def test_the_confirmation_counts_runs_that_go_on_and_changes_nothing() -> None:
    api = RecordedApi({"/v1/runs": listed(running=120, waiting=3, completed=9)})
    page = await confirm_cancel(asked(api, network="support"))
    html = Renderer().whole(page, **AROUND)
    assert "Cancel 123 runs?" in html and "And 103 more." in html and "<strong>support</strong>" in html
    assert api.sent == [] and all(params["network"] == "support" for _, params in api.asked)
    ended = await confirm_cancel(asked(api, status="completed"))
    assert "Nothing to cancel" in Renderer().whole(ended, **AROUND)


def test_what_runs_are_filtered_and_cancelled_by_are_statuses_that_they_have() -> None:
    known = FINAL_STATUSES | LIVE_STATUSES
    assert set(STATUSES) == known and set(LIVE) == LIVE_STATUSES - {"cancelling"}
    assert known <= STATUS_SIGNS.keys() and known <= STATUS_TONES.keys()
    template = Path(templates().get_template("runs.html").filename or "").read_text("utf-8")
    chips = template.partition("{% for word in (")[2].partition(")")[0]
    assert {word.strip('" ') for word in chips.split(",")} < known
    for status in FINAL_STATUSES:
        assert (
            refresh_of({"status": status}) is None
            and run_view(run_named("calm") | {"status": status}, "")["state"] == "ended"
        )


async def test_of_very_many_runs_the_first_are_confirmed_and_it_is_said() -> None:
    page = await confirm_cancel(asked(RecordedApi({"/v1/runs": listed(running=900)})))
    html = Renderer().whole(page, **AROUND)
    assert "Cancel 500 runs?" in html and "There are more" in html
    ids = next(attributes["value"] for tag, attributes in Tags(html).tags if attributes.get("name") == "ids")
    assert ids is not None and len(ids.split(",")) == MOST_CANCELLED


async def test_exactly_what_was_confirmed_is_cancelled() -> None:
    answers: dict[str, Answer] = {f"/v1/runs/{run_id(n)}/cancel": {} for n in range(30)}
    answers[f"/v1/runs/{run_id(7)}/cancel"] = refused(409, "run_finished")
    answers[f"/v1/runs/{run_id(8)}/cancel"] = refused(503, "overloaded")
    api = RecordedApi(answers)
    ids = ",".join(run_id(n) for n in range(30))
    done = await cancel_many(asked(api), {"ids": ids, "reason": "flood", "back": "/runs?network=support"})
    assert sorted(path for _, path, _ in api.sent) == sorted(answers)
    assert all(body == {"reason": "flood"} for _, _, body in api.sent)
    assert done.message == "28 of 30 runs are being cancelled. 1 had ended already. 1 refused: overloaded."
    assert done.location == "/runs?network=support"


@pytest.mark.parametrize("ids", ["../keys", f"{run_id(1)},x", "01a21826-750f-7b51-adac-00000000000/"])
async def test_what_is_no_id_of_a_run_is_refused_whole(ids: str) -> None:
    api = RecordedApi({})
    with pytest.raises(ApiRefusalError, match="request_invalid"):
        await cancel_many(asked(api), {"ids": ids})
    assert api.sent == []


async def test_a_form_leads_back_to_the_list_alone() -> None:
    for back in ("https://evil.example", "//evil.example", "/runsx", ""):
        assert (await cancel_many(asked(RecordedApi({})), {"ids": "", "back": back})).location == "/runs"


async def test_a_view_is_kept_in_the_browser_and_shown_as_a_link() -> None:
    done = await keep_view(asked(RecordedApi({})), {"name": "Shop", "status": "failed", "label": "team=shop", "x": "y"})
    assert done.location == "/runs?status=failed&label=team%3Dshop"
    kept = f"{VIEWS_COOKIE}={done.cookies[VIEWS_COOKIE]}"
    api = RecordedApi({"/v1/runs": listed(), "/v1/networks": {"networks": []}}, cookie=kept)
    page = await runs(asked(api, status="failed", label="team=shop"))
    assert page.view["views"] == [("Shop", "status=failed&label=team%3Dshop")]
    html = Renderer().whole(page, **AROUND)
    assert "Forget Shop" in html and "No run matches these filters." in html
    forgotten = await keep_view(asked(api), {"forget": "Shop"})
    assert json.loads(base64.urlsafe_b64decode(forgotten.cookies[VIEWS_COOKIE])) == {}


@pytest.mark.parametrize("kept", [None, [], "x", {"a": 1}, {"a": {"status": 3, "evil": "x"}}, {"": {}}, {"x" * 99: {}}])
async def test_a_cookie_that_somebody_else_wrote_does_no_harm(kept: object) -> None:
    for sent in (cookie(kept), f"{VIEWS_COOKIE}=%%%", f"{VIEWS_COOKIE}={'[' * 3000}", f"{VIEWS_COOKIE}=W1tbW1tb"):
        api = RecordedApi({"/v1/runs": listed(), "/v1/networks": {"networks": []}}, cookie=sent)
        views = (await runs(asked(api))).view["views"]
        assert views in ([], [("a", "")]) or not views


async def test_a_browser_keeps_few_views() -> None:
    for number, name in ((11, "one more"), (12, "view 3")):
        few = cookie({f"view {n}": {"status": "failed"} for n in range(number)})
        kept = await keep_view(asked(RecordedApi({}, cookie=few)), {"name": name, "status": "waiting"})
        assert len(json.loads(base64.urlsafe_b64decode(kept.cookies[VIEWS_COOKIE]))) == 12
    many = cookie({f"view {n}": {"status": "failed"} for n in range(12)})
    with pytest.raises(ApiRefusalError, match="at most 12 views"):
        await keep_view(asked(RecordedApi({}, cookie=many)), {"name": "one more"})
    with pytest.raises(ApiRefusalError, match="a name"):
        await keep_view(asked(RecordedApi({})), {"name": " "})


async def test_a_browser_keeps_no_more_than_it_sends_back() -> None:
    long = {f"{n}": dict.fromkeys(("network", "label"), "x" * 256) for n in range(4)}
    api = RecordedApi({}, cookie=cookie(long))
    for length in range(256):
        try:
            kept = await keep_view(asked(api), {"name": "last", "thread_id": "x" * length})
        except ApiRefusalError as error:
            assert "forget one first" in str(error)
            break
        longest = kept.cookies[VIEWS_COOKIE]
    assert len(longest) == 3_000, "browsers keep about 4,000, with what else is in a cookie"


@pytest.mark.parametrize("words", HOSTILE)
async def test_hostile_filters_and_views_stay_text(words: str) -> None:
    def drawn(name: str) -> Tags:
        return Tags(Renderer().whole(pages[name], **AROUND))

    pages = {}
    for name in (words, "calm"):
        sent = cookie({name[:40]: {"network": name}, "b": {}})
        api = RecordedApi({"/v1/runs": listed(), "/v1/networks": {"networks": [{"name": name}]}}, cookie=sent)
        pages[name] = await runs(asked(api, network=name, label=name, thread_id=name))
    if not words[:40].isprintable():
        return
    assert [tag for tag, _ in drawn(words).tags] == [tag for tag, _ in drawn("calm").tags]

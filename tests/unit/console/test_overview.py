"""The first page: what it shows at first, first steps and when they are done, and what is said before a run is sent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.console.recorded_api import FORBIDDEN, RecordedApi, asked_of, drawn, refused

from towpath_console.api import ApiRefusalError
from towpath_console.page import Done, Page
from towpath_console.pages.overview import overview, start_run
from towpath_console.pages.overview_figures import platform_figures, run_figures

TOOL = {"name": "orders.find", "toolset": "support"}
SNAPSHOT = {
    "tools": {"orders.find": TOOL, "plan": {"name": "plan", "toolset": "platform"}},
    "agents": {"triage": {"model": "gemini:x"}, "billing": {"model": "gemini:x"}},
}
QUEUE = {"toolset": "support", "missing": False, "listeners": 1, "in_flight": 0}


def run(**labels: str) -> dict[str, Any]:
    return {
        "run_id": "r1", "status": "completed", "user_message": "Refund order 8811", "network": "support", "version": 1,
        "agent_key": "billing", "step": 4, "max_steps": 10, "started_at": None, "ended_at": None, "cost": None,
        "created_at": "2026-11-26T14:00:00Z", "reason": "", "waits": (), "labels": labels,
    }  # fmt: skip


def first_page(**more: Any) -> RecordedApi:
    """Return an API on which the sample has one run that nobody asked for."""
    answers: dict[str, Any] = {
        "/v1/runs": {"runs": [run(sample="first-look")]},
        "/v1/gates": {"gates": []},
        "/v1/statistics": FORBIDDEN,
        "/v1/networks": {"networks": [{"name": "desk"}, {"name": "support"}]},
        "/v1/budgets": FORBIDDEN,
        "/v1/costs": FORBIDDEN,
        "/v1/dead-letters": FORBIDDEN,
        "/v1/metrics/samples": FORBIDDEN,
        "/v1/tools": {"versions": {"orders.find": 1}},
    }
    return RecordedApi(**{**answers, **more})


async def marks(**more: Any) -> list[str]:
    """Return for each of the first steps whether the page says that it is done."""
    html = drawn(await overview(asked_of(first_page(**more))))
    return [item.partition("</span>")[0].rpartition("> ")[2] for item in html.split('<li><span class="status')[1:]]


async def test_each_first_step_is_ticked_by_what_the_api_says() -> None:
    assert await marks() == ["to do", "to do", "to do"], "a run that nobody asked for is none of theirs"
    assert await marks(**{"/v1/runs": {"runs": [run()]}}) == ["done", "to do", "to do"]
    assert await marks(**{"/v1/tools": {"versions": {"orders.find": 2}}}) == ["to do", "to do", "done"]
    assert await marks(**{"/v1/tools": FORBIDDEN}) == ["to do", "to do", "to do"]
    assert await marks(**{"/v1/networks": {"networks": [{"name": "desk"}]}}) == [], "not where the sample is not"


async def test_the_box_begins_with_the_sample_or_the_network_of_the_address() -> None:
    html = drawn(await overview(asked_of(first_page())))
    assert "<option selected>support</option>" in html and 'value="Refund order 8812"' in html
    html = drawn(await overview(asked_of(first_page(), {"network": "desk"})))
    assert "<option selected>desk</option>" in html and 'value=""' in html


async def test_without_a_network_the_page_says_how_to_publish_one_and_to_whom_that_is_hidden_nothing() -> None:
    assert "towpath up --sample" in drawn(await overview(asked_of(first_page(**{"/v1/networks": {"networks": []}}))))
    assert "No network" not in drawn(await overview(asked_of(first_page(**{"/v1/networks": FORBIDDEN}))))


async def sent(queue: dict[str, Any], missing: str | Exception, **form: str) -> tuple[Done | Page, list[str]]:
    """Return what the box's form is answered, and what was sent."""
    prompt: Any = missing if isinstance(missing, Exception) else {"model_missing": missing}
    api = RecordedApi(
        **{
            "/v1/networks/desk": {"snapshot": SNAPSHOT},
            "/v1/queues": {"queues": [queue]},
            "/v1/networks/desk/prompt": prompt,
            "/v1/runs": {"run_id": "r1"},
        }
    )
    done = await start_run(asked_of(api), {"network": "desk", "message": "<b>", **form})
    return done, [path for _, path, _ in api.sent]


@pytest.mark.parametrize(
    ("queue", "missing", "said", "command"),
    [
        ({**QUEUE, "listeners": 0}, "", "No worker takes calls of the toolset support: orders.find", "towpath worker"),
        ({**QUEUE, "toolset": "other"}, "", "No worker takes calls of the toolset support", "towpath worker"),
        (QUEUE, "no key for Gemini", "gemini:x: no key for Gemini", "GEMINI_API_KEY=… towpath up"),
    ],
)
async def test_what_a_network_lacks_is_said_before_anything_is_sent(
    queue: dict[str, Any], missing: str, said: str, command: str
) -> None:
    page, paths = await sent(queue, missing)
    assert isinstance(page, Page) and page.status == 409 and paths == ["/v1/networks/desk/prompt"]
    html = drawn(page)
    assert said in html and command in html and "&lt;b&gt;" in html
    done, paths = await sent(queue, missing, anyway="yes")
    assert isinstance(done, Done) and done.location == "/runs/r1" and paths == ["/v1/runs"]


@pytest.mark.parametrize(("number", "says"), [(6, ""), (7, "1 further models were not looked at")])
async def test_six_models_of_a_network_are_looked_at_and_further_ones_are_named_beside_what_lacks(
    number: int, says: str
) -> None:
    agents = {f"a{place}": {"model": f"gemini:{place}"} for place in range(number)}
    answers: dict[str, Any] = {"/v1/networks/desk": {"snapshot": {"agents": agents}}, "/v1/queues": {"queues": []}}
    api = RecordedApi(answers, **{"/v1/networks/desk/prompt": {"model_missing": "no key"}})
    page = await start_run(asked_of(api), {"network": "desk", "message": "x"})
    assert isinstance(page, Page) and len(api.sent) == 6
    assert says in drawn(page) and ("not looked at" in drawn(page)) == bool(says)
    ready = RecordedApi(answers, **{"/v1/networks/desk/prompt": {"model_missing": ""}, "/v1/runs": {"run_id": "r1"}})
    assert isinstance(await start_run(asked_of(ready), {"network": "desk", "message": "x"}), Done)


async def test_a_run_keeps_its_prompts_where_somebody_asks_for_it() -> None:
    page, _ = await sent(QUEUE, "no key", debug="yes")
    assert isinstance(page, Page) and 'name="debug"' in drawn(page) and page.data["task"]["debug"] is True


async def test_a_busy_worker_and_a_model_with_a_key_lack_nothing() -> None:
    done, paths = await sent({**QUEUE, "listeners": 0, "in_flight": 3}, "")
    assert isinstance(done, Done) and paths == ["/v1/networks/desk/prompt", "/v1/runs"]


@pytest.mark.parametrize("refusal", [refused(503, "unavailable"), refused(422, "prompt_invalid")])
async def test_a_task_is_sent_where_nobody_can_say_what_its_models_lack(refusal: Exception) -> None:
    done, paths = await sent(QUEUE, refusal)
    assert isinstance(done, Done) and paths == ["/v1/networks/desk/prompt", "/v1/runs"]


ACCOUNT = {"scope": "day", "key": "2026-11-26/project/default", "units": [{"unit": "usd_micros", "limit": 5_000_000}]}
NOW = datetime(2026, 11, 26, 15, 0, tzinfo=UTC)


def began(status: str, hours_ago: float) -> dict[str, Any]:
    return {"status": status, "created_at": (NOW - timedelta(hours=hours_ago)).isoformat()}


def test_runs_of_the_last_day_are_counted_by_status_each_with_its_list() -> None:
    runs = [
        began("failed", 1),
        began("failed", 2),
        began("cancelled", 3),
        began("timed_out", 4),
        began("completed", 25),
    ]
    counted = run_figures(runs, NOW, has_older=True)
    shown = {one.name: (one.value, one.page) for one in counted.figures}
    assert shown["Failed"] == ("2", "/runs?status=failed") and shown["Completed"][0] == "0", "a day and no more"
    assert shown["Cancelled"][0] == shown["Timed out"][0] == "1" and "Queued" not in shown and counted.since is None
    assert run_figures(runs[:3], NOW, has_older=True).since == runs[2]["created_at"], "older ones are not counted"
    assert run_figures([], NOW, has_older=False).since is None


def test_beside_runs_stand_what_is_spent_of_what_and_what_is_wrong() -> None:
    found: dict[str, dict[str, Any]] = {
        "gates": {"gates": []},
        "costs": {"days": [{"usd": 4.5}]},
        "budgets": {"accounts": [ACCOUNT]},
        "statistics": {"total": {"denied": 2, "refused": 1, "failed": 3, "allowed": 9}},
        "letters": {"letters": [{}, {}], "next_before": 7},
        "samples": {"samples": [{"waits": 0}, {"waits": 14}]},
    }  # fmt: skip
    shown = {one.name: one for one in platform_figures(found, "0")}
    assert (shown["Spent today"].value, shown["Spent today"].beside, shown["Spent today"].tone) == (
        "$4.50",
        "of $5.00",
        "warn",
    )
    assert shown["Refused calls"].value == "3" and shown["Refused calls"].page == "/audit?verdict=deny"
    assert shown["Dead letters"].value == "2+" and shown["Calls in queues"].value == "14"
    hidden = {name: {} for name in found} | {"letters": {"letters": []}, "samples": {"samples": [{"waits": None}]}}
    assert platform_figures(hidden, "0") == [], "what may not be read, and what is as it should be"


async def test_the_name_of_a_network_leads_nowhere_else() -> None:
    api = RecordedApi()
    for name in ("", "../runs/r1/cancel?x=", "desk/../../runs"):
        with pytest.raises(ApiRefusalError, match="no network has this name"):
            await start_run(asked_of(api, {}), {"network": name, "message": "x"})
    assert api.asked == api.sent == []

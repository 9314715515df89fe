"""The first page: what it shows at first, first steps and when they are done, and what is said before a run is sent."""

from typing import Any

import pytest
from tests.support.console.recorded_api import FORBIDDEN, RecordedApi, asked_of, drawn, refused

from towpath_console.page import Done, Page
from towpath_console.pages.overview import overview, start_run

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


async def test_a_busy_worker_and_a_model_with_a_key_lack_nothing() -> None:
    done, paths = await sent({**QUEUE, "listeners": 0, "in_flight": 3}, "")
    assert isinstance(done, Done) and paths == ["/v1/networks/desk/prompt", "/v1/runs"]


@pytest.mark.parametrize("refusal", [refused(503, "unavailable"), refused(422, "prompt_invalid")])
async def test_a_task_is_sent_where_nobody_can_say_what_its_models_lack(refusal: Exception) -> None:
    done, paths = await sent(QUEUE, refusal)
    assert isinstance(done, Done) and paths == ["/v1/networks/desk/prompt", "/v1/runs"]

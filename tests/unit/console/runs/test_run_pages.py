"""The pages of one run: they ask for no more than they show, a long run stays light, and what is told stays text."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.console.recorded_api import Answer, RecordedApi, refused
from tests.unit.console.test_renderer import AROUND, HOSTILE, Tags, gate_named

from towpath_console import text
from towpath_console.api import ApiRefusalError
from towpath_console.page import Asked, Page, PageBuilder
from towpath_console.pages.runs.comparison import compare
from towpath_console.pages.runs.run import run_timeline
from towpath_console.pages.runs.run_actions import fork, note, reply, steer
from towpath_console.pages.runs.run_step import TABS, run_step
from towpath_console.pages.runs.run_tabs import events_file, graph_file, run_events, run_graph, run_tree
from towpath_console.renderer import Renderer
from towpath_contracts.run_limits import MAX_STEPS_CAP

RUN = "01a21826-750f-7b51-adac-0b09758c40f8"
EXECUTION = "632de7dc-ef1d-531e-9d3a-393ad7ff626f"
AT = "2026-11-26T14:00:00+00:00"


def run_of(steps: int, status: str = "completed", words: str = "calm") -> dict[str, Any]:
    return {
        "run_id": RUN, "status": status, "reason": words, "message": words, "network": words, "version": 1,
        "kind": "network", "agent_key": words, "step": steps, "max_steps": 500, "caller": words, "cost": None,
        "usage": None, "seq": steps * 4, "user_message": words, "started_at": AT, "ended_at": AT, "created_at": AT,
        "final": {"message": words}, "waits": [words], "labels": {words: words}, "trace_id": words,
        "calls": {"asked": steps, "denied": 1, "held": 1},
    }  # fmt: skip


def step_of(number: int, words: str = "calm", *, good: bool = True, attempt: int = 1) -> dict[str, Any]:
    details = {"tool_name": words, "tool_params": {words: words}}
    return {
        "step_number": number, "agent_id": words, "epoch": 0, "timestamp": AT, "ended_at": AT, "success": good,
        "id": words, "error": None if good else words, "attempt_number": attempt, "duration_ms": 5, "tokens_used": 3,
        "cost_usd": 0.5, "input_preview": words, "reasoning": words, "result": None, "validation": {words: words},
        "action": {"action": "USE_TOOL", "action_details": details},
    }  # fmt: skip


def call_of(number: int, words: str = "calm") -> dict[str, Any]:
    return {
        "execution_id": EXECUTION, "step_number": number, "agent_id": words, "tool": words, "args": {words: words},
        "status": words, "result": {words: words}, "failure": {words: words}, "denial": {words: words}, "worker": words,
        "duration_ms": 5, "result_bytes": 4, "blob": True, "result_digest": words, "policy_version": 1,
        "requested_at": AT, "finished_at": AT,
    }  # fmt: skip


def history_of(steps: list[dict[str, Any]], words: str = "calm", most: int = 200, seq: int = 10_000) -> Answer:
    """Return an API's answer that has no more than *most* steps at once, and has read the log up to *seq*."""

    def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
        behind = [step for step in steps if step["step_number"] > params["after_step"]]
        shown = behind[: min(most, params["limit"])]
        more = len(behind) > len(shown)
        calls = [call_of(step["step_number"], words) for step in shown]
        following = shown[-1]["step_number"] if more else None
        return {"seq": seq, "steps": shown, "tool_executions": calls, "next_after_step": following}

    return answer


def events_of(number: int, words: str = "calm") -> Answer:
    entries = [
        {
            "seq": seq,
            "at": AT,
            "event": {"type": "tool_call_finished", "step": seq, "tool": f"{words} {seq}", "kind": words},
        }
        for seq in range(1, number + 1)
    ]

    def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
        if params["limit"] > 1_000:  # the API takes no more
            raise refused(422, "request_invalid")
        after = params["after"]
        return {"entries": entries[after : after + params["limit"]], "seq": number, "status": "completed"}

    return answer


def api_of(steps: int, words: str = "calm", **others: Answer) -> RecordedApi:
    node = {**run_of(steps, words=words), "purpose": words, "subject": words, "children": []}
    agent = {"key": words, "description": words, "equipped_tools": [words], "allowed_routes": [words]}
    audit = {"at": AT, "phase": words, "verdict": words, "rule": words, "actor": words, "detail": {"reason": words}}
    trace = [{"rule": words, "effect": words, "matched": True, "detail": words}]
    now = {
        "verdict": words,
        "rule": words,
        "reason": words,
        "trace": trace,
        "origins": [{"path": words, "from": words}],
    }
    model_call = {
        "kind": words,
        "model": words,
        "prompt": words,
        "raw_text": words,
        "error": words,
        "prompt_digest": words,
    }
    budget = {"unit": "tokens", "limit": 10, "spent": 9, "reserved": 0}
    path = f"/v1/runs/{RUN}"
    numbered = [step_of(number, words, good=number % 50 != 0) for number in range(1, steps + 1)]
    return RecordedApi(
        {
            path: run_of(steps, words=words),
            f"{path}/history": history_of(numbered, words),
            f"{path}/events": events_of(steps * 4, words),
            f"{path}/tree": {**node, "children": [node]},
            f"{path}/steps/1/model-calls": {"calls": [model_call]},
            f"/v1/networks/{words}": {"snapshot": {"network": words, "agents": {words: agent}}},
            "/v1/gates": {"gates": []},
            "/v1/budgets": {"accounts": [{"scope": "caller", "key": words, "units": [budget], "soft": 0.8}]},
            "/v1/audit": {"entries": [audit]},
            "/v1/policy/check": now,
            **others,
        }
    )


def asked(api: RecordedApi, query: Mapping[str, str] | None = None, **path: str) -> Asked:
    return Asked(api, {"run_id": RUN, **path}, query or {}, "/")


def drawn(page: Page) -> str:
    return Renderer().whole(page, **AROUND)


async def made(build: PageBuilder, words: str, query: Mapping[str, str]) -> Tags:
    return Tags(drawn(await build(asked(api_of(2, words), query, step="1"))))


PAGES: list[tuple[PageBuilder, dict[str, str]]] = [
    (run_timeline, {}),
    (run_graph, {}),
    (run_events, {}),
    (run_tree, {}),
    (compare, {"a": RUN, "b": RUN, "show": "all"}),
    *((run_step, {"tab": tab}) for tab in TABS),
]


@pytest.mark.parametrize("words", HOSTILE)
async def test_hostile_text_stays_text_on_every_page_of_a_run(words: str) -> None:
    for build, query in PAGES:
        found, calm = await made(build, words, query), await made(build, "calm", query)
        assert [tag for tag, _ in found.tags] == [tag for tag, _ in calm.tags], (build, query)
        names = [sorted(attributes) for _, attributes in found.tags]
        assert names == [sorted(attributes) for _, attributes in calm.tags], (build, query)
        assert not any((attributes.get("href") or "").startswith("javascript:") for _, attributes in found.tags)
        assert text.visible(words).split()[0] in found.text, (build, query)


async def test_the_page_of_a_run_that_has_ended_goes_on_until_history_has_its_last_steps() -> None:
    steps = [step_of(number) for number in (1, 2, 3)]
    for seq, goes_on in ((15, True), (16, False)):
        api = api_of(4)
        api.answers[f"/v1/runs/{RUN}/history"] = history_of(steps, seq=seq)
        for build in (run_timeline, run_graph):
            assert bool((await build(asked(api))).refresh_s) is goes_on, (build, seq)


async def test_a_run_of_five_hundred_steps_is_a_light_page_of_its_last_hundred() -> None:
    api = api_of(500)
    page = drawn(await run_timeline(asked(api)))
    assert len(page.encode()) < 250_000
    assert "500 of 500" in page and 'id="step-401"' in page and 'id="step-400"' not in page
    history = [params for path, params in api.asked if path.endswith("/history")]
    assert history == [{"after_step": 400, "limit": 100}]
    earlier = drawn(await run_timeline(asked(api, {"from": "301"})))
    assert 'id="step-301"' in earlier and 'id="step-401"' not in earlier and "from=201" in earlier


async def test_failed_steps_alone_are_looked_for_in_the_whole_run() -> None:
    page = await run_timeline(asked(api_of(500), {"show": "failed"}))
    assert [row.number for row in page.view["rows"]] == list(range(50, 501, 50))
    steps = [step_of(1), step_of(2, attempt=3), step_of(3, good=False)]
    api = api_of(3, **{f"/v1/runs/{RUN}/history": history_of(steps)})
    repeated = await run_timeline(asked(api, {"attempt": "repeated"}))
    assert [row.number for row in repeated.view["rows"]] == [2] and "attempt 3" in drawn(repeated)
    open_ones = await run_timeline(asked(api, {"show": "open", "attempt": "first"}))
    assert [row.number for row in open_ones.view["rows"]] == [3]
    nothing = drawn(await run_timeline(asked(api, {"show": "failed", "attempt": "repeated"})))
    assert "No step of the run is like this." in nothing and "failed only, repeated ones" in nothing


async def test_a_filter_looks_through_as_many_steps_as_a_run_may_take() -> None:
    api = api_of(MAX_STEPS_CAP)
    page = await run_timeline(asked(api, {"show": "failed"}))
    assert page.view["rows"][-1].number == MAX_STEPS_CAP and "Looked through" not in drawn(page)
    assert next(params for path, params in api.asked if path.endswith("/history"))["limit"] == MAX_STEPS_CAP


@pytest.mark.parametrize(("steps", "is_whole"), [(12, True), (13, False)])
async def test_of_steps_that_fill_an_answer_each_the_first_are_read_and_it_is_said(steps: int, is_whole: bool) -> None:
    large = history_of([step_of(number) for number in range(1, steps + 1)], most=1)
    api = api_of(steps, **{f"/v1/runs/{RUN}/history": large})
    filtered = drawn(await run_timeline(asked(api, {"attempt": "first"})))
    assert filtered.count('id="step-') == 12
    assert ("Looked through the first 12 steps of 13." in filtered) != is_whole
    graph = await run_graph(asked(api))
    assert graph.data["visits"]["whole"] == is_whole
    assert ("Counted are the first 12 steps of 13." in drawn(graph)) != is_whole


async def test_the_bars_of_steps_end_where_their_line_ends() -> None:
    long = history_of([step_of(1) | {"ended_at": "2026-11-26T14:00:09+00:00"}, step_of(2)])
    tags = Tags(drawn(await run_timeline(asked(api_of(2, **{f"/v1/runs/{RUN}/history": long}))))).tags
    rects = [names for tag, names in tags if tag == "rect"]
    (line,) = {names["width"] for names in rects if names.get("class") == "track" and names.get("y") == "6"}
    ends = [float(names["x"] or 0) + float(names["width"] or 0) for names in rects if names.get("class") == "bar"]
    assert max(ends) == float(line or 0)


async def test_a_run_that_failed_says_why_in_words_and_not_as_an_answer() -> None:
    final = {"status": "error", "error": "model_unauthorized", "message": "no key for Gemini"}
    failed = run_of(1, "failed") | {"final": final, "message": "no key for Gemini"}
    page = drawn(await run_timeline(asked(api_of(1, **{f"/v1/runs/{RUN}": failed}))))
    assert "Why it failed" in page and "No key for Gemini" in page and ">Answer<" not in page
    told = drawn(await run_timeline(asked(api_of(1, **{f"/v1/runs/{RUN}": failed | {"final": {"rows": 3}}}))))
    assert ">Answer<" in told, "an answer that it gave all the same is shown"
    open_step = step_of(1) | {"success": None, "action": None}
    given_up = step_of(2, good=False) | {"action": None}
    others = {
        f"/v1/runs/{RUN}": failed | {"status": "cancelled"},
        f"/v1/runs/{RUN}/history": history_of([open_step, given_up]),
    }
    page = drawn(await run_timeline(asked(api_of(2, **others))))
    assert ">Cancelled<" in page and "Could not decide" in page and "◐" not in page and "⊘" in page


async def test_steps_that_are_not_recorded_are_not_said_to_be_on_another_page() -> None:
    begun = api_of(2, **{f"/v1/runs/{RUN}/history": history_of([])})
    assert (await run_timeline(asked(begun))).view["pager"] is None
    own = [step_of(number) for number in range(2, 5)]
    fork_of_it = api_of(4, **{f"/v1/runs/{RUN}/history": history_of(own)})
    assert (await run_timeline(asked(fork_of_it))).view["pager"] is None, "a fork has no step of its own before"
    pager = (await run_timeline(asked(api_of(250)))).view["pager"]
    assert (pager["first"], pager["last"], pager["later"], pager["earlier"]) == (151, 250, None, "51")
    pager = (await run_timeline(asked(api_of(250), {"from": "51"}))).view["pager"]
    assert (pager["first"], pager["last"], pager["later"], pager["latest"]) == (51, 150, "151", "151")


async def test_a_prompt_that_was_not_kept_can_be_made_again() -> None:
    calls = {"calls": [{"kind": "decision", "model": "m", "prompt": "", "prompt_digest": "d"}]}
    api = api_of(1, **{f"/v1/runs/{RUN}/steps/1/model-calls": calls})
    page = drawn(await run_step(asked(api, {"tab": "prompt"}, step="1")))
    assert "The prompt was not kept" in page
    assert "/networks/calm?tab=prompts&amp;version=1&amp;agent=calm&amp;task=calm" in page


async def test_budgets_say_how_much_is_used_and_are_left_out_for_who_may_not_see_them() -> None:
    page = drawn(await run_timeline(asked(api_of(1))))
    assert "90 % · nearly used up" in page
    assert "Budgets" not in drawn(await run_timeline(asked(api_of(1, **{"/v1/budgets": refused(403)}))))


async def test_a_run_that_waits_and_is_paused_is_offered_to_go_on() -> None:
    waiting = {**run_of(1, "waiting"), "waits": ["approval: large", "run_paused: ann paused the run: look"]}
    gates = {"gates": [gate_named("calm")]}
    api = api_of(1, **{f"/v1/runs/{RUN}": waiting, "/v1/gates": gates})
    page = drawn(await run_timeline(asked(api)))
    assert "run-paused" in page and "ann paused the run: look" in page
    assert ("/v1/gates", {"status": "pending", "run_id": RUN, "paused": "false"}) in api.asked, (
        "a pause is not approved"
    )
    on_its_way = api_of(1, **{f"/v1/runs/{RUN}": {**waiting, "waits": ["approval: large"]}, "/v1/gates": gates})
    assert "run-moving" in drawn(await run_timeline(asked(on_its_way)))


async def test_a_tab_of_a_step_asks_only_for_what_it_shows() -> None:
    wanted = dict.fromkeys(TABS, 0) | {"prompt": 1, "raw": 1, "policy": 2}
    for tab, number in wanted.items():
        api = api_of(2)
        await run_step(asked(api, {"tab": tab}, step="1"))
        assert len(api.asked) + len(api.sent) == 2 + number, (tab, api.asked)
        assert (f"/v1/runs/{RUN}/history", {"after_step": 0, "limit": 1}) in api.asked


async def test_before_the_first_step_of_a_fork_stands_the_step_of_the_run_that_it_was_forked_from() -> None:
    origin = "01a21826-0000-7b51-adac-0b09758c40f8"
    forked = run_of(3) | {"forked_from": {"run_id": origin, "step": 2}}
    page = drawn(await run_step(asked(api_of(3, **{f"/v1/runs/{RUN}": forked}), step="2")))
    assert f'href="/runs/{origin}/steps/1"' in page and f'href="/runs/{RUN}/steps/1"' not in page
    page = drawn(await run_step(asked(api_of(3, **{f"/v1/runs/{RUN}": forked}), step="3")))
    assert f'href="/runs/{RUN}/steps/2"' in page


async def test_a_step_that_is_not_there_is_no_page() -> None:
    for step, tab in (("9", "decision"), ("x", "decision"), ("²", "decision"), ("1", "other")):
        with pytest.raises(ApiRefusalError, match="not_found"):
            await run_step(asked(api_of(2), {"tab": tab}, step=step))


async def test_the_policy_tab_names_the_scope_that_is_missing() -> None:
    api = api_of(1, **{"/v1/audit": refused(403), "/v1/policy/check": refused(403)})
    page = drawn(await run_step(asked(api, {"tab": "policy"}, step="1")))
    assert "audit:read" in page and "forbidden" in page


@pytest.mark.parametrize("number", [20, 21])
async def test_the_policy_tab_looks_up_many_calls_and_names_those_that_it_leaves_out(number: int) -> None:
    calls = [{**call_of(1), "execution_id": f"{EXECUTION[:-2]}{place:02}"} for place in range(number)]
    history = {"seq": 1, "steps": [step_of(1)], "tool_executions": calls, "next_after_step": None}
    api = api_of(1, **{f"/v1/runs/{RUN}/history": history})
    page = drawn(await run_step(asked(api, {"tab": "policy"}, step="1")))
    assert page.count("As the rules stand now") == len(api.sent) == 20
    assert ("Looked up are the first 20 of 21 calls." in page) == (number > 20) and "audit:read" not in page


async def test_what_a_person_changed_of_arguments_is_seen() -> None:
    step = step_of(1, "pay")
    step["action"]["action_details"]["tool_params"] = {"pay": "1,000", "to": "x"}
    call = {**call_of(1, "pay"), "args": {"pay": "10", "to": "x", "account": "7"}}
    history = {"seq": 1, "steps": [step], "tool_executions": [call], "next_after_step": None}
    api = api_of(1, **{f"/v1/runs/{RUN}/history": history})
    page = drawn(await run_step(asked(api, {"tab": "arguments"}, step="1")))
    assert "1,000" in page and "the same" in page and "filled in by the platform or a person" in page


async def test_the_graph_of_who_may_read_no_network_shows_what_was_visited() -> None:
    steps = [step_of(1), step_of(2), step_of(3)]
    for step, agent in zip(steps, ("triage", "billing", "triage"), strict=True):
        step["agent_id"] = agent
    steps[2]["action"] = {"action": "RESPOND", "action_details": {}}
    others = {"/v1/networks/calm": refused(403), f"/v1/runs/{RUN}/history": history_of(steps)}
    page = await run_graph(asked(api_of(3, **others)))
    words = page.view["words"]
    assert "triage [starts] (2 steps)\n  → billing 1" in words and "→ answer 1" in words
    assert drawn(page).count("<rect") >= 3
    text_file = await graph_file(asked(api_of(3, **others))._replace(url=f"/runs/{RUN}/graph.txt"))
    assert "".join([part async for part in text_file.parts]) == words


async def test_a_search_for_events_says_how_far_it_looked() -> None:
    api = api_of(500)
    page = await run_events(asked(api, {"find": "CALM 1999"}))
    assert [event["seq"] for event in page.view["events"]] == [1999]
    nothing = drawn(await run_events(asked(api, {"find": "nowhere"})))
    assert "No event of 1 to 2000 contains this." in nothing
    long = drawn(await run_events(asked(api_of(1_001), {"find": "nowhere"})))
    assert "No event of 1 to 4000 contains this." in long and "Search from seq 4001 on" in long
    all_of_them = drawn(await run_events(asked(api)))
    assert "100 of 2,000" in all_of_them and len(all_of_them.encode()) < 250_000
    assert "2,000 of 2,000" in drawn(await run_events(asked(api, {"from": "1901"})))


async def test_large_events_keep_the_page_small() -> None:
    api = api_of(100, **{f"/v1/runs/{RUN}/events": events_of(400, "x" * 30_000)})
    assert len(drawn(await run_events(asked(api))).encode()) < 250_000


async def test_the_log_is_downloaded_whole_and_in_order() -> None:
    file = await events_file(asked(api_of(600)))
    lines = "".join([part async for part in file.parts]).splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 2_401))
    with pytest.raises(ApiRefusalError):
        await events_file(asked(api_of(1, **{f"/v1/runs/{RUN}/events": refused(404)})))


async def test_actions_are_one_request_of_the_api_each() -> None:
    path = f"/v1/runs/{RUN}"
    new = {"run_id": "other"}
    answers: dict[str, Answer] = {f"{path}/{act}": new for act in ("pause", "note", "fork", "messages")}
    api = RecordedApi(answers)
    done = [
        await steer(asked(api, act="pause"), {"reason": "look"}),
        await note(asked(api), {"text": "mind the gap"}),
        await fork(asked(api), {"from_step": "3", "note": ""}),
        await reply(asked(api), {"content": "and then?"}),
    ]
    assert api.sent == [
        ("POST", f"{path}/pause", {"reason": "look"}),
        ("POST", f"{path}/note", {"text": "mind the gap"}),
        ("POST", f"{path}/fork", {"from_step": 3}),
        ("POST", f"{path}/messages", {"content": "and then?"}),
    ]
    assert [one.location for one in done] == [f"/runs/{RUN}", f"/runs/{RUN}", "/runs/other", "/runs/other"]
    with pytest.raises(ApiRefusalError):
        await steer(asked(api, act="erase"), {})

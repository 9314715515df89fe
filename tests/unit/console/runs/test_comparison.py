"""Two runs side by side: aligned as well as can be, and each difference named."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.console.recorded_api import RecordedApi
from tests.unit.console.runs.test_run_pages import AT, RUN, call_of, history_of, run_of, step_of
from tests.unit.console.test_renderer import AROUND

from towpath_console.api import ApiRefusalError
from towpath_console.page import Asked
from towpath_console.pages.runs.comparison import aligned, compare
from towpath_console.renderer import Renderer

OTHER = RUN.replace("01a2", "01a3")
SHORT = st.lists(st.sampled_from("abc"), max_size=7)


def longest_common(a: list[str], b: list[str]) -> int:
    """Return the length of the longest common subsequence, by trying all of *a*."""

    def is_in(part: tuple[str, ...]) -> bool:
        rest = iter(b)
        return all(one in rest for one in part)

    parts = (part for size in range(len(a) + 1) for part in itertools.combinations(a, size))
    return max(len(part) for part in parts if is_in(part))


@given(SHORT, SHORT)
def test_an_alignment_holds_every_step_once_in_order_and_pairs_as_many_as_can_be(a: list[str], b: list[str]) -> None:
    found = aligned(a, b)
    assert [i for i, _ in found if i is not None] == list(range(len(a)))
    assert [j for _, j in found if j is not None] == list(range(len(b)))
    pairs = [(i, j) for i, j in found if i is not None and j is not None]
    assert all(a[i] == b[j] for i, j in pairs)
    assert len(pairs) == longest_common(a, b)


def history(*tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    steps, calls = [], []
    for number, (tool, args) in enumerate(tools, 1):
        step = step_of(number)
        step["action"]["action_details"]["tool_name"] = tool
        steps.append(step)
        calls.append({**call_of(number), "tool": tool, "args": args})
    return {"seq": 1, "steps": steps, "tool_executions": calls, "next_after_step": None}


async def test_differences_of_arguments_are_named_and_equal_steps_left_out() -> None:
    one = history(("find", {"id": "1"}), ("refund", {"amount": 129.0, "note": None}), ("mail", {}))
    other = history(("find", {"id": "1"}), ("look", {}), ("refund", {"amount": 12.9}))
    api = RecordedApi(
        {
            f"/v1/runs/{RUN}": run_of(3, words="first"),
            f"/v1/runs/{OTHER}": run_of(3, words="second"),
            f"/v1/runs/{RUN}/history": one,
            f"/v1/runs/{OTHER}/history": other,
        }
    )
    page = await compare(Asked(api, {}, {"a": RUN, "b": OTHER}, "/"))
    assert [row["kind"] for row in page.data["rows"]] == ["same", "b", "unequal", "a"]
    changes = page.data["rows"][2]["changes"]
    assert changes == [
        {"name": "amount", "a": "129.0", "b": "12.9"},
        {"name": "note", "a": "null", "b": None},
    ]
    html = Renderer().whole(page, **AROUND)
    assert "1 of 4 are the same in both." in html and "they differ" in html and AT not in html
    assert html.count('class="row-') == 3


@pytest.mark.parametrize("steps", [250, 301])
async def test_of_long_runs_the_first_steps_are_compared_and_it_is_said(steps: int) -> None:
    long = history_of([step_of(number) for number in range(1, steps + 1)], most=1_000)
    paths = (f"/v1/runs/{RUN}", f"/v1/runs/{OTHER}")
    api = RecordedApi({path: run_of(steps) for path in paths} | {f"{path}/history": long for path in paths})
    page = await compare(Asked(api, {}, {"a": RUN, "b": OTHER, "show": "all"}, "/"))
    html = Renderer().whole(page, **AROUND)
    assert html.count('class="row-same"') == 250
    assert ("300 of 300 are the same in both. Compared are the first 300 steps of each." in html) == (steps > 300)
    assert ('50 more rows are in the <a href="/runs/compare.json' in html) == (steps > 300)


async def test_only_ids_of_runs_are_looked_up() -> None:
    for text in ("../keys", f"{RUN}/tree", f"{RUN[:-1]}/", "x"):
        api = RecordedApi({})
        with pytest.raises(ApiRefusalError, match="request_invalid"):
            await compare(Asked(api, {}, {"a": RUN, "b": text}, "/"))
        assert api.asked == []


async def test_without_two_runs_the_page_asks_for_them() -> None:
    html = Renderer().whole(await compare(Asked(RecordedApi({}), {}, {"a": "x"}, "/")), **AROUND)
    assert "Two runs are compared by their ids." in html and 'value="x"' in html


def run_id(number: int) -> str:
    return f"01a21858-7ec2-7cc8-8fc2-{number:012}"


def like(number: int, **more: Any) -> dict[str, Any]:
    return {**run_of(1), "run_id": run_id(number), "labels": {}, "user_message": f"task {number}", **more}


async def test_runs_to_compare_with_are_suggested_the_nearest_first() -> None:
    shown = like(1, forked_from={"run_id": run_id(2), "step": 1}, labels={"team": "shop", "b": "1", "c": "2", "d": "3"})
    of_network = [
        like(9),
        shown,
        like(3, forked_from={"run_id": run_id(1), "step": 4}),
        like(4, user_message="task 1"),
        like(5, forked_from={"run_id": run_id(1), "step": 1}),
    ]

    def listed(query: Any) -> dict[str, Any]:
        if "network" in query:
            assert query == {"network": "calm", "limit": 50}
            return {"runs": of_network}
        return {"runs": [like(6), like(4)] if query == {"label": "b=1", "limit": 12} else []}

    api = RecordedApi({f"/v1/runs/{run_id(1)}": shown, f"/v1/runs/{run_id(2)}": like(2), "/v1/runs": listed})
    page = await compare(Asked(api, {}, {"a": run_id(1)}, "/"))
    assert [(int(one["run_id"][-12:]), one["why"]) for one in page.data["suggested"]] == [
        (2, "it is a retry of this"),
        (3, "is a fork of it, from step 4"),
        (5, "is a retry of it"),
        (4, "the same task"),
        (6, "b=1"),
        (9, "the same network"),
    ]
    assert sum(path == "/v1/runs" for path, _ in api.asked) == 4, "of many labels the first three are asked about"
    html = Renderer().whole(page, **AROUND)
    assert f'href="/runs/compare?a={run_id(1)}&amp;b={run_id(9)}"' in html
    other = Renderer().whole(await compare(Asked(api, {}, {"b": run_id(1)}, "/")), **AROUND)
    assert f'href="/runs/compare?a={run_id(9)}&amp;b={run_id(1)}"' in other
    gone = RecordedApi({f"/v1/runs/{run_id(1)}": shown, "/v1/runs": {"runs": [like(n) for n in range(1, 60)]}})
    many = (await compare(Asked(gone, {}, {"a": run_id(1)}, "/"))).data["suggested"]
    assert len(many) == 12 and many[0]["run_id"] == run_id(2), "a parent that is gone is left out"
    alone = RecordedApi({f"/v1/runs/{run_id(1)}": shown, "/v1/runs": {"runs": [shown]}})
    nobody = Renderer().whole(await compare(Asked(alone, {}, {"a": run_id(1)}, "/")), **AROUND)
    assert "No other run of its network" in nobody


async def test_labels_that_no_list_of_runs_takes_are_not_asked_about() -> None:
    shown = like(1, labels={"a": "x" * 255, "b": "x" * 254, "c": "1"})
    api = RecordedApi({f"/v1/runs/{run_id(1)}": shown, "/v1/runs": {"runs": []}})
    await compare(Asked(api, {}, {"a": run_id(1)}, "/"))
    assert [query["label"] for _, query in api.asked if "label" in query] == ["b=" + "x" * 254, "c=1"]

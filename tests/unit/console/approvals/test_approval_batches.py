"""Calls that are decided together: which are offered and chosen at first, and what is said of those refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.console.approvals.gates import GATE_ID, a_gate
from tests.unit.console.approvals.test_approvals import GATE, OPERATOR, SETTLED, alike, api_of, asked, drawn

from towpath_console.api import ApiRefusalError
from towpath_console.page import Done, Page
from towpath_console.pages.approvals.approval_batches import batch, decide_together
from towpath_console.pages.approvals.inbox import approval, approvals, batches


@pytest.mark.parametrize("form", [{}, {"gate-g1": "on"}])
async def test_who_lacks_the_role_of_every_call_is_told_that_and_not_what_is_wrong_with_a_batch(
    form: dict[str, str],
) -> None:
    theirs = {"/v1/gates": {"gates": [alike(1), alike(2)]}}
    one = asked(theirs, verdict="deny")._replace(caller=OPERATOR)
    with pytest.raises(ApiRefusalError, match="role approver") as refused:
        await decide_together(one, form)
    assert (refused.value.status, refused.value.problem["code"]) == (403, "role_missing")
    one = asked({"/v1/gates": {"gates": [alike(1), alike(2, role="policy_admin")]}}, verdict="deny")
    one = one._replace(caller=replace(OPERATOR, roles=frozenset({"policy_admin"})))
    page = await decide_together(one, form)
    assert isinstance(page, Page) and page.status == 422, "one of them is theirs to decide"
    assert api_of(one).sent == []


async def test_what_was_refused_for_its_role_among_others_is_listed_with_them() -> None:
    missing = ApiRefusalError(403, {"code": "role_missing", "title": "no", "detail": "olga is no approver"})
    one = asked({"/v1/gates": {"gates": [alike(1)]}, "/v1/gates/g1/approve": missing}, verdict="approve")
    page = await decide_together(one._replace(caller=OPERATOR), {"gate-g1": "on"})
    assert "olga is no approver" in drawn(page)


async def test_calls_of_one_rule_are_offered_together_and_doubtful_ones_are_not_chosen_at_first() -> None:
    doubtful = alike(2, origins=[{"path": "order_id", "from": "unknown"}])
    assert batches([alike(1), doubtful, a_gate(rule="other")]) == [("orders.refund", "large", 2)]
    query = {"tool": "orders.refund", "rule": "large"}
    page = await batch(asked({"/v1/gates": {"gates": [alike(1), doubtful]}}, query))
    assert [(row.gate["gate_id"], row.is_chosen) for row in page.view["rows"]] == [("g1", True), ("g2", False)]
    assert 'name="gate-g1" checked' in drawn(page) and "unknown" in drawn(page)


@pytest.mark.parametrize("value", ["x" * 2_500 + " and the end", "pay  twice"])
async def test_a_value_is_shown_exactly_at_its_gate_and_lists_say_where_it_is_in_short(value: str) -> None:
    gate = a_gate(args={"order_id": value, "amount": 1.0}) | {"gate_id": GATE_ID}
    assert f"&#34;{value}&#34;" in drawn(await approval(asked({GATE: gate}))).partition("All that is known")[0]
    listed = asked({"/v1/gates": {"gates": [gate], "next_after": None}}, {"tool": "orders.refund", "rule": "large"})
    together = await batch(listed)
    for page in (await approvals(listed), together):
        assert f'href="/approvals/{GATE_ID}">In short: look at all {len(value) + 2:,} characters' in drawn(page)
    assert [row.is_chosen for row in together.view["rows"]] == [False], "nothing is decided that is not shown"
    assert "In short" not in drawn(await batch(asked({"/v1/gates": {"gates": [a_gate()]}})))


async def test_a_call_of_many_arguments_is_chosen_at_first_only_where_all_of_them_are_shown() -> None:
    for length, chosen in ((1, True), (300, False)):
        args = {f"name{place}": "x" * length for place in range(8)}
        page = await batch(asked({"/v1/gates": {"gates": [a_gate(args=args)]}}))
        assert [row.is_chosen for row in page.view["rows"]] == [chosen]
        assert ("In short" in drawn(page)) == (not chosen)


async def test_only_what_was_chosen_is_decided_and_what_was_refused_is_said() -> None:
    answers = {"/v1/gates": {"gates": []}, "/v1/gates/g1/approve": {}, "/v1/gates/g2/approve": SETTLED}
    form = {"tool": "t", "rule": "large", "gate-g1": "on", "digest-g1": "d1", "digest-g2": "d2", "digest-g3": "d3"}
    one = asked(answers, verdict="approve")
    assert await decide_together(one, form) == Done("/approvals", "1 approved.")
    assert api_of(one).sent == [("/v1/gates/g1/approve", {"reason": "", "digest": "d1"})]
    html = drawn(await decide_together(asked(answers, verdict="approve"), form | {"gate-g2": "on"}))
    assert "1 approved." in html and "gate is denied" in html
    nothing = asked(answers, verdict="deny")
    refused = await decide_together(nothing, form)
    assert isinstance(refused, Page) and refused.status == 422 and "needs a reason" in drawn(refused)
    assert "Nothing is chosen" in drawn(await decide_together(nothing, {"tool": "t", "reason": "no"}))
    assert api_of(nothing).sent == []


@pytest.mark.parametrize(("number", "decided"), [(50, 50), (51, 0)])
async def test_as_many_calls_as_a_page_lists_are_decided_together_and_of_more_none(number: int, decided: int) -> None:
    ids = [f"g{place}" for place in range(number)]
    answers = {"/v1/gates": {"gates": []}, **{f"/v1/gates/{gate_id}/approve": {} for gate_id in ids}}
    one = asked(answers, verdict="approve")
    done = await decide_together(one, {"tool": "t", "rule": "large"} | {f"gate-{gate_id}": "on" for gate_id in ids})
    assert len(api_of(one).sent) == decided
    assert decided or "nothing was decided" in drawn(done)


async def test_a_batch_lists_fifty_calls_and_says_that_there_are_more() -> None:
    one = asked({"/v1/gates": {"gates": [alike(1)], "next_after": "g1"}}, {"tool": "t", "rule": "large"})
    assert "these are the 50 oldest" in drawn(await batch(one)) and api_of(one).asked[0][1]["limit"] == 50


@pytest.mark.parametrize(("others", "most"), [(0, 80), (6, 300)])
async def test_a_call_that_a_batch_shows_in_short_is_not_chosen_at_first(others: int, most: int) -> None:
    """Few arguments have a cell each, with its JSON; of many the JSON of all is one text."""
    few: dict[str, Any] = {f"a{number}": number for number in range(others)}
    room = most - len(json.dumps({**few, "note": ""} if others else ""))
    for length, is_whole in ((room, True), (room + 1, False)):
        one = a_gate(args={**few, "note": "x" * length})
        page = await batch(asked({"/v1/gates": {"gates": [one]}}, {"tool": "t", "rule": "large"}))
        (row,) = page.view["rows"]
        assert (row.in_short, row.is_chosen) == (not is_whole, is_whole)
        assert ("In short" in drawn(page)) != is_whole


@pytest.mark.parametrize(("number", "columns"), [(6, 6), (7, 0)])
async def test_arguments_of_a_batch_have_a_column_each_while_there_are_few(number: int, columns: int) -> None:
    args = {f"name{place}": place for place in range(number)}
    page = await batch(asked({"/v1/gates": {"gates": [a_gate(args=args)]}}, {"tool": "t", "rule": "large"}))
    html = drawn(page)
    assert html.count('<th scope="col"><bdi>name') == columns
    assert ("&#34;name6&#34;: 6" in html) == (not columns), "then all of them stand in one"

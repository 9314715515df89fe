"""The pages of approvals: what they ask for, what they say where nothing was decided, and that text stays text."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.console.approvals.gates import GATE_ID, RULE, TOOL, RecordedApi, a_gate
from tests.unit.console.test_renderer import AROUND, HOSTILE, Tags

from towpath_console.api import ApiRefusalError
from towpath_console.caller import Caller
from towpath_console.page import Asked, Done, Page
from towpath_console.pages.approvals.approval_batches import batch
from towpath_console.pages.approvals.approval_edits import change, edit
from towpath_console.pages.approvals.inbox import approval, approvals, decide, delegate
from towpath_console.renderer import Renderer

GATE = f"/v1/gates/{GATE_ID}"
SETTLED = ApiRefusalError(409, {"code": "gate_settled", "title": "settled", "detail": "gate is denied"})
USUAL = {
    GATE: a_gate(),
    "/v1/gates": {"gates": [], "next_after": None},
    "/v1/tools": {"tools": [TOOL]},
    "/v1/policy/rules/large": RULE,
}


def asked(answers: dict[str, Any] | None = None, query: dict[str, str] | None = None, **path: str) -> Asked:
    return Asked(
        RecordedApi(USUAL | (answers or {})), {"gate_id": GATE_ID, **path}, query or {}, f"/approvals/{GATE_ID}"
    )


def api_of(one: Asked) -> RecordedApi:
    assert isinstance(one.api, RecordedApi)
    return one.api


def drawn(page: Page | Done) -> str:
    assert isinstance(page, Page)
    return Renderer().whole(page, **AROUND)


async def test_the_inbox_asks_for_what_people_can_decide_with_the_filters_of_its_address() -> None:
    one = asked(query={"rule": "large", "tool": "", "run_id": "r"})
    page = await approvals(one)
    wanted = {"status": "pending", "paused": "false", "root_run_id": "r", "rule": "large", "limit": 30}
    assert api_of(one).asked == [("/v1/gates", wanted)] and page.refresh_s
    assert "matches these filters" in drawn(page) and "large" in drawn(page)


async def test_the_inbox_says_what_comes_first_and_since_when_each_waits() -> None:
    two = [a_gate(), a_gate() | {"gate_id": "later", "opened_at": "2026-11-26T15:00:00Z"}]
    html = drawn(await approvals(asked({"/v1/gates": {"gates": two}})))
    assert "What waits longest comes first." in html
    assert 'data-since="2026-11-26T14:00:00Z"' in html and 'data-since="2026-11-26T15:00:00Z"' in html
    assert "comes first" not in drawn(await approvals(asked({"/v1/gates": {"gates": two[:1]}}))), "of one there is none"


async def test_a_gate_that_was_handed_over_says_to_whom_and_the_inbox_may_show_those_alone() -> None:
    one = asked(query={"assigned_to": "me"})
    await approvals(one)
    assert api_of(one).asked[0][1]["assigned_to"] == "me"
    handed = a_gate() | {"assigned_to": HOSTILE[0], "assigned_by": "paul", "assigned_at": "2026-11-26T15:00:00Z"}
    text = drawn(await approval(asked({GATE: handed})))
    assert "Handed to" in text and HOSTILE[0] not in text and "Hand it to somebody" in text


async def test_a_gate_that_was_replaced_leads_to_the_call_as_it_is_now_and_marks_what_changed() -> None:
    gone = a_gate() | {"status": "void", "closed_reason": "the call changed", "closed_at": "2026-11-26T15:00:00Z"}
    diff = [{"field": "arguments.amount", "before": 500, "after": 50}]
    now = a_gate(edited_by="mia", diff=diff) | {"gate_id": "new"}
    text = drawn(await approval(asked({GATE: gone, "/v1/gates": {"gates": [now]}})))
    assert 'href="/approvals/new"' in text and "as mia changed it" in text and "the call changed" in text
    assert "<del>500</del>" in text and "<ins>50</ins>" in text
    ended = {"closed_at": "2026-11-26T15:00:00Z"}
    expired = drawn(await approval(asked({GATE: a_gate() | ended | {"status": "expired"}})))
    assert "Nobody decided in time" in expired and 'formaction="/approvals' not in expired
    denied = a_gate() | ended | {"status": "denied", "verdict": "denied", "closed_by": "paula", "closed_reason": "no"}
    text = drawn(await approval(asked({GATE: denied})))
    assert "paula" in text and "<q>no</q>" in text and 'datetime="2026-11-26T15:00:00' in text


async def test_a_refused_hand_over_is_said_at_the_gate_with_what_was_written() -> None:
    said = {"code": "delegate_may_not_decide", "title": "no", "detail": "no key of vera has the role approver"}
    one = asked({f"{GATE}/delegate": ApiRefusalError(409, said)})
    page = await delegate(one, {"to": " vera ", "reason": "because"})
    assert isinstance(page, Page) and page.status == 409
    assert "no key of vera" in drawn(page) and 'value="vera"' in drawn(page) and 'value="because"' in drawn(page)
    assert api_of(one).sent == [(f"{GATE}/delegate", {"to": "vera", "reason": "because"})]
    assert 'name="unknown"' not in drawn(page)
    doubt = {"code": "delegate_unknown", "title": "no", "detail": "nobody here is known as mai"}
    page = await delegate(asked({f"{GATE}/delegate": ApiRefusalError(409, doubt)}), {"to": "mai", "unknown": "mia"})
    assert isinstance(page, Page) and 'name="unknown" value="mai"' in drawn(page), "a tick is for one name"
    sure = asked({f"{GATE}/delegate": a_gate()})
    await delegate(sure, {"to": "mai", "unknown": "mai"})
    assert api_of(sure).sent == [(f"{GATE}/delegate", {"to": "mai", "reason": "", "unknown": True})]
    done = await delegate(asked({f"{GATE}/delegate": a_gate()}), {"to": "mia"})
    assert isinstance(done, Done) and done.location == f"/approvals/{GATE_ID}"


@pytest.mark.parametrize("status", ["all", "denied", "void"])
async def test_closed_gates_are_listed_the_last_first_and_do_not_change(status: str) -> None:
    closed = a_gate() | {"status": "denied", "verdict": "denied", "closed_by": "paula", "closed_reason": "too much"}
    one = asked({"/v1/gates": {"gates": [closed], "next_after": GATE_ID}}, {"status": status, "run_id": "r"})
    page = await approvals(one)
    assert api_of(one).asked[0][1] == {"status": status, "order": "newest", "run_id": "r", "limit": 30}
    assert page.refresh_s is None
    assert "paula" in drawn(page) and "too much" in drawn(page) and f"after={GATE_ID}" in drawn(page)


async def test_a_word_that_is_no_status_shows_the_inbox() -> None:
    one = asked(query={"status": "<script>"})
    assert (await approvals(one)).view["shown"] == "pending"


async def test_the_page_of_a_call_has_its_rule_its_tool_and_what_was_decided_before() -> None:
    before = a_gate() | {"gate_id": "other", "status": "denied", "verdict": "denied", "closed_by": "paula"}
    one = asked({"/v1/gates": {"gates": [before, a_gate()]}})
    html = drawn(await approval(one))
    assert (
        "/v1/gates",
        {"status": "all", "order": "newest", "tool": "orders.refund", "rule": "large", "limit": 6},
    ) in (api_of(one).asked)
    assert (
        "May billing call orders.refund?" in html and "args.amount &gt; 100" in html and "/policy/rules?q=large" in html
    )
    assert "can&#39;t be taken back" in html and "denied</span> by paula" in html and 'href="/approvals/other"' in html
    assert html.count(f'href="/approvals/{GATE_ID}"') == 0, "it is not its own precedent"


async def test_a_reader_without_rights_to_the_policy_sees_the_rest_and_what_is_missing() -> None:
    no = ApiRefusalError(403, {"code": "forbidden", "title": "no"})
    html = drawn(await approval(asked({"/v1/policy/rules/large": no, "/v1/tools": no, "/v1/gates": no})))
    assert "may not read the policy (scope policy:read)" in html and "8812" in html
    gone = ApiRefusalError(404, {"code": "rule_not_found", "title": "no"})
    assert "not in the policy in force" in drawn(await approval(asked({"/v1/policy/rules/large": gone})))


async def test_a_word_goes_with_the_digest_of_what_was_looked_at() -> None:
    one = asked({f"{GATE}/approve": {}}, verdict="approve")
    done = await decide(one, {"reason": "ok", "digest": "sha256:aa", "back": "/approvals?rule=large"})
    assert done == Done("/approvals?rule=large", "Approved.")
    assert api_of(one).sent == [(f"{GATE}/approve", {"reason": "ok", "digest": "sha256:aa"})]
    told = await decide(asked({f"{GATE}/approve": {}}, verdict="approve"), {"what": "orders.refund, run 01a2"})
    assert told == Done("/approvals", "Approved. That was orders.refund, run 01a2.")
    other = asked({f"{GATE}/resolve": {}}, verdict="stop")
    assert await decide(other, {"reason": "x", "back": "//evil.example"}) == Done("/approvals", "The run ends.")
    assert api_of(other).sent == [(f"{GATE}/resolve", {"reason": "x", "verdict": "stop"})]
    with pytest.raises(ApiRefusalError):
        await decide(asked(verdict="none"), {})


async def test_a_stale_card_says_who_decided_what_and_keeps_what_was_written() -> None:
    closed = a_gate() | {"status": "denied", "verdict": "denied", "closed_by": "paula", "closed_reason": "too much"}
    page = await decide(asked({f"{GATE}/approve": SETTLED, GATE: closed}, verdict="approve"), {"reason": "fine by me"})
    html = drawn(page)
    assert isinstance(page, Page) and page.status == 409
    assert "Nothing was decided by you" in html and "paula closed it" in html and "too much" in html
    assert "fine by me" in html and 'class="decide"' not in html


async def test_a_stale_card_leads_to_the_call_as_it_waits_now() -> None:
    changed = ApiRefusalError(409, {"code": "digest_changed", "title": "changed", "detail": "the call changed"})
    void = a_gate() | {"status": "void", "verdict": "void"}
    fresh = a_gate() | {"gate_id": "fresh"}
    answers = {f"{GATE}/approve": changed, GATE: void, "/v1/gates": {"gates": [fresh]}}
    html = drawn(await decide(asked(answers, verdict="approve"), {}))
    assert 'The call waits anew: <a href="/approvals/fresh">look at it as it is now</a>' in html


async def test_a_missing_reason_is_asked_for_beside_the_field() -> None:
    no = ApiRefusalError(
        422, {"code": "reason_required", "title": "Reason", "detail": "say why", "remedy": "Give one."}
    )
    page = await decide(asked({f"{GATE}/deny": no}, verdict="deny"), {"reason": " ", "back": "/runs/r"})
    html = drawn(page)
    assert isinstance(page, Page) and page.status == 422
    assert 'name="back" value="/runs/r"' in html, "a second try leads to where the first was made"
    assert "Say why. Give one." in html and 'aria-invalid="true"' in html and 'class="decide"' in html


async def test_enter_in_the_reason_decides_nothing() -> None:
    tags = [
        (tag, names)
        for tag, names in Tags(drawn(await approval(asked()))).tags
        if tag == "button" and "data-copy" not in names
    ]
    assert "disabled" in tags[0][1] and "formaction" not in tags[0][1], "the button that Enter would press"


async def test_an_edit_sends_all_arguments_and_says_each_fault_beside_its_field() -> None:
    form = {"arg.order_id": "8812", "arg.amount": "50", "digest": "sha256:aa", "reason": "half"}
    one = asked({f"{GATE}/edit": {}})
    assert await change(one, form) == Done("/approvals", "Changed and approved.")
    body = {"args": {"order_id": "8812", "amount": 50}, "reason": "half", "digest": "sha256:aa"}
    assert api_of(one).sent == [(f"{GATE}/edit", body)]
    unread = asked({f"{GATE}/edit": {}})
    page = await change(unread, form | {"arg.amount": "lots"})
    assert isinstance(page, Page) and page.status == 422
    assert api_of(unread).sent == [] and "not a number: lots" in drawn(page) and 'value="lots"' in drawn(page)
    errors = [{"pointer": "/args/amount", "detail": "too small"}, {"pointer": "/args", "detail": "one more"}]
    refused = ApiRefusalError(422, {"code": "edit_refused", "title": "no", "detail": "not valid", "errors": errors})
    html = drawn(await change(asked({f"{GATE}/edit": refused}), form))
    assert "too small" in html and "one more" in html and 'value="half"' in html


OPERATOR = Caller(name="olga", scopes=frozenset({"gates:resolve"}), gate_roles=frozenset({"operator"}))
"""May speak at gates, but at none of these: they ask for an approver."""


async def test_who_lacks_the_role_of_a_gate_is_told_that_and_not_what_is_wrong_with_an_edit() -> None:
    one = asked()._replace(caller=OPERATOR)
    page = await change(one, {"arg.order_id": "8812", "arg.amount": "lots"})
    assert isinstance(page, Page) and (page.status, page.template) == (403, "approval.html")
    assert "Only for somebody with the role approver." in drawn(page) and "not a number" not in drawn(page)
    mine = asked()._replace(caller=replace(OPERATOR, roles=frozenset({"approver"})))
    page = await change(mine, {"arg.order_id": "8812", "arg.amount": "lots"})
    assert isinstance(page, Page) and page.status == 422
    assert api_of(one).sent == api_of(mine).sent == []


@pytest.mark.parametrize("value", ["x" * 20_001, "a\u00ad\u202eb", "a\rb", "a\r\nb", "a\nb\rc", "a\0b"])
async def test_an_edit_of_one_argument_leaves_the_others_exactly_as_they_are(value: str) -> None:
    gate = a_gate(args={"order_id": value, "amount": 129.0})
    page = Tags(drawn(await edit(asked({GATE: gate}))))
    given = next(
        (said["value"] for tag, said in page.tags if tag == "input" and said.get("name") == "arg.order_id"), None
    )
    written = value if given is None else given
    assert written == value, "the field holds all of it"
    assert given is not None or value.replace("\r\n", "\n") in page.text.replace("\r\n", "\n")
    line_ends = "" if given is not None else "\n"
    back = value.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd").replace("\n", line_ends)
    one = asked({GATE: gate, f"{GATE}/edit": {}})
    form = {"arg.order_id": back.replace("\n", "\r\n"), "arg.amount": "12", "digest": "d"}
    assert isinstance(await change(one, form), Done)
    assert api_of(one).sent[0][1]["args"] == {"order_id": value, "amount": 12}


async def test_an_edit_of_an_argument_that_is_too_long_for_a_form_shows_its_beginning_and_sends_all_of_it_on() -> None:
    value = "&" * 200_000
    gate = a_gate(args={"order_id": value, "amount": 129.0})
    html = drawn(await edit(asked({GATE: gate})))
    assert len(html) < 250_000 and 'name="arg.order_id"' not in html and "too long to be changed here" in html
    one = asked({GATE: gate, f"{GATE}/edit": {}})
    assert isinstance(await change(one, {"arg.amount": "12", "digest": "d"}), Done)
    assert api_of(one).sent[0][1]["args"] == {"order_id": value, "amount": 12}


async def test_an_edit_names_what_the_tool_takes_but_not_what_the_system_fills_in() -> None:
    html = drawn(await edit(asked()))
    assert 'name="arg.speed"' in html and "The order." in html and "arg.tenant" not in html
    closed = a_gate() | {"status": "approved", "verdict": "approved", "closed_by": "paula"}
    assert "paula closed it" in drawn(await edit(asked({GATE: closed})))


async def test_an_edit_shows_what_the_task_set_and_sends_it_on_whatever_the_form_says() -> None:
    gate = a_gate(args={"order_id": "8812", "tenant": "north"})
    html = drawn(await edit(asked({GATE: gate})))
    assert "north</textarea>" in html and "set by the task" in html
    assert "arg.tenant" not in html and "leave-out.tenant" not in html and "leave-out.order_id" not in html
    one = asked({GATE: gate, f"{GATE}/edit": {}})
    form = {"arg.order_id": "8813", "arg.tenant": "south", "leave-out.tenant": "on", "digest": "d"}
    assert isinstance(await change(one, form), Done)
    assert api_of(one).sent[0][1]["args"] == {"order_id": "8813", "tenant": "north"}


def alike(number: int, **more: Any) -> dict[str, Any]:
    return a_gate(**more) | {"gate_id": f"g{number}"}


async def test_what_is_too_long_for_a_page_is_said_to_be_so() -> None:
    html = drawn(await approval(asked({GATE: a_gate(args={"order_id": "x" * 20_001})})))
    assert f"Not all of order_id is shown here. It is in: towpath gates show {GATE_ID}" in html
    assert "Not all of" not in drawn(await approval(asked({GATE: a_gate(args={"order_id": "x" * 19_000})})))


@pytest.mark.parametrize("words", HOSTILE)
async def test_hostile_text_stays_text_on_every_page(words: str) -> None:
    def pages_of(said: str) -> dict[str, Any]:
        origins = [{"path": said, "from": said, "tool": said, "step": 1, "piece": said}]
        diff = [{"field": said, "before": said, "after": {said: said}}]
        told = {"args": {said: {said: said}}, "rule": "large", "edited_by": said, "diff": diff, "origins": origins}
        gate = a_gate(**told) | {"reason": said, "network": said, "quorum": 2}
        closed = gate | {"gate_id": "c", "status": said, "verdict": said, "closed_by": said, "closed_reason": said}
        tool = TOOL | {"name": "orders.refund", "description": said, "effect_class": said, "hazards": [said]}
        rule = RULE | {"note": said, "when": said, "owner": said}
        return {
            GATE: gate,
            "/v1/gates": {"gates": [gate, closed]},
            "/v1/tools": {"tools": [tool]},
            "/v1/policy/rules/large": rule,
        }

    for build, query in (
        (approval, {}),
        (edit, {}),
        (approvals, {}),
        (approvals, {"status": "all"}),
        (batch, {"rule": "large"}),
    ):
        texts = (words, "calm".ljust(len(words), "m"))
        hostile, calm = [Tags(drawn(await build(asked(pages_of(said), query)))) for said in texts]
        assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in calm.tags], build
        names = [[sorted(attributes) for _, attributes in page.tags] for page in (hostile, calm)]
        assert names[0] == names[1], build
        assert not any((attributes.get("href") or "").startswith("javascript:") for _, attributes in hostile.tags)

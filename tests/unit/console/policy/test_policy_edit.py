"""Changing the policy from its page: nothing is applied over what its writer has not seen, nothing written is lost."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.answered_api import AnsweredApi, asked_of

from towpath_console.api import ApiRefusalError
from towpath_console.caller import Caller
from towpath_console.page import Done, Page
from towpath_console.pages.policy import policy_edit
from towpath_console.renderer import Renderer

AROUND = {"section": "/policy", "url": "/policy/edit", "query": {}, "live": "", "message": ""}
HOSTILE = '"></textarea><script>alert(1)</script>'
TEXT = f"kind: Policy\nrules: []  # {HOSTILE}\n"
NOW = {"version": 7, "text": "kind: Policy\nrules: []\n", "applied_by": "noa", "note": HOSTILE, "applied_at": None}
FORM = {"text": TEXT.replace("\n", "\r\n"), "base": "7", "note": "because"}
MADE = {"version": 8, "digest": "d", "rules": 0, "changed": True, "warnings": [HOSTILE], "hints": []}
CELL = {
    "network": "n", "agent_key": HOSTILE, "tool": "pay", "was": ["allow", "require_approval"], "becomes": ["deny"],
    "rules_then": ["a"], "rules_now": [],
}  # fmt: skip
CELLS = {"version": 7, "agents": 3, "changes": [CELL, CELL | {"becomes": CELL["was"]}], "more": 2, "left_out": 1}
IMPACT = {"version": 7, "calls": 4, "groups": [], "left_out": {}, "next_after": None, "last": 9}
ANSWERS = {
    "GET /v1/policy": NOW,
    "POST /v1/policy": MADE,
    "/v1/policy/diff/permissions": CELLS,
    "/v1/policy/diff": IMPACT,
}


class PolicyApi(AnsweredApi):
    """Answers as the API does; what is sent to be applied is answered with *problem* where there is one."""

    def __init__(self, problem: Mapping[str, Any] | None = None, status: int = 422) -> None:
        super().__init__(ANSWERS)
        self._problem, self._status = problem, status

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found = await super().post(path, body)
        if path == "/v1/policy" and self._problem is not None:
            raise ApiRefusalError(self._status, self._problem)
        return found

    def sent(self) -> list[dict[str, Any]]:
        return [body for method, path, body in self.seen if (method, path) == ("POST", "/v1/policy")]


def html_of(page: Page, caller: Caller | None = None) -> str:
    assert json.loads(json.dumps(page.data))
    html = Renderer().whole(page, **(AROUND | ({"caller": caller} if caller else {})))
    assert "<script>alert" not in html
    return html


async def test_the_text_in_force_is_what_one_begins_from_and_who_may_not_apply_is_told_which_scope_may() -> None:
    page = await policy_edit.editor(asked_of(PolicyApi()))
    assert 'name="base" value="7"' in html_of(page)
    reader = Caller(name="ann", scopes=frozenset({"policy:read"}))
    assert "<fieldset" in html_of(page, reader) and "the scope policy:write" in html_of(page, reader)


async def test_a_check_changes_nothing_and_says_which_cells_and_calls_would_change() -> None:
    api = PolicyApi()
    page = await policy_edit.check(asked_of(api), FORM)
    assert [body["dry_run"] for body in api.sent()] == [True] and api.sent()[0]["text"] == TEXT
    html = html_of(page)
    assert "3 cells of the matrix would change" in html and "In 1 cell another rule or condition" in html
    assert "1 networks were left out" in html and "Of 4 recorded calls none" in html
    assert "was applied from a file" not in html
    assert "It would be version 8" in html and "Apply it" in html and "What differs from the text in force" in html


async def test_every_problem_stands_with_its_line_and_what_was_written_is_kept() -> None:
    errors = [
        {"pointer": "/rules/1/when", "detail": "line 12: no\nboolean"},
        {"pointer": "", "detail": f"line 3: {HOSTILE}"},
        {"pointer": "/x", "detail": "of no line"},
    ]
    page = await policy_edit.check(asked_of(PolicyApi({"title": "It can't be applied", "errors": errors})), FORM)
    assert page.status == 422 and [one["line"] for one in page.data["problems"]] == [0, 3, 12]
    assert "3 problems; nothing was changed" in html_of(page) and "&lt;/textarea&gt;" in html_of(page)


async def test_it_is_applied_over_the_version_that_was_looked_at_with_its_reason_and_never_without_one() -> None:
    api = PolicyApi()
    done = await policy_edit.apply(asked_of(api), FORM)
    assert isinstance(done, Done) and done.location == "/policy/versions/8"
    sent = {"text": TEXT, "source": "console", "note": "because", "dry_run": False, "if_version": 7}
    assert api.sent() == [sent]
    silent = PolicyApi()
    page = await policy_edit.apply(asked_of(silent), FORM | {"note": " "})
    assert (
        isinstance(page, Page) and page.status == 422 and not silent.sent() and "a reason is missing" in html_of(page)
    )


@pytest.mark.parametrize("act", [policy_edit.apply, policy_edit.check])
async def test_a_base_that_is_in_force_no_more_is_refused_with_what_changed_meanwhile(act: Any) -> None:
    api = PolicyApi({"code": "policy_moved", "title": "moved"}, 409)
    page = await act(asked_of(api), FORM | {"base": "5"})
    assert page.status == 409 and page.data["current"] == 7
    html = html_of(page)
    assert "Version 7 is in force by now; nothing was applied" in html and "You began from version 5" in html
    assert 'name="base" value="7"' in html, "the next check is held against what was shown"
    assert "Apply it" not in html and "&lt;/textarea&gt;" in html


async def test_what_the_api_refuses_for_another_reason_is_no_matter_of_the_text() -> None:
    with pytest.raises(ApiRefusalError):
        await policy_edit.check(asked_of(PolicyApi({"code": "forbidden"}, 403)), FORM)


@pytest.mark.parametrize(("number", "says"), [(200, "2 more are not listed"), (201, "3 more are not listed")])
async def test_two_hundred_cells_are_shown_and_the_others_counted(number: int, says: str) -> None:
    api = PolicyApi()
    api._answers = {**ANSWERS, "/v1/policy/diff/permissions": CELLS | {"changes": [CELL] * number}}
    page = await policy_edit.check(asked_of(api), FORM)
    assert len(page.view["cells"]) == 200 and page.view["cells_left"] == number - 198
    assert says in html_of(page)


@pytest.mark.parametrize(("length", "is_sent"), [(400_000, True), (400_001, False)])
async def test_a_text_that_is_too_long_for_a_form_is_not_sent_and_says_which_command_takes_it(
    length: int, is_sent: bool
) -> None:
    api = PolicyApi()
    page = await policy_edit.check(asked_of(api), FORM | {"text": "#" * length})
    assert bool(api.sent()) == is_sent and (page.status == 413) != is_sent
    assert is_sent or "towpath policy apply FILE" in html_of(page)

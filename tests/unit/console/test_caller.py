"""What a page lets somebody press: as much as the API would take from them, and the rest says who may."""

from typing import Any

import pytest
from tests.unit.console.test_renderer import AROUND, Tags, gate_named, page_with

from towpath_console.caller import ANYBODY, NOBODY, Caller, caller_of
from towpath_console.page import Page
from towpath_console.renderer import Renderer

ME: dict[str, Any] = {
    "caller": "mia", "project": "shop", "signed_in_by": "session", "roles": ["approver"], "gate_roles": ["approver"],
    "scopes": ["runs:read", "gates:read", "gates:resolve"],
}  # fmt: skip


def drawn(page: Page, caller: Caller | None) -> Tags:
    around = AROUND if caller is None else {**AROUND, "caller": caller}
    return Tags(Renderer().whole(page, **around))


def gates(**gate: Any) -> Page:
    shown = {"networks": [], "samples": {}, "gates": [{**gate_named("calm"), **gate}], "runs": ()}
    return Page("Overview", "overview.html", {}, shown)


def overview() -> Page:
    return Page("Overview", "overview.html", {}, {"networks": ["support"], "samples": {}, "gates": (), "runs": ()})


def disabled(found: Tags, tag: str) -> list[bool]:
    shown = [attributes for name, attributes in found.tags if name == tag and "hidden" not in attributes]
    return ["disabled" in attributes for attributes in shown]


def test_what_a_caller_may_is_what_the_api_says_of_it() -> None:
    mia = caller_of(ME)
    assert (mia.name, mia.project, mia.has_session) == ("mia", "shop", True)
    assert mia.may("runs:read") and not mia.may("runs:write")
    assert mia.can("approver") and mia.can("operator", "approver") and not mia.can("operator")
    assert mia.lacking("runs:read") == mia.lacking("gates:resolve", "approver") == ""
    assert mia.lacking("runs:operate", "operator") == (
        "Only for somebody with the scope runs:operate and the role operator."
    )
    assert not caller_of({**ME, "signed_in_by": "key"}).has_session


def test_nobody_may_anything_and_of_whom_nothing_is_known_nothing_is_held_back() -> None:
    assert not NOBODY.may("runs:read") and not NOBODY.can("viewer") and NOBODY.is_nobody
    assert ANYBODY.may("runs:read") and ANYBODY.can("viewer") and not ANYBODY.is_nobody
    assert caller_of({}).lacking("runs:read") == "Only for somebody with the scope runs:read."


@pytest.mark.parametrize(
    ("gate", "roles", "gate_roles", "wanted"),
    [
        ({"approval_id": "a"}, ["approver"], [], ""),
        ({"approval_id": "a"}, ["operator"], ["operator"], "the role approver"),
        ({"approval_id": "a", "detail": {"role": "policy_admin"}}, ["approver"], [], "the role policy_admin"),
        ({"approval_id": "a", "detail": {"role": "policy_admin"}}, ["policy_admin"], [], ""),
        ({"approval_id": None}, [], ["operator"], ""),
        ({"approval_id": None, "detail": None}, ["policy_admin"], ["policy_admin"], "the role operator or approver"),
    ],
)
def test_a_gate_asks_for_its_own_role(
    gate: dict[str, Any], roles: list[str], gate_roles: list[str], wanted: str
) -> None:
    found = caller_of({**ME, "roles": roles, "gate_roles": gate_roles}).lacking_at(gate)
    assert found == (f"Only for somebody with {wanted}." if wanted else "")


def test_a_button_that_somebody_may_not_press_is_disabled_and_says_who_may() -> None:
    may, may_not = drawn(gates(approval_id="a"), caller_of(ME)), drawn(gates(approval_id="a"), NOBODY)
    decide = [attributes for tag, attributes in may_not.tags if tag == "button" and "data-key" in attributes]
    assert len(decide) >= 2 and all("disabled" in attributes for attributes in decide)
    ids = {attributes.get("id") for _, attributes in may_not.tags}
    assert {attributes["aria-describedby"] for attributes in decide} <= ids
    assert "the scope gates:resolve and the role approver" in may_not.text
    assert not any(disabled(may, "button")) and "Only for" not in may.text


def test_the_box_of_the_first_page_is_for_who_may_start_runs() -> None:
    assert disabled(drawn(overview(), caller_of(ME)), "fieldset") == [True]
    assert "Only for somebody with the scope runs:write." in drawn(overview(), caller_of(ME)).text
    assert disabled(drawn(overview(), caller_of({**ME, "scopes": ["runs:write"]})), "fieldset") == []


def test_the_menu_has_what_may_be_read_and_the_frame_says_who_reads() -> None:
    def links(caller: Caller | None) -> set[str | None]:
        return {attributes.get("href") for tag, attributes in drawn(page_with("calm"), caller).tags if tag == "a"}

    assert {"/runs", "/approvals"} <= links(caller_of(ME)) & links(None)
    reader = caller_of({**ME, "scopes": ["runs:read"]})
    assert "/approvals" not in links(reader)
    found = drawn(page_with("calm"), reader)
    assert "mia" in found.text and "/sign-out" in {attributes.get("action") for _, attributes in found.tags}
    here = drawn(page_with("calm"), caller_of({**ME, "signed_in_by": "machine"}))
    assert "/sign-out" not in {attributes.get("action") for _, attributes in here.tags}
    page = Page("Sign in", "sign_in.html", {"page": "/runs", "why": "", "can_begin": True})
    stranger = drawn(page, NOBODY)
    assert "nav" not in [tag for tag, _ in stranger.tags] and "Sign out" not in stranger.text


def test_one_page_is_never_drawn_for_who_looked_at_another() -> None:
    renderer = Renderer()
    for caller, held_back in ((NOBODY, True), (caller_of(ME), False), (NOBODY, True), (None, False)):
        around = AROUND if caller is None else {**AROUND, "caller": caller}
        assert ("Only for" in renderer.live_part(gates(approval_id="a"), **around)) == held_back

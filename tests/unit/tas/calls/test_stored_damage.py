"""A row of the ledger whose arguments are not those that were decided about is known for it before it is sent."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.tas.tas_calls import NOW, ask, decision, permitted, request

from towpath_contracts.canonical import digest_text
from towpath_contracts.tools.calls import EffectClass
from towpath_tas.core.approvals.approvals import grounds_of, new_approval
from towpath_tas.core.call import DispatchCall, LedgerCall, stored_damage

OTHER = '{"amount":90}'


def stored(**changes: Any) -> LedgerCall:
    call = permitted(EffectClass.IRREVERSIBLE)
    return replace(call, **{"args_digest": digest_text(call.args), **changes})


def edited() -> LedgerCall:
    call = stored()
    return replace(call, args=OTHER, args_digest=digest_text(OTHER), asked_digest=call.args_digest, edited_by="mia")


def test_a_row_as_it_was_stored_is_whole_also_once_a_person_has_edited_it() -> None:
    assert stored_damage(stored(), None) == ""
    for call in (stored(), edited()):
        assert stored_damage(call, new_approval(call, decision("require_approval"), now=NOW)) == ""


@pytest.mark.parametrize(
    ("changes", "damage"),
    [
        ({"args": OTHER}, "another digest"),
        ({"asked_digest": "sha256:00"}, "nobody edited them"),
        ({"edited_by": "mia"}, "nobody edited them"),
        ({"asked_digest": "sha256:00", "edited_by": "mia"}, "has no approval"),
    ],
)
def test_a_row_with_other_arguments_is_damaged(changes: dict[str, Any], damage: str) -> None:
    assert damage in stored_damage(stored(**changes), None)


@pytest.mark.parametrize("bound", ["{}", "[]", "no", json.dumps({"args_digest": digest_text(OTHER)})])
def test_a_row_whose_approval_is_for_other_arguments_is_damaged(bound: str) -> None:
    call = stored()
    approval = replace(new_approval(call, decision("require_approval"), now=NOW), bound=bound)
    assert "other arguments" in stored_damage(call, approval)


def test_an_approval_is_asked_for_by_whose_run_asks() -> None:
    approval = replace(new_approval(stored(), decision("require_approval"), now=NOW), requested_by="zed")
    assert "somebody else" in stored_damage(stored(), approval)


def test_an_edit_is_by_the_person_whom_the_approval_names() -> None:
    call = edited()
    approval = replace(new_approval(call, decision("require_approval"), now=NOW), edited_by="noa")
    assert "other arguments" in stored_damage(call, approval)


def test_arguments_that_nobody_edited_are_no_repeat_of_what_was_asked() -> None:
    call = permitted(EffectClass.IRREVERSIBLE)
    swapped = replace(call, args=OTHER, args_digest=digest_text(OTHER), asked_digest=call.args_digest)
    change = ask(swapped, request())
    assert [note.phase for note in change.notes] == ["conflict"]
    assert not any(isinstance(effect, DispatchCall) for effect in change.effects)
    assert [note.phase for note in ask(replace(swapped, edited_by="mia"), request()).notes] == ["dispatch"]


def test_what_is_decided_is_recorded_with_the_rules_and_the_definition_that_decided() -> None:
    made = replace(decision(), rules_digest="sha256:aa")
    assert made.tool is not None
    by = {"rules_digest": "sha256:aa", "tool_digest": made.tool.digest, "effect_class": "irreversible"}
    assert grounds_of(made) == by
    assert grounds_of(replace(decision(), tool=None)) == {}

"""A decision lets a call go by the version of its tool that the log has in force then."""

import json
from typing import Any

import pytest
from tests.unit.audit.test_sealed_calls import place

from towpath_audit.entries import ErasablePayload
from towpath_audit.sealed_tools import SealedTools

REGISTERED, PROPOSED = ("tool.registered accepted", {"version": 1}), ("tool.proposed pending", {"version": 2})
ACCEPTED, REFUSED = ("tool.accepted accepted", {"version": 2}), ("tool.refused refused", {"version": 2})
WITHDRAWN = ("tool.withdrawn withdrawn", {"version": 1, "versions": [1]})
REINSTATED = ("tool.reinstated reinstated", {"version": 1, "versions": [1]})
DRIFTED, RESTORED = ("tool.drifted held", {"version": 2}), ("tool.restored released", {"version": 1})
BY_1, BY_2 = ("decision allow", {"tool_version": 1}), ("decision allow", {"tool_version": 2})
CONSUMED = ("approval.consumed allow", {"tool_version": 1})
UNTOLD = ("tool.accepted accepted", None)
Said = tuple[str, dict[str, Any] | None]


def told(*entries: Said, partial: bool = False, order: list[int] | None = None) -> tuple[list[int], int]:
    """Return the entries at which a version was not in force, and how many it can't be told of."""
    tools = SealedTools(partial=partial)
    for number in order or range(len(entries)):
        kind, detail = entries[number]
        payload = ErasablePayload(salt=bytes(16), args_digest="", detail=json.dumps(detail))
        tools.on_entry(place(number, kind), None if detail is None else payload)
    found = [*tools.finish()]
    assert {fault.code for fault in found} <= {"tool_not_in_force"}
    return [fault.place.entry.entry_id for fault in found], tools.unseen


@pytest.mark.parametrize(
    ("entries", "faults"),
    [
        ([REGISTERED, BY_1, CONSUMED], []),
        ([REGISTERED, BY_2], [1]),
        ([REGISTERED, PROPOSED, BY_1], []),
        ([REGISTERED, PROPOSED, BY_2], [2]),
        ([REGISTERED, PROPOSED, ACCEPTED, BY_2], []),
        ([REGISTERED, PROPOSED, ACCEPTED, BY_1], [3]),
        ([REGISTERED, PROPOSED, REFUSED, BY_2], [3]),
        ([REGISTERED, PROPOSED, REFUSED, BY_1, ACCEPTED, BY_2], []),
        ([REGISTERED, WITHDRAWN, BY_1], [2]),
        ([REGISTERED, BY_1, WITHDRAWN, REINSTATED, BY_1], []),
        ([REGISTERED, WITHDRAWN, REINSTATED, CONSUMED, WITHDRAWN, CONSUMED, CONSUMED], [5]),
        ([REGISTERED, PROPOSED, DRIFTED, BY_1], [3]),
        ([REGISTERED, PROPOSED, DRIFTED, CONSUMED, RESTORED, BY_1], [3]),
        ([REGISTERED, PROPOSED, DRIFTED, RESTORED, CONSUMED, BY_1], []),
        ([REGISTERED, PROPOSED, DRIFTED, ACCEPTED, BY_2], []),
        ([REGISTERED, DRIFTED, WITHDRAWN, REINSTATED, BY_1], []),
    ],
)
def test_a_call_is_let_go_by_a_version_that_is_in_force(entries: list[Said], faults: list[int]) -> None:
    assert told(*entries) == (faults, 0)


def test_within_a_seal_the_ids_tell_what_came_first() -> None:
    assert told(REGISTERED, BY_1, WITHDRAWN, order=[0, 2, 1]) == ([], 0)
    assert told(REGISTERED, WITHDRAWN, BY_1, order=[0, 1, 2]) == ([2], 0)


def test_what_a_bundle_does_not_show_of_a_tool_is_counted_only() -> None:
    assert told(BY_1, PROPOSED, BY_1, partial=True) == ([], 2)
    assert told(BY_1, WITHDRAWN, BY_1, partial=True) == ([2], 1)
    assert told(REGISTERED, PROPOSED, UNTOLD, BY_2) == ([], 1), "its details are erased"
    assert told((REGISTERED[0], None), WITHDRAWN, BY_1) == ([2], 0), "what came later is known"
    assert told(REGISTERED, WITHDRAWN, UNTOLD, BY_1) == ([], 1)


def test_tools_of_the_platform_which_nobody_registers_are_always_in_force() -> None:
    assert told(BY_1, BY_2) == ([], 0)


def test_a_version_decides_by_the_definition_that_it_was_registered_with() -> None:
    registered = ("tool.registered accepted", {"version": 1, "digest": "a"})
    own, other = ((BY_1[0], {"tool_version": 1, "tool_digest": digest}) for digest in "ab")
    proposed = ("tool.proposed pending", {"version": 2, "digest": "b"})
    assert told(registered, own, proposed, own) == ([], 0)
    assert told(registered, own, other, other) == ([2], 0)
    assert told(registered, proposed, ACCEPTED, (BY_2[0], {"tool_version": 2, "tool_digest": "a"})) == ([3], 0)
    assert told(registered, BY_1) == ([], 0), "of an earlier release"
    assert told(REGISTERED, other) == ([], 0), "its digest is not known"
    assert told(proposed, (BY_2[0], {"tool_version": 2, "tool_digest": "a"}), partial=True) == ([1], 0)


def test_a_definition_without_a_version_is_none_that_anybody_registered() -> None:
    registered = ("tool.registered accepted", {"version": 1, "digest": "a"})
    unnamed = ("decision allow", {"tool_digest": "b"})
    assert told(registered, unnamed) == ([1], 0)
    assert told(registered, (CONSUMED[0], {"tool_digest": "a"})) == ([1], 0)
    assert told(unnamed) == ([], 0), "one of the platform's own"
    assert told(registered, ("decision allow", {})) == ([], 0), "of an earlier release"

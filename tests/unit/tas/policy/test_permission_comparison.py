"""The cells that another matrix changes: each with every verdict that a call may get, and no cell that stays."""

from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.policy import PermissionChange, PermissionsDiff
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.app.policy.policy_diff import MAX_CELLS, _cells, first_changes
from towpath_tas.core.permission_comparison import permission_changes
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix
from towpath_tas.core.policy.policy_file import read_policy

TOOLS = [
    ToolSpec.model_validate({"name": name, "toolset": "t", "effect_class": "pure"}) for name in ("find", "pay", "look")
]
WHO = CallPrincipal("support", "billing", "", "*", "shop")


def matrix(*rules: str) -> Matrix:
    found = read_policy(f"kind: Policy\nrules: [{', '.join(rules)}]", compile_condition)
    assert found.problems == ()
    return Matrix(found.rules, compile_condition)


FIND = "{name: f, tool: find, effect: allow}"
SMALL = "{name: s, tool: pay, effect: allow, when: args.amount <= 100}"
LARGE = "{name: l, tool: pay, effect: require_approval, when: args.amount > 100}"


def test_only_cells_that_change_are_told_with_all_that_arguments_may_lead_to() -> None:
    then, now = matrix(FIND, SMALL, LARGE), matrix(FIND, SMALL, LARGE.replace("require_approval", "deny"))
    (change,) = permission_changes(WHO, TOOLS, then, now)
    assert (change.network, change.agent_key, change.tool) == ("support", "billing", "pay")
    assert change.was == ("allow", "require_approval") and change.becomes == ("allow", "deny")
    assert change.rules_now == ("s", "l")


def test_another_condition_is_a_change_by_which_the_cell_says_the_same() -> None:
    then, now = matrix(SMALL), matrix(SMALL.replace("100", "500"))
    (change,) = permission_changes(WHO, TOOLS, then, now)
    assert change.was == change.becomes == ("allow",)


def test_another_note_another_agent_and_another_order_change_no_cell() -> None:
    noted = FIND.replace("effect: allow", "effect: allow, note: why, owner: finance")
    others = "{name: o, who: {agent: triage}, tool: pay, effect: deny}"
    assert not [*permission_changes(WHO, TOOLS, matrix(FIND, SMALL), matrix(SMALL, noted, others))]


def test_a_cell_without_any_rule_is_denied() -> None:
    (change,) = permission_changes(WHO, TOOLS, matrix(FIND), matrix())
    assert (change.was, change.becomes, change.rules_now) == (("allow",), ("deny",), ())


def test_ten_rules_of_a_cell_are_named_and_the_others_counted() -> None:
    then, now = (matrix(*(f"{{name: r{n}, tool: find, effect: allow}}" for n in range(many))) for many in (10, 11))
    (change,) = permission_changes(WHO, TOOLS, then, now)
    assert (len(change.rules_then), change.more_then) == (10, 0)
    assert (len(change.rules_now), change.more_now) == (10, 1)


def test_changed_cells_fit_into_one_message_however_long_the_names_of_their_rules_are() -> None:
    short = PermissionChange(network="n", agent_key="a", tool="t", was=("allow",), becomes=("deny",))
    assert len(first_changes([short] * (MAX_CELLS + 1))) == MAX_CELLS
    long = short.model_copy(update={"rules_then": ("é" * 200,) * 10, "rules_now": ("é" * 200,) * 10})
    shown = first_changes([long] * MAX_CELLS)
    whole = PermissionsDiff(version=1, agents=1, changes=shown).model_dump_json().encode()
    assert 500_000 < len(whole) < 1024 * 1024


@pytest.mark.parametrize(("tools", "more"), [(1_000, 0), (1_001, 1)])
def test_a_thousand_cells_are_listed_and_the_others_counted(tools: int, more: int) -> None:
    specs = [TOOLS[0].model_copy(update={"name": f"t{number}"}) for number in range(tools)]
    registry = SimpleNamespace(tools={spec.name: SimpleNamespace(spec=spec) for spec in specs})
    network = {"network": "support", "spec": '{"agents": [{"key": "billing"}]}'}
    bundle: Any = SimpleNamespace(registry=registry, matrix=matrix())
    found = _cells("shop", bundle, matrix("{name: all, effect: allow}"), [network])
    assert (found.agents, len(found.changes), found.more) == (1, 1_000, more)

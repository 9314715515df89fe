"""Which tools a policy opens by a pattern alone: nobody who wrote it need have heard of them."""

from typing import Any

import pytest

from towpath_contracts.tools.calls import ToolSpec
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.patterns import opened_by_pattern


def rule(tool: str, effect: Any = "allow", **more: Any) -> Rule:
    return Rule(name=f"{effect} {tool}", tool=tool, effect=effect, **more)


PAY = ToolSpec(name="pay.sneaky", toolset="pay", operation="write")


@pytest.mark.parametrize(
    ("rules", "opening"),
    [
        ([], None),
        ([rule("pay.*")], "allow pay.*"),
        ([rule("*")], "allow *"),
        ([rule("mail.*"), rule("pay.s*")], "allow pay.s*"),
        ([rule("pay.*"), rule("pay.sneaky")], None),
        ([rule("pay.*"), rule("pay.sneaky", "require_approval")], None),
        ([rule("pay.*", "require_approval")], None),
        ([rule("pay.*", "deny")], None),
        ([rule("pay.*", operation="read")], None),
        ([rule("pay.*", project="other")], None),
        ([rule("pay.*"), rule("pay.sneaky", project="other")], "allow pay.*"),
    ],
)
def test_a_rule_that_allows_by_its_pattern_opens_what_no_rule_names(rules: list[Rule], opening: str | None) -> None:
    found = opened_by_pattern(rules, "shop", PAY)
    assert (found.name if found else None) == opening


def test_a_discovered_tool_is_opened_only_by_a_rule_that_says_so() -> None:
    found = PAY.model_copy(update={"discovered": True})
    assert opened_by_pattern([rule("*"), rule("pay.*")], "shop", found) is None
    assert opened_by_pattern([rule("pay.*", discovered=True)], "shop", found) is not None

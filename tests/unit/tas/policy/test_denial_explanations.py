"""People are told which rule refused a call, where it stands and what would allow it; a model is told none of it."""

import json
import shlex
import uuid
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tas.policy.test_authorization import asked, bundle, spec, stored

from towpath_contracts.events.call_events import ToolCallDenied
from towpath_contracts.files.policy_document import RuleEffect
from towpath_contracts.tools.calls import Denial, ToolSpec
from towpath_contracts.tools.violations import DenialExplanation
from towpath_readings.execution_log import response_of
from towpath_readings.unsuccessful_calls import refused_call
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.denial_explanations import MAX_NAMED, MAX_WHEN_CHARS
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_file import read_policy

FIND = Rule(name="find", effect="allow", tool="orders.find", agent="billing", at="policies.yaml:3")
CHECK = "towpath policy check --network support --agent billing --tool orders.refund --args '{…}'"
TO_ALLOW = "To allow every call of orders.refund to billing, whatever its arguments are"
ALLOW = f"{TO_ALLOW}: towpath new policy billing-orders-refund --tool orders.refund --effect allow --who agent=billing"


def denial(*rules: Rule, query: AuthorizationQuery | None = None, tools: list[ToolSpec] | None = None) -> Denial:
    known = [stored(one) for one in tools or [spec(name) for name in ("orders.find", "orders.refund", "mail.send")]]
    decision = bundle(*rules, tools=known).authorize(asked() if query is None else query)
    assert decision.denial is not None
    return decision.denial


def explained(*rules: Rule, **more: Any) -> DenialExplanation:
    found = denial(*rules, **more).explanation
    assert found is not None
    return found


def test_a_rule_that_denies_is_named_with_its_place_and_its_condition() -> None:
    large = Rule(name="large", effect="deny", tool="orders.*", when="args.amount > 3", at="policies.yaml:14")
    found = explained(large, FIND)
    assert (
        found.detail
        == "billing may not call orders.refund: rule large (policies.yaml:14) denies it where args.amount > 3."
    )
    assert (found.rule_at, found.nearest, found.remedy) == ("policies.yaml:14", "", f"Try what would pass: {CHECK}")
    plain = explained(Rule(name="none", effect="deny"))
    assert plain.detail == "billing may not call orders.refund: rule none denies it, whatever the arguments are."


def test_the_nearest_rule_is_one_that_opens_the_tool_on_conditions() -> None:
    small = Rule(name="small", effect="allow", tool="orders.refund", when="args.amount <= 3", at="policies.yaml:9")
    found = explained(Rule(name="techs", effect="allow", tool="orders.refund", agent="tech"), small, FIND)
    assert found.detail == (
        "billing may not call orders.refund: no rule allows it. It may call orders.find. "
        "Nearest rule: small (policies.yaml:9): it opens it where args.amount <= 3."
    )
    assert (found.nearest, found.nearest_at, found.rule_at) == ("small", "policies.yaml:9", "")
    assert found.remedy == f"Try what would pass: {CHECK}"


def test_else_it_is_one_that_opens_the_tool_to_others() -> None:
    bars = Rule(name="bars", effect="deny", tool="orders.refund", agent="tech")
    techs = Rule(name="techs", effect="allow", tool="orders.re*", agent="tech", at="policies.yaml:7")
    found = explained(FIND, bars, techs)
    assert found.detail.endswith("Nearest rule: techs (policies.yaml:7): agent 'billing' is not 'tech'.")
    assert (found.nearest, found.nearest_at) == ("techs", "policies.yaml:7")
    added = "towpath new policy billing-orders-refund --tool orders.refund --effect {} --who agent=billing"
    assert found.remedy == (
        "Add a rule for such calls, whatever their arguments are, in policies.yaml below rules: "
        "- {name: billing-orders-refund, who: {agent: billing}, tool: orders.refund, effect: allow}"
    )
    techs = replace(techs, at="desk.py:7")
    assert explained(FIND, bars, techs).remedy == (
        f"Add a rule for such calls, whatever their arguments are: {added.format('allow')}"
    )
    asks = Rule(
        name="asks",
        effect="require_approval",
        tool="orders.refund",
        agent="tech",
        network="hotel",
        when="args.amount > 3",
    )
    assert explained(FIND, bars, asks).remedy == (
        f"Add a rule for such calls: {added.format('require_approval')} --who network=support; "
        "then, in that rule, add when: args.amount > 3"
    )
    small = Rule(name="small", effect="allow", tool="orders.refund", agent="tech", when="args.amount <= 3")
    assert explained(FIND, bars, small).remedy == (
        f"Add a rule for such calls: {added.format('require_approval')}; "
        "then, in that rule, change effect to allow, and add when: args.amount <= 3"
    )
    written = Rule(name="writes", effect="allow", tool="orders.refund", operation="write", at="policies.yaml:9")
    assert explained(FIND, written).remedy.startswith("If rule writes (policies.yaml:9) is to cover this call, change")


def test_the_rule_that_is_added_beside_one_for_others_has_its_limits_and_is_for_no_more_callers() -> None:
    added = (
        "towpath new policy billing-orders-refund --tool orders.refund --effect require_approval --who agent=billing"
    )
    few = Rule(name="few", effect="allow", tool="orders.refund", agent="tech", max_calls_per_run=2)
    assert explained(FIND, few).remedy == (
        f"Add a rule for such calls: {added}; then, in that rule, change effect to allow, and add max_calls_per_run: 2"
    )
    every = Rule(
        name="every",
        effect="require_approval",
        tool="orders.refund",
        agent="tech",
        network="sup*",
        when="args.amount > 3",
        rate_calls=4,
        rate_per_s=60,
        max_cost_per_run_usd=0.5,
        quorum=2,
        expires_s=3600,
        on_expiry="escalate",
    )
    assert explained(FIND, every).remedy == (
        f"Add a rule for such calls: {added} --who 'network=sup*'; then, in that rule, add when: args.amount > 3 and "
        "rate: {calls: 4, per_s: 60} and max_cost_per_run_usd: 0.5 and quorum: 2 and expires_s: 3600 and "
        "on_expiry: escalate"
    )


def test_the_rule_that_is_added_to_a_file_is_written_out_and_taken_as_it_stands() -> None:
    every = Rule(
        name="every",
        effect="allow",
        tool="orders.refund",
        agent="tech",
        network="sup*",
        when='args.amount > 3 && args.note != "a, b: c"',
        rate_calls=4,
        rate_per_s=60,
        max_cost_per_run_usd=0.5,
        at="rules/policies.yaml:9",
    )
    told, _, written = explained(FIND, every).remedy.partition(" below rules: ")
    assert told == "Add a rule for such calls, in rules/policies.yaml"
    read = read_policy(f"kind: Policy\nrules:\n  {written}\n", compile_condition)
    assert not read.problems
    (rule,) = read.rules
    assert replace(rule, name="every", agent="tech", digest="", at=every.at) == every


def test_a_condition_that_is_too_long_to_be_told_is_named_with_its_rule() -> None:
    long = Rule(
        name="long",
        effect="allow",
        tool="orders.refund",
        agent="tech",
        when=" || ".join(["args.amount > 3"] * 40),
        at="policies.yaml:9",
    )
    assert explained(FIND, long).remedy.endswith(
        "; then, in that rule, change effect to allow, and add the condition (when) of long (policies.yaml:9), whole"
    )


@pytest.mark.parametrize("caller", ["mia'; rm -rf ~ #", "two words", "$(id)"])
def test_what_a_shell_would_read_is_quoted_in_the_commands_of_a_cure(caller: str) -> None:
    query = replace(asked(), principal=replace(asked().principal, caller=caller))
    others = Rule(name="others", effect="allow", tool="orders.refund", caller="desk")
    said = explained(FIND, others, query=query).remedy.partition("arguments are: ")[2]
    assert shlex.split(said)[-1] == f"caller={caller}"


def test_a_rule_that_fits_the_arguments_and_misspells_who_calls_is_to_be_corrected_where_it_stands() -> None:
    def refunds(name: str, effect: RuleEffect, when: str, line: int, **who: Any) -> Rule:
        return Rule(name=name, effect=effect, tool="orders.refund", when=when, at=f"policies.yaml:{line}", **who)

    small = refunds("small", "allow", "args.amount <= 4", 12, network="supprt")
    large = refunds("large", "require_approval", "args.amount > 4", 17, network="supprt")
    found = explained(small, large, FIND)
    assert found.detail.endswith("Nearest rule: large (policies.yaml:17): network 'support' is not 'supprt'.")
    assert (found.nearest, found.nearest_at) == ("large", "policies.yaml:17")
    assert found.remedy == (
        "Probably misspelt: correct rule large (policies.yaml:17): its network is 'supprt', the call's 'support'."
    )
    right = refunds("small", "allow", "args.amount <= 4", 12, network="support")
    assert explained(right, large).nearest == "large"
    other = refunds("large", "require_approval", "args.amount > 4", 17, network="hotel")
    assert explained(right, other).nearest == "small"
    assert explained(small, other).nearest == "large"
    assert explained(small).remedy.startswith("Probably misspelt: correct rule small (policies.yaml:12): ")
    twice = refunds("large", "require_approval", "args.amount > 4", 17, network="supprt", agent="biling")
    assert explained(twice).remedy.endswith(
        "its network is 'supprt', the call's 'support' and its agent is 'biling', the call's 'billing'."
    )


def test_a_rule_for_all_tools_of_others_is_no_place_to_open_one() -> None:
    found = explained(Rule(name="admins", effect="allow", agent="root", at="policies.yaml:4"), FIND)
    assert found.nearest == "admins"
    assert found.remedy == (
        f"{TO_ALLOW}, add to policies.yaml, below rules: "
        "- {name: billing-orders-refund, who: {agent: billing}, tool: orders.refund, effect: allow}"
    )
    admins = Rule(name="admins", effect="allow", agent="root")
    techs = Rule(name="techs", effect="allow", tool="orders.refund", agent="tech", when="args.amount > 9")
    near = explained(admins, techs, FIND)
    assert (near.nearest, ALLOW in near.remedy) == ("techs", False)
    misspelt = explained(Rule(name="all", effect="allow", network="supprt", at="policies.yaml:4"))
    assert misspelt.remedy.startswith("Probably misspelt: correct rule all (policies.yaml:4): its network is 'supprt'")


def test_else_it_is_the_one_for_the_tool_of_the_name_most_like_it() -> None:
    found = explained(Rule(name="mails", effect="allow", tool="mail.*"), FIND)
    assert found.detail.endswith("Nearest rule: find (policies.yaml:3): it is for orders.find.")
    nothing = explained(Rule(name="bars", effect="deny", agent="tech"))
    assert nothing.detail == "billing may not call orders.refund: no rule allows it. Nothing is open to it."
    assert (nothing.nearest, nothing.remedy) == ("", ALLOW)


def test_a_discovered_tool_wants_a_rule_that_names_it() -> None:
    tools = [spec("orders.refund", discovered=True)]
    found = explained(Rule(name="all", effect="allow", at="policies.yaml:3"), tools=tools)
    assert found.detail.endswith("all (policies.yaml:3): the tool was discovered, and the rule does not name it.")


def test_a_limit_that_is_used_up_is_told_with_its_rule() -> None:
    rule = Rule(name="few", effect="allow", max_calls_per_run=2, at="policies.yaml:5")
    decision = bundle(rule).authorize(asked(), {"few": 2})
    assert decision.denial is not None
    found = decision.denial.explanation
    assert found is not None
    assert found.detail.startswith("billing may not call orders.refund now: rule few (policies.yaml:5): ")
    assert (found.rule_at, found.remedy) == (
        "policies.yaml:5",
        "Start another run, or raise max_calls_per_run of few, which is 2.",
    )


def test_a_limit_is_told_with_its_key_and_another_run_only_where_that_begins_anew() -> None:
    def remedy(rule: Rule, rates: dict[str, int] | None = None) -> str:
        denied = bundle(rule).authorize(asked(), {}, rates).denial
        assert denied is not None
        assert denied.explanation is not None
        return denied.explanation.remedy

    often = Rule(name="few", effect="allow", rate_calls=4, rate_per_s=60)
    assert remedy(often, {"few": 4}) == "Ask again in 60 s, or raise the rate of few, which is 4 calls."
    assert remedy(Rule(name="few", effect="allow", max_cost_per_run_usd=0.5)) == (
        "Start another run, or raise max_cost_per_run_usd of few, which is 0.5; where its model has no price, give it "
        "one: TOWPATH_MODEL_PRICES_FILE."
    )


def test_few_of_the_open_tools_are_named_and_a_long_condition_is_cut() -> None:
    names = [f"orders.t{number}" for number in range(MAX_NAMED + 3)]
    found = explained(
        Rule(name="some", effect="allow", tool="orders.t*"), tools=[spec(name) for name in ("orders.refund", *names)]
    )
    assert sum(name in found.detail for name in names) == MAX_NAMED == 5
    long = explained(Rule(name="long", effect="deny", when=" || ".join(["args.amount > 3"] * 40)))
    assert len(long.detail) < len("billing may not call orders.refund: rule long denies it where …. ") + MAX_WHEN_CHARS
    assert MAX_WHEN_CHARS == 200


@pytest.mark.parametrize("query", [asked("orders.refnd"), asked(args={}), asked(operation="delete")])
def test_what_no_rule_has_to_do_with_is_told_by_its_reason(query: AuthorizationQuery) -> None:
    found = denial(FIND, query=query)
    assert found.explanation is None
    assert found.told() == found.reason


def test_a_permitted_call_is_explained_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(*_: object) -> AuthorizationDecision:
        raise AssertionError

    monkeypatch.setattr("towpath_tas.core.authorization.explain_denial", explain)
    assert bundle(FIND).authorize(asked("orders.find")).effect == "allow"


def test_a_model_is_told_the_reason_and_no_explanation() -> None:
    found = denial(Rule(name="techs", effect="allow", tool="orders.refund", agent="tech", at="policies.yaml:7"), FIND)
    event = ToolCallDenied(
        execution_id=uuid.uuid4(),
        step=1,
        epoch=1,
        agent_key="billing",
        call_index=0,
        tool="orders.refund",
        denial=found,
    )
    assert found.reason == "no rule allows orders.refund (call) to this agent"
    for told in (found.model_view(), response_of(event)):
        assert told["reason"] == found.reason
        assert "techs" not in json.dumps(told)
        assert "policies.yaml" not in json.dumps(told)
    assert refused_call(event) == f"orders.refund: {found.told()}"
    assert "techs (policies.yaml:7)" in found.told()

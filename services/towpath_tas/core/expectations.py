"""Policy tests: a file of calls with the verdicts that a matrix must give (`towpath policy test`).

The matrix and the grants alone decide a case, by the code that decides live calls. The tool's schema and the registry
are not used, so a test needs no platform. A file with any problem is refused whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from towpath_contracts.canonical import canonical_json
from towpath_contracts.files.policy_document import RuleEffect
from towpath_contracts.files.policy_tests import PolicyTest, PolicyTestCase
from towpath_contracts.problems.given_values import in_words_of_a_file
from towpath_contracts.problems.input_faults import details_of
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.access import RuleEvaluation
from towpath_contracts.tools.grants import grant_chain
from towpath_contracts.tools.violations import DenialCode
from towpath_readings.yaml_lines import LineNumbers
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.policy.conditions import ConditionCompiler, ConditionContext
from towpath_tas.core.policy.grants import granted
from towpath_tas.core.policy.matrix import CallPrincipal, LimitCounters, Matrix

NO_RULE = ""
"""The `rule` of a case that no rule may decide: most denied calls match no rule."""

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedPolicyTestFile:
    """The expectations with the line of every case, or the problems."""

    found: PolicyTest | None = None
    lines: tuple[int, ...] = ()
    problems: tuple[ProblemDetail, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvaluation:
    """What a matrix decides about a case, and how every rule for the tool was evaluated."""

    verdict: RuleEffect
    rule: str | None
    reason: str = ""
    rule_at: str = ""
    trace: tuple[RuleEvaluation, ...] = ()


def read_expectations(text: str) -> ParsedPolicyTestFile:
    """Read a test file; every problem has its line."""
    try:
        root = yaml.compose(text, Loader=_LOADER)
        written = yaml.load(text, Loader=_LOADER)  # noqa: S506 - the loader is a safe one
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        detail = getattr(error, "problem", None) or str(error)
        return ParsedPolicyTestFile(problems=(ProblemDetail(code="yaml", detail=f"{where}not YAML: {detail}"),))
    if not isinstance(written, Mapping):
        detail = "a test is a mapping; start with 'kind: PolicyTest'"
        return ParsedPolicyTestFile(problems=(ProblemDetail(code="kind", detail=detail),))
    lines, numbers = _lines(root), LineNumbers(root)
    try:
        found = PolicyTest.model_validate(dict(written))
    except ValidationError as error:
        details = in_words_of_a_file(details_of(error, PolicyTest), written)
        return ParsedPolicyTestFile(problems=tuple(_placed(one, numbers) for one in details))
    return ParsedPolicyTestFile(found=found, lines=lines)


def run_case(matrix: Matrix, case: PolicyTestCase, compile_grant: ConditionCompiler) -> CaseEvaluation:
    principal = CallPrincipal(case.who.network, case.who.agent, case.who.agent_type, case.who.caller, case.who.project)
    query = AuthorizationQuery(
        run_id=None,
        project=case.who.project,
        principal=principal,
        step=case.step,
        tool=case.tool,
        operation=case.operation,
        args=case.args,
        args_text=canonical_json(case.args),
        labels=case.labels,
        grants=grant_chain((), case.grant),
        spent_usd=case.spent_usd,
    )
    context = ConditionContext({**query.context(), "origin": case.origin})
    if not granted(query.grants, case.tool, case.operation, context, compile_grant):
        return CaseEvaluation(verdict="deny", rule=None, reason=DenialCode.NOT_GRANTED)
    used = LimitCounters(calls=case.used, rates=case.rates, spent_usd=case.spent_usd)
    verdict = matrix.decide(principal, case.tool, case.operation, context, used, discovered=case.discovered)
    return CaseEvaluation(
        verdict=verdict.effect,
        rule=verdict.rule.name if verdict.rule else None,
        rule_at=verdict.rule.at if verdict.rule else "",
        reason=DenialCode.LIMIT if verdict.limited else "",
        trace=matrix.trace(principal, case.tool, case.operation, context, discovered=case.discovered),
    )


def is_expected(case: PolicyTestCase, result: CaseEvaluation) -> bool:
    """Return whether *result* is what *case* expects."""
    if result.verdict != case.verdict:
        return False
    return case.rule is None or case.rule == (result.rule or NO_RULE)


def failures(
    matrix: Matrix, cases: Sequence[PolicyTestCase], compile_grant: ConditionCompiler
) -> tuple[tuple[int, CaseEvaluation], ...]:
    """Return position and result of every case that does not get its expected verdict."""
    answers = ((place, run_case(matrix, case, compile_grant)) for place, case in enumerate(cases))
    return tuple((place, result) for place, result in answers if not is_expected(cases[place], result))


def _lines(root: yaml.Node | None) -> tuple[int, ...]:
    if not isinstance(root, yaml.MappingNode):
        return ()
    listed = [value for key, value in root.value if key.value == "cases"]
    if not listed or not isinstance(listed[0], yaml.SequenceNode):
        return ()
    return tuple(node.start_mark.line + 1 for node in listed[0].value)


def _placed(one: ProblemDetail, numbers: LineNumbers) -> ProblemDetail:
    key = one.pointer.rpartition("/")[2]
    named = f"{key}: " if key and not key.isdecimal() and key not in one.detail else ""
    return one.model_copy(update={"detail": f"line {numbers.of(one.pointer)}: {named}{one.detail}"})

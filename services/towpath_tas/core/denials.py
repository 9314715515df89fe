"""The text of a denial: why, which tools may be used instead, and what to try.

A denial is input for the model's next decision. It names only tools that this agent may really use, nearest first, and
discloses no more of a rule than its name and condition.
"""

import heapq
import re
from collections.abc import Iterable, Sequence

from towpath_contracts.problems.near_names import likeness, nearest_name, shared_letters
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.calls import Denial, ToolSpec
from towpath_contracts.tools.grants import Grants, chain_covers, covers_operation
from towpath_contracts.tools.violations import DenialCode
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix, MatrixVerdict, Rule

MAX_ALLOWED = 10
"""Tools named in a denial; models choose badly from long lists."""

MAX_CONDITIONS_CHARS = 400
"""Of the conditions of a grant that a denial repeats."""

INVALID = " are not valid: "
_FAULT = re.compile(r"(?:^|; )([^\s:;]+): ")
"""Where one of several faults begins: the argument, with the path inside it."""


def allowed_tools(
    matrix: Matrix, principal: CallPrincipal, specs: Iterable[ToolSpec], grants: Grants, wanted: str
) -> tuple[str, ...]:
    """Return tools that rules and *grants* allow to *principal*, perhaps on conditions, nearest to *wanted* first."""

    def rules(spec: ToolSpec) -> tuple[Rule, ...]:
        return matrix.candidates(principal, spec.name, spec.operation, discovered=spec.discovered)

    granted = [spec for spec in specs if spec.name != wanted and chain_covers(grants, spec.name, spec.operation)]
    return rank([spec for spec in granted if _open(rules(spec))], wanted)


def rank(specs: Sequence[ToolSpec], wanted: str) -> tuple[str, ...]:
    """Return the names of *specs*, nearest to *wanted* first: same family, then similar name, then alphabet."""
    family = wanted.rpartition(".")[0]
    roughly, exactly = shared_letters(wanted), likeness(wanted)

    def is_foreign(name: str) -> bool:
        return not family or name.rpartition(".")[0] != family

    names = (spec.name for spec in specs)
    near = heapq.nsmallest(2 * MAX_ALLOWED, names, key=lambda name: (is_foreign(name), -roughly(name), name))
    return tuple(sorted(near, key=lambda name: (is_foreign(name), -round(exactly(name), 3), name))[:MAX_ALLOWED])


def denied_by_matrix(verdict: MatrixVerdict, tool: str, operation: str, allowed: tuple[str, ...]) -> Denial:
    """Return why the matrix refused, and what would pass."""
    rule = verdict.rule
    if verdict.limited is not None:
        reason = _describe_limit(verdict, verdict.limited, tool)
        return _denial(DenialCode.LIMIT, reason, verdict.limited.name, allowed, "Go on with the results you have.")
    if rule is not None:
        reason = f"{tool} ({operation}) is denied by rule {rule.name}"
        return _denial(DenialCode.PERMISSION, reason, rule.name, allowed, _suggest(verdict.unmet, allowed))
    if verdict.unmet:
        reason = f"no rule allows {tool} ({operation}) with these arguments"
    else:
        reason = f"no rule allows {tool} ({operation}) to this agent"
    return _denial(DenialCode.PERMISSION, reason, None, allowed, _suggest(verdict.unmet, allowed))


def _describe_limit(verdict: MatrixVerdict, rule: Rule, tool: str) -> str:
    if verdict.limit == "rate":
        rate = f"{rule.rate_calls} calls in {rule.rate_per_s} s"
        return f"rule {rule.name} lets {rate} through for the whole project, and they are used up for now"
    if verdict.limit == "cost":
        most = f"US$ {rule.max_cost_per_run_usd:g}"
        return f"rule {rule.name} lets {tool} run only while the run has cost less than {most}, as far as is known"
    return f"{tool} was called {rule.max_calls_per_run} times in this run already, which is the limit of {rule.name}"


def denied_unknown(tool: str, known: Sequence[str], allowed: tuple[str, ...]) -> Denial:
    """There is no such tool; name the one that was probably meant."""
    near = nearest_name(tool, [name for name in known if name in allowed])
    suggestion = f"Did you mean {near}?" if near is not None else _suggest((), allowed)
    return _denial(DenialCode.TOOL_UNKNOWN, f"there is no tool named {tool}", None, allowed, suggestion)


def denied_arguments(tool: str, problems: Sequence[str]) -> Denial:
    """The arguments are invalid; another tool would not help."""
    reason = f"the arguments of {tool}{INVALID}" + "; ".join(problems)
    return _denial(DenialCode.ARGUMENTS, reason, None, (), f"Call {tool} again with corrected arguments.")


def argument_faults(denial: Denial) -> tuple[ProblemDetail, ...]:
    """Return what is wrong with which argument, for a person who filled them in; nothing where that is not the matter.

    It is read out of the words that a model is told, so that nothing is told twice in logs and prompts.
    """
    _, _, told = denial.reason.partition(INVALID)
    if denial.violation_type != DenialCode.ARGUMENTS or not told:
        return ()
    found = _FAULT.split(told)[1:]
    faults = zip(found[::2], found[1::2], strict=True)
    return tuple(ProblemDetail(pointer=_pointer(where), detail=what) for where, what in faults)


def _pointer(where: str) -> str:
    return "/args" if where == "arguments" else "/args/" + where.replace(".", "/")


def denied_too_costly(tool: str, values: int) -> Denial:
    """There are so many values, in so much text, that nobody can say in time where they come from."""
    reason = f"{tool} was given {values} values or more, too many to find each in all that this run has read"
    suggestion = f"Call {tool} with fewer or shorter arguments, several times if need be."
    return _denial(DenialCode.TOO_COSTLY, reason, None, (), suggestion)


def denied_long_check(tool: str) -> Denial:
    """Its arguments can't be checked against its schema in good time."""
    reason = f"the arguments of {tool} have too many values to be checked against its schema"
    suggestion = f"Call {tool} with fewer or shorter arguments, several times if need be."
    return _denial(DenialCode.TOO_COSTLY, reason, None, (), suggestion)


def denied_long_conditions(tool: str) -> Denial:
    """The conditions of its rules or grants can't be evaluated on its arguments in good time."""
    reason = f"the conditions for {tool} would take too long to be evaluated on these arguments"
    suggestion = f"Call {tool} with fewer or shorter arguments, several times if need be."
    return _denial(DenialCode.TOO_COSTLY, reason, None, (), suggestion)


def denied_poison(tool: str) -> Denial:
    """Whether it is allowed could not be found out: each try ended the service."""
    reason = f"this call of {tool} could not be authorized: each try ended the tool-access service"
    suggestion = (
        "Do not repeat it; try another tool or smaller arguments. An operator finds the call among the dead letters."
    )
    return _denial(DenialCode.POISON, reason, None, (), suggestion)


def denied_rules_changed(tool: str, version: int) -> Denial:
    """Somebody has changed the rules in the database: they are nobody's policy."""
    reason = f"{tool} can't be permitted: the stored rules are not those that policy version {version} was applied with"
    suggestion = "No call is permitted until a policy is applied again; respond with what is missing."
    return _denial(DenialCode.RULES_CHANGED, reason, None, (), suggestion)


def denied_schema(tool: str, fault: str) -> Denial:
    """The tool was registered with a schema that is not accepted any more."""
    reason = f"the schema of {tool} can't be used: {fault[:500]}"
    suggestion = "Its owner has to mend the schema and register it; go on with other tools, or say what is missing."
    return _denial(DenialCode.SCHEMA, reason, None, (), suggestion)


def denied_drifted(tool: str, version: int) -> Denial:
    """A server has redefined its tool, and nobody has accepted the new definition yet."""
    reason = f"{tool} is not what was accepted under this name: its calls are held until version {version} is accepted"
    suggestion = (
        f"A policy admin has to see what changed (towpath tools diff {tool} --version {version}), and to accept or "
        "refuse it; go on with other tools, or respond with what is missing."
    )
    return _denial(DenialCode.DRIFTED, reason, None, (), suggestion)


def denied_grant(tool: str, operation: str, grants: Grants) -> Denial:
    """The task was submitted with fewer rights: its grants don't name the call, or name it on conditions alone."""
    if chain_covers(grants, tool, operation):
        unmet = _conditions(tool, operation, grants)[:MAX_CONDITIONS_CHARS]
        reason = f"this task was granted {tool} ({operation}) only where {unmet}"
        suggestion = (
            f"Call {tool} where that holds, or respond and say what was missing: its caller can submit another task, "
            "which is granted more."
        )
        return _denial(DenialCode.NOT_GRANTED, reason, None, (), suggestion)
    reason = f"this task was not granted {tool} ({operation})"
    suggestion = (
        f"Use only what this task was granted, or respond and say that {tool} was missing: its caller can submit "
        "another task, whose grant names it."
    )
    return _denial(DenialCode.NOT_GRANTED, reason, None, (), suggestion)


def _conditions(tool: str, operation: str, grants: Grants) -> str:
    """Return what has to hold: of each grant of the chain some entry, as each only narrows the one before it."""
    found: list[list[str]] = []
    for grant in grants:
        near = [entry.get("when") for entry in grant if covers_operation(entry, tool, operation)]
        if None not in near:
            found.append(list(dict.fromkeys(map(str, near))))
    if len(found) == 1:
        return " or ".join(found[0])
    return " and ".join(f"({' or '.join(conditions)})" for conditions in found)


def denied_by_person(tool: str, reason: str, rule: str, *, expired: bool) -> Denial:
    """A person refused, with that person's reason, or nobody answered in time."""
    if expired:
        message = f"nobody approved {tool} in time"
        return _denial(
            DenialCode.APPROVAL_EXPIRED, message, rule, (), "Find another way, or respond with what is missing."
        )
    return _denial(DenialCode.APPROVAL_DENIED, reason, rule, (), "Do not ask for the same again; take the reason in.")


def denied_lost(tool: str) -> Denial:
    """The approval that this call waited for no longer exists."""
    return _denial(DenialCode.APPROVAL_EXPIRED, f"the approval of {tool} is gone", None, (), "Find another way.")


def denied_changing(tool: str, times: int, rule: str) -> Denial:
    """The call kept changing while people were asked about it."""
    message = f"{tool}, or what decides about it, changed {times} times while it waited for a person"
    return _denial(DenialCode.APPROVAL_EXPIRED, message, rule, (), "Find another way, or respond with what is missing.")


def _denial(violation: str, reason: str, rule: str | None, allowed: tuple[str, ...], suggestion: str) -> Denial:
    return Denial(violation_type=violation, reason=reason, rule=rule, allowed_tools=allowed, suggestion=suggestion)


def _suggest(unmet: tuple[Rule, ...], allowed: tuple[str, ...]) -> str:
    for rule in unmet:
        if rule.effect == "allow":
            return f"Rule {rule.name} would allow it where {rule.when}."
    if allowed:
        return f"Try {allowed[0]}, which this agent may use."
    return "No tool is open to this agent here; hand over to another agent, or respond."


def _open(rules: Sequence[Rule]) -> bool:
    denied = any(rule.effect == "deny" and rule.when is None for rule in rules)
    return not denied and any(rule.effect != "deny" for rule in rules)

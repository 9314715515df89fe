"""Checks a call against the grants of its task.

Every grant of the chain must allow the call, by an entry whose names match it and whose condition is exactly true. A
condition that can't be compiled, fails or gives anything else allows nothing.
"""

from collections.abc import Sequence

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.grants import Grants, covers_operation
from towpath_tas.core.policy.conditions import ConditionCompiler, ConditionContext, ConditionResult

MAX_CONDITIONS = 64
"""Different conditions in one grant, which may have 256 entries: each call is held against all that name its tool."""

MAX_CONDITION_CHARS = 16_384
"""Their characters together: compiling them takes up to a fifth of a second."""


def granted(grants: Grants, tool: str, operation: str, context: ConditionContext, compiler: ConditionCompiler) -> bool:
    """Return whether all of *grants* allow a call with *context*."""
    return all(_lets(grant, tool, operation, context, compiler) for grant in grants)


def grant_size_problem(grant: Sequence[JsonObject]) -> ProblemDetail | None:
    """Return what is wrong with a task's own *grant* whose conditions would take long to be compiled together."""
    texts = {str(entry["when"]) for entry in grant if entry.get("when") is not None}
    chars = sum(map(len, texts))
    if len(texts) <= MAX_CONDITIONS and chars <= MAX_CONDITION_CHARS:
        return None
    detail = (
        f"the grant has {len(texts)} different conditions of {chars} characters; "
        f"at most {MAX_CONDITIONS} of {MAX_CONDITION_CHARS} together are taken"
    )
    return ProblemDetail(pointer="/grant", code="grant_too_large", detail=detail)


def grant_problems(grant: Sequence[JsonObject], compiler: ConditionCompiler) -> tuple[ProblemDetail, ...]:
    """Return the problems of the conditions of a task's own *grant*, with their pointers."""
    found = []
    for place, entry in enumerate(grant):
        when = entry.get("when")
        if when is None:
            continue
        try:
            compiler(str(when))
        except ValueError as error:
            found.append(ProblemDetail(pointer=f"/grant/{place}/when", code="condition", detail=str(error)))
    return tuple(found)


def _lets(
    grant: Sequence[JsonObject], tool: str, operation: str, context: ConditionContext, compiler: ConditionCompiler
) -> bool:
    return any(
        covers_operation(entry, tool, operation) and _met(entry.get("when"), context, compiler) for entry in grant
    )


def _met(when: object, context: ConditionContext, compiler: ConditionCompiler) -> bool:
    if when is None:
        return True
    if not context.spend_on_text(str(when)):
        return False
    try:
        return compiler(str(when))(context) is ConditionResult.YES
    except ValueError:
        return False

"""What callers have checked shares no thread with decisions, takes turns by project, and is bounded beforehand."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.shared_threads import no_shared_thread

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.access import ApplyPolicy, CheckAccess, CheckGrant, GrantChecked
from towpath_contracts.tools.policy import DiffPolicy, SetShadow
from towpath_fabric.turns.fair_threads import MAX_WAITING
from towpath_tas.app.policy.access_queries import AccessQueries
from towpath_tas.app.policy.policies import PolicyStore
from towpath_tas.app.policy.policy_diff import PolicyDiffRequests
from towpath_tas.app.policy.policy_threads import MAX_WAITING_GRANTS, MAX_WAITING_QUESTIONS, PolicyThreads
from towpath_tas.app.policy.shadow_policy import ShadowPolicyRequests
from towpath_tas.core.policy.grants import MAX_CONDITION_CHARS, MAX_CONDITIONS
from towpath_tas.core.policy.policy_file import MAX_PROBLEMS

NOWHERE: Any = None
"""In place of the database: what is refused before anything is read needs none."""

BAD = "kind: Policy\nrules: [3]"
Asking = Callable[[PolicyThreads, str], Awaitable[Any]]


def ask_grant(threads: PolicyThreads, project: str) -> Awaitable[GrantChecked]:
    request = CheckGrant(project=project, grant=({"tool": "*", "when": "args.a =="},))
    return AccessQueries(NOWHERE, NOWHERE, threads).check_grant(request)


def ask_question(threads: PolicyThreads, project: str) -> Awaitable[Any]:
    request = CheckAccess(project=project, network="n", agent_key="a", tool="t")
    return AccessQueries(NOWHERE, NOWHERE, threads).check(request)


def ask_text(threads: PolicyThreads, project: str) -> Awaitable[Any]:
    request = ApplyPolicy(project=project, actor="ann", text=BAD)
    return PolicyStore(NOWHERE, NOWHERE, threads).apply(request)


def ask_shadow(threads: PolicyThreads, project: str) -> Awaitable[Any]:
    return ShadowPolicyRequests(NOWHERE, threads.texts).set(SetShadow(project=project, actor="ann", text=BAD))


def ask_diff(threads: PolicyThreads, project: str) -> Awaitable[Any]:
    return PolicyDiffRequests(NOWHERE, NOWHERE, threads).diff(DiffPolicy(project=project, text=BAD))


async def code_of(asking: Awaitable[Any]) -> str:
    try:
        answer = await asking
    except ProblemError as error:
        return error.problem.code
    return ",".join(one.code for one in answer.problems)


@pytest.mark.parametrize("ask", [ask_grant, ask_text, ask_shadow, ask_diff])
async def test_what_callers_ask_is_computed_where_no_shared_thread_is_free(ask: Asking) -> None:
    async with no_shared_thread(), asyncio.timeout(60):
        assert await code_of(ask(PolicyThreads(), "shop")) in {"condition", "policy_invalid"}


@pytest.mark.parametrize(
    ("ask", "kind", "most"),
    [
        (ask_grant, "grants", MAX_WAITING_GRANTS),
        (ask_question, "questions", MAX_WAITING_QUESTIONS),
        (ask_text, "texts", MAX_WAITING),
        (ask_shadow, "texts", MAX_WAITING),
        (ask_diff, "texts", MAX_WAITING),
    ],
)
async def test_what_comes_on_top_of_those_that_wait_is_overloaded(ask: Asking, kind: str, most: int) -> None:
    threads = PolicyThreads()
    async with getattr(threads, kind).turn("flood"):
        waiting = [asyncio.create_task(code_of(ask(threads, "flood"))) for _ in range(most)]
        await asyncio.sleep(0)
        assert await code_of(ask(threads, "flood")) == "overloaded"
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_grant_of_many_or_long_conditions_is_refused_before_any_is_compiled() -> None:
    threads = PolicyThreads()
    many = tuple({"tool": "*", "when": f"args.a == {place}"} for place in range(MAX_CONDITIONS + 1))
    long = tuple(
        {"tool": "*", "when": f"args.a == '{place}{'x' * 900}'"} for place in range(MAX_CONDITION_CHARS // 900)
    )
    queries = AccessQueries(NOWHERE, NOWHERE, threads)
    async with threads.grants.turn("shop"), threads.questions.turn("shop"):  # so nothing of it can be computed
        for grant in (many, long):
            (found,) = (await queries.check_grant(CheckGrant(project="shop", grant=grant))).problems
            assert (found.code, found.pointer) == ("grant_too_large", "/grant")
            question = CheckAccess(project="shop", network="n", agent_key="a", tool="t", grant=grant)
            assert await code_of(queries.check(question)) == "grant_too_large"
    for grant in (many[1:], long[1:], many[:1] * 256):
        assert (await queries.check_grant(CheckGrant(project="shop", grant=grant))).problems == ()


async def test_a_policy_that_is_refused_lists_so_many_problems_and_no_more() -> None:
    text = "kind: Policy\nrules: [" + ",".join("[]" for _ in range(5_000)) + "]"
    with pytest.raises(ProblemError) as caught:
        await PolicyStore(NOWHERE, NOWHERE, PolicyThreads()).apply(ApplyPolicy(project="shop", actor="ann", text=text))
    assert len(caught.value.problem.errors) == MAX_PROBLEMS

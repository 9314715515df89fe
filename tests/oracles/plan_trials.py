"""Comparing whole runs of a platform with the oracle of plans: `python -m tests.oracles.plans --platform`."""

from collections import Counter

from tests.oracles import plan_platform, plans
from tests.oracles.plan_rules import faulty
from tests.oracles.plan_shapes import Case

from towpath.client.client import Client


async def compare(client: Client, case: Case) -> Counter[str]:
    """Carry out one case on the platform and compare; returns what was seen. Raises DifferentError."""
    wrong = plans.wrong_of(case)
    if not wrong:
        if not plan_platform.is_playable(case):
            return Counter(["left out"])
        case.drafts = [draft for draft in case.drafts if faulty(draft, plans.AGENTS, case.bindings)]
        case = plan_platform.hired(case)
    elif not case.by_prompt:
        found = await plan_platform.refused_paths(client, case)
        plans.differ(case.seed, "refused", sorted(found), sorted(faulty(case.plan, plan_platform.HANDS, case.bindings)))
        return Counter(["invalid"])
    else:
        return Counter(["left out"])
    told = plans.told_of(case)
    trace, ended = plan_platform.told(await plan_platform.carried_out(client, case, told.steps))
    course = plan_platform.without_asks(plans.course_of(case, ended, ""))
    for name, most in course.times.items():
        given = trace.times.get(name)
        plans.differ(case.seed, f"time of {name}", given is not None and 1 <= given <= most, True)
    trace.times = dict(course.times)
    return plans.agree(case, trace, course)


async def many(count: int, seed: int) -> Counter[str]:
    """Compare *count* cases; raises DifferentError at one that differs."""
    return await plan_platform.compare_all(count, seed, compare)

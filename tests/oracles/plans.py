"""Random plans and workflows against an oracle that reads what their authors wrote, and shares no code with them.

`python -m tests.oracles.plans --plans 100000 [--seed 1]` has the run machine carry them out, its agents ending in any
order, cut short by cancels and deadlines now and then, and compares with `plan_rules` and `plan_course`: which plans
are wrong and where, every start with what is asked and the time it may take, every transition, status, binding, error
and skipped step, and how many run at once. `--platform` does that with whole runs on an embedded platform.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from typing import Any

from tests.oracles.plan_course import Course
from tests.oracles.plan_rules import WIDTH, Happened, Told, faulty, named
from tests.oracles.plan_runs import MESSAGE, Driven
from tests.oracles.plan_shapes import NAMES, SWARM, Case, a_case

from towpath_contracts.networks.plan_checks import check_plan

AGENTS = {*NAMES, SWARM}


class DifferentError(AssertionError):
    """The platform and the oracle say different things about one plan."""


def told_of(case: Case) -> Told:
    """Return what the oracle follows: the steps of the plan, or the stages of the flow."""
    if case.stages:
        steps = [
            {"id": f"stage_{place:02d}", **_stage(sorted(stage))} for place, stage in enumerate(case.stages, start=1)
        ]
        return Told(steps, MESSAGE, case.run_ms, chain=True)
    steps = [named(step, place) for place, step in enumerate(case.plan["steps"])]
    bindings = {**case.plan.get("bindings", {}), **case.bindings}
    return Told(steps, MESSAGE, case.run_ms, bindings, case.max_parallel or WIDTH)


def _stage(names: list[str]) -> dict[str, Any]:
    calls = [{"agent_key": name, "result_key": name} for name in names]
    return {"agent": calls[0]} if len(calls) == 1 else {"parallel": {"steps": calls, "merge_strategy": "fail_fast"}}


def wrong_of(case: Case) -> set[str]:
    """Return what is wrong with the plan that the case ends up with."""
    return set() if case.stages else faulty(case.plan, AGENTS, case.bindings)


def course_of(case: Case, ended: list[tuple[str, str, Any, str, int]], cut: str) -> Course:
    """Follow the case through the ends of its agents."""
    course = Course(told_of(case))
    if case.by_prompt:
        drafts = [draft for draft in case.drafts if faulty(draft, AGENTS, case.bindings)]
        course.trace += [("move", "start_plan", "")] * len(drafts)
    course.begin(0)
    for name, status, final, code, at in ended:
        if course.over:
            break
        if name:
            course.ended(name, status, final, code, at)
        else:
            course.cancel()
    if cut == "deadline" and not course.over:
        course.cut("timeout", "timed_out", "deadline_exceeded")
    return course


def differ(seed: int, what: str, got: Any, expected: Any) -> None:
    """Say where the two differ; raises DifferentError."""
    if got == expected:
        return
    if isinstance(got, list) and isinstance(expected, list):
        place = next((n for n, pair in enumerate(zip(got, expected, strict=False)) if pair[0] != pair[1]), -1)
        place = min(len(got), len(expected)) if place < 0 else place
        got, expected = got[place : place + 3], expected[place : place + 3]
        what = f"{what}[{place}]"
    msg = f"seed {seed}: {what}\nplatform: {got}\noracle:   {expected}"
    raise DifferentError(msg)


def peak(trace: list[Happened]) -> int:
    """Return how many agents ran at once."""
    running = most = 0
    for what, *_rest in trace:
        running += {"start": 1, "end": -1}.get(what, 0)
        most = max(most, running)
    return most


def paths(case: Case) -> set[str]:
    """Return what the platform finds wrong with the plan."""
    _plan, found = check_plan(case.plan, agents=AGENTS, bindings=case.bindings)
    return {_path(one.pointer) for one in found}


def _path(pointer: str) -> str:
    path = ""
    for part in pointer.split("/")[1:]:
        path += f"[{part}]" if part.isdecimal() else f".{part}" if path else part
    return path


def compare(case: Case) -> Counter[str]:
    """Carry out one case and compare; returns what was seen. Raises DifferentError."""
    wrong = wrong_of(case)
    if not case.stages:
        differ(case.seed, "faults", sorted(paths(case)), sorted(wrong))
    if case.by_prompt:
        right = [draft for draft in case.drafts if not faulty(draft, AGENTS, case.bindings)]
        if right:
            case.plan, case.drafts, wrong = right[0], [], set()
    run = Driven(case).run()
    if wrong:
        differ(case.seed, "children of a wrong plan", run.trace.began, [])
        differ(case.seed, "end", run.trace.happened[-1], ("finished", "failed", "plan_invalid"))
        return Counter(["invalid"])
    course = course_of(case, run.ended, run.cut)
    return agree(case, run.trace, course)


def agree(case: Case, trace: Any, course: Course) -> Counter[str]:
    """Compare a run with its course; returns what was seen. Raises DifferentError."""
    differ(case.seed, "trace", trace.happened, course.trace)
    differ(case.seed, "times", trace.times, course.times)
    if case.stages and course.output["success"]:
        differ(case.seed, "answer", trace.final, course.answer)
    else:
        differ(case.seed, "output", trace.output(), course.output)
    status = next(rest[0] for what, *rest in course.trace if what == "finished")
    seen = Counter([status, f"peak {peak(trace.happened)}", "workflow" if case.stages else "plan"])
    return seen + Counter(f"{what} {rest[-1]}" for what, *rest in course.trace if what == "step")


def many(count: int, seed: int) -> Counter[str]:
    """Compare *count* cases; raises DifferentError at the first that differs."""
    seen: Counter[str] = Counter()
    for number in range(seed, seed + count):
        seen += compare(a_case(number))
    return seen


async def on_platform(count: int, seed: int) -> Counter[str]:
    """Compare *count* cases as whole runs; raises DifferentError, the first of all."""
    from tests.oracles import plan_trials

    try:
        return await plan_trials.many(count, seed)
    except ExceptionGroup as several:
        raise several.exceptions[0] from several


def main() -> int:
    """Compare; print one line, and the first difference if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--platform", action="store_true", help="whole runs on an embedded platform, three a second")
    options = parser.parse_args()
    began = time.perf_counter()
    try:
        seen = (
            asyncio.run(on_platform(options.plans, options.seed))
            if options.platform
            else many(options.plans, options.seed)
        )
    except DifferentError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    took = time.perf_counter() - began
    sys.stdout.write(f"{options.plans} plans, 0 differences, {took:.0f} s, {dict(sorted(seen.items()))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

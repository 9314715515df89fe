"""Runs the cases of a suite, with each model and as often as is asked for, one after the other."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from towpath.client.client import Client
from towpath.client.settings import ClientTarget
from towpath.errors import RefusedError
from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.files.evaluation_suite import EvaluationCase
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_testing.evaluation.expectations import unmet
from towpath_testing.evaluation.gate_plan import GatePlan
from towpath_testing.evaluation.places import HarnessPlace, PlatformPlace, RunPlace
from towpath_testing.evaluation.suite_file import ReadSuite, read_suite
from towpath_testing.provider_models import ALL_ASKED
from towpath_testing.recordings import AnswerRecorder, ReplayProvider

NOTHING_CAME: JsonObject = {"status": "", "text": "", "usd": None, "tokens": 0, "steps": 0, "seconds": 0.0}


class EvaluationRequest(ClientMessagePart):
    """What the command line wants: which cases, with which models, how often, and where. `server` is a platform.

    `suites` are all those that it has evaluated, one after the other: a case that is chosen may be in any of them.
    With `offline` nothing is run that a provider would have to be asked for.
    """

    suite: Path
    suites: tuple[Path, ...] = ()
    models: tuple[str, ...] = ()
    repeat: int = 1
    cases: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    record: Path | None = None
    replay: Path | None = None
    server: str | None = None
    api_key: str | None = None
    offline: bool = False


async def evaluate(asked: EvaluationRequest) -> AsyncIterator[JsonObject]:
    """Yield how many runs there will be, then each as it ends. Raises ProblemError before the first where none can."""
    suite = read_suite(asked.suite)
    cases = _chosen([suite, *(read_suite(path) for path in asked.suites if path != asked.suite)], asked)
    models = asked.models or ("",)
    if asked.offline and (why := _not_offline(suite)):
        yield {"left_out": why}
        return
    yield {"runs": len(models) * len(cases) * asked.repeat}
    if not cases:
        return
    async with _place(suite, asked) as (place, replay):
        for model in models:
            for line, case in cases:
                for attempt in range(1, asked.repeat + 1):
                    found = await _attempt(place, case, model, replay)
                    about = {"case": case.name, "line": line, "model": model, "attempt": attempt}
                    yield {"run": {**about, "labels": case.labels, **found}}


async def _attempt(place: RunPlace, case: EvaluationCase, model: str, replay: ReplayProvider | None) -> JsonObject:
    plan = GatePlan(list(case.gates))
    missing = 0 if replay is None else len(replay.missing)
    try:
        outcome = await place.run(case, model, plan)
        failures = unmet(case.expect, outcome)
    except ProblemError as error:
        outcome, failures = NOTHING_CAME, [str(error)]
    failures += plan.unmet()
    if replay is not None:
        failures = [*(f"no recording: {one}" for one in replay.missing[missing:]), *failures]
    return {**outcome, "passed": not failures, "failures": failures}


@asynccontextmanager
async def _place(suite: ReadSuite, asked: EvaluationRequest) -> AsyncIterator[tuple[RunPlace, ReplayProvider | None]]:
    replayed = asked.replay or (suite.replay if asked.record is None else None)
    if asked.server is not None:
        if asked.record is not None or asked.replay is not None:
            raise _invalid("a platform asks its models itself: --record and --replay are for runs without one")
        target = ClientTarget(server=asked.server, server_origin="given", api_key=asked.api_key)
        async with Client(target) as client:
            yield PlatformPlace(suite, client), None
        return
    if asked.record is not None and asked.replay is not None:
        raise _invalid("--record and --replay are both given: give one of them")
    if suite.network is None:
        detail = f"{suite.path.parent / suite.suite.network} does not exist; a published network needs a platform"
        raise RefusedError(problem("file_missing", detail, remedy="Name a file, or give --server or --context."))
    replay = None if replayed is None else await asyncio.to_thread(ReplayProvider, replayed)
    recorder = None if asked.record is None else await asyncio.to_thread(AnswerRecorder, asked.record)
    place = HarnessPlace(suite, recorder=recorder, replayed=replay)
    await place.try_out()
    yield place, replay


def _chosen(suites: Sequence[ReadSuite], asked: EvaluationRequest) -> Sequence[tuple[int, EvaluationCase]]:
    """Return the cases of the first suite that are asked for; raises ProblemError where none of all suites has one."""
    names, paths = {case.name for suite in suites for case in suite.suite.cases}, ", ".join(str(s.path) for s in suites)
    for name in asked.cases:
        if name not in names:
            hint = suggest_name(name, names)
            raise ProblemError(problem("not_found", f"{paths} has no case {name!r}{hint}", remedy="Name another."))
    found = [_cases(suite, asked) for suite in suites]
    if not any(found):
        wanted = ", ".join(f"{name}={value}" for name, value in asked.labels.items())
        remedy = "Give labels that a case has."
        raise ProblemError(problem("not_found", f"no case of {paths} has {wanted}", remedy=remedy))
    return found[0]


def _cases(suite: ReadSuite, asked: EvaluationRequest) -> Sequence[tuple[int, EvaluationCase]]:
    return [
        (line, case)
        for line, case in zip(suite.lines, suite.suite.cases, strict=True)
        if (not asked.cases or case.name in asked.cases) and asked.labels.items() <= case.labels.items()
    ]


def _not_offline(suite: ReadSuite) -> str:
    """Return why a suite can't be run without a provider and a platform; empty where it can."""
    if suite.network is None:
        return f"{suite.suite.network} is published on a platform"
    asked = sorted(model for model in suite.models() if model.partition(":")[0] in ALL_ASKED)
    return f"it asks {', '.join(asked)}" if asked and suite.replay is None else ""


def _invalid(detail: str) -> Any:
    return ProblemError(problem("request_invalid", detail))

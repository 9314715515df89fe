"""Judges what a run came to: every expectation that does not hold becomes a sentence."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry

from towpath_contracts.base import JsonObject
from towpath_contracts.files.evaluation_suite import ExpectedCall, ExpectedOutcome, ForbiddenCall
from towpath_contracts.json_schema import fault_in_words
from towpath_contracts.problems.cel_library import cel_library
from towpath_testing.evaluation.arguments import includes
from towpath_testing.runs import RunResult

TEXT_CHARS = 200
"""How much of an answer is repeated where it is not as expected."""


def outcome_of(result: RunResult, gates: list[JsonObject], seconds: float) -> JsonObject:
    """Return what expressions see as `result`, and what is reported of a run; of a tree of runs the whole."""
    view = result.view
    usage, cost = view.tree_usage or view.usage, view.tree_cost or view.cost
    calls = (*result.tool_calls(), *result.denied_calls())
    return {
        "run_id": str(view.run_id),
        "status": result.status,
        "reason": result.reason,
        "message": view.message,
        "text": result.text,
        "output": result.output,
        "agents": list(result.agents),
        "calls": [asdict(call) for call in calls],
        "gates": gates,
        "usd": cost.usd if cost is not None and cost.price_known else None,
        "tokens": usage.total_tokens if usage is not None else 0,
        "steps": view.step,
        "seconds": round(seconds, 3),
    }


def unmet(expect: ExpectedOutcome, outcome: JsonObject) -> list[str]:
    """Return what does not hold of *outcome*, in the order of the fields of *expect*.

    A run that ended otherwise than expected is told once: its answer and the calls that it did not come to follow.
    """
    forbidden = [*_forbidden(expect, outcome["calls"])]
    if ended := [*_status(expect, outcome)]:
        return [*ended, *forbidden]
    parts = (_text(expect, outcome["text"]), _output(expect, outcome["output"]), _expressions(expect, outcome))
    held = [one for part in (*parts, _calls(expect, outcome["calls"])) for one in part]
    return [*held, *forbidden, *_limits(expect, outcome)]


def _status(expect: ExpectedOutcome, outcome: JsonObject) -> Iterator[str]:
    status, reason = outcome["status"], outcome["reason"]
    if status != expect.status:
        why = ": ".join(filter(None, (reason, outcome["message"])))
        yield f"the run is {status}{f' ({why})' if why else ''}, not {expect.status}"
    elif expect.reason not in (None, reason):
        yield f"the run is {status} because of {reason or 'nothing'}, not {expect.reason}"


def _text(expect: ExpectedOutcome, text: str) -> Iterator[str]:
    shown = repr(text if len(text) <= TEXT_CHARS else text[:TEXT_CHARS] + "…")
    for wanted in expect.contains:
        if wanted not in text:
            yield f"the answer does not contain {wanted!r}: {shown}"
    for unwanted in expect.lacks:
        if unwanted in text:
            yield f"the answer contains {unwanted!r}: {shown}"
    if expect.matches is not None and re.search(expect.matches, text) is None:
        yield f"the answer does not match {expect.matches!r}: {shown}"


def _output(expect: ExpectedOutcome, output: JsonObject) -> Iterator[str]:
    if expect.output is None:
        return
    kind: Any = validator_for(expect.output, default=Draft202012Validator)
    for error in kind(expect.output, registry=Registry()).iter_errors(output):
        at = "".join(f"/{part}" for part in error.absolute_path)
        yield f"the answer does not fit its schema{f' at {at}' if at else ''}: {fault_in_words(error.message)}"


def _expressions(expect: ExpectedOutcome, outcome: JsonObject) -> Iterator[str]:
    cel = cel_library()
    for text in expect.that:
        try:
            said = cel.compile(text).execute({"result": outcome})
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            yield f"{text} can't be evaluated: {' '.join(str(error).split())}"
            continue
        if said is not True:
            yield f"{text} is {said!r}, not true"


def _calls(expect: ExpectedOutcome, calls: list[JsonObject]) -> Iterator[str]:
    for wanted in expect.calls:
        found = [call for call in calls if _is(call, wanted) and _has_status(call, wanted.status)]
        if wanted.times is None and not found:
            yield f"{_named(wanted)} was not {wanted.status or 'called'}{_instead(calls, wanted)}"
        elif wanted.times not in (None, len(found)):
            yield f"{_named(wanted)} was {wanted.status or 'called'} {len(found)} times, not {wanted.times}"


def _forbidden(expect: ExpectedOutcome, calls: list[JsonObject]) -> Iterator[str]:
    for unwanted in expect.no_calls:
        found = [call for call in calls if _is(call, unwanted) and _has_status(call, None)]
        if found:
            args = "" if unwanted.args else f", with {found[0]['args']}"
            yield f"{_named(unwanted)} was called{args}"


def _is(call: JsonObject, wanted: ExpectedCall | ForbiddenCall) -> bool:
    return call["tool"] == wanted.tool and includes(call["args"], wanted.args)


def _has_status(call: JsonObject, status: str | None) -> bool:
    return bool(call["status"] != "denied" if status is None else call["status"] == status)


def _named(wanted: ExpectedCall | ForbiddenCall) -> str:
    return f"{wanted.tool} with {wanted.args}" if wanted.args else wanted.tool


def _instead(calls: list[JsonObject], wanted: ExpectedCall) -> str:
    others = [f"{call['status']} with {call['args']}" for call in calls if call["tool"] == wanted.tool]
    return f"; it {', '.join(others)}" if others else ""


def _limits(expect: ExpectedOutcome, outcome: JsonObject) -> Iterator[str]:
    usd = outcome["usd"]
    if expect.max_usd is not None and usd is None:
        yield f"the cost is not known, so it can't be at most {expect.max_usd} USD: the model has no price"
    elif expect.max_usd is not None and usd > expect.max_usd:
        yield f"it cost {usd:.6g} USD, more than {expect.max_usd}"
    for limit, unit in ((expect.max_tokens, "tokens"), (expect.max_steps, "steps")):
        if limit is not None and outcome[unit] > limit:
            yield f"it took {outcome[unit]} {unit}, more than {limit}"

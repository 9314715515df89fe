"""What is wrong with a plan, all of it at once, each with its path.

A plan is checked whole before anything of it starts. Whatever is given, checking never raises, and takes time in
proportion to its size, which is bounded. Missing ids of steps are filled in first; unknown top-level fields
are let be.
"""

import re
from collections.abc import Collection, Iterator
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from typing import Any

from pydantic import ValidationError

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.networks.goal import Criterion
from towpath_contracts.networks.plan import (
    MAX_CRITERIA,
    MAX_NAMES,
    RESULT_KEY,
    STEP_ID,
    ParallelAgentCalls,
    Plan,
    PlanAgentCall,
    PlanStep,
)
from towpath_contracts.networks.references import (
    BINDINGS,
    RESULT,
    list_names,
    reference_excess,
    split_text,
    texts_in,
    undefined_message,
)
from towpath_contracts.problems.input_faults import entry_message
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.run_limits import PLAN_STEPS
from towpath_contracts.strict_json import MAX_VALUE_DEPTH, json_fault

PLAN_INVALID = "plan_invalid"
PLAN_BYTES = 256 * 1024
"""Bytes of a plan in canonical JSON, with its bindings."""

BLOCK_AGENTS = 16
"""Agents of one parallel step."""

MAX_REPORTED = 64
"""Faults that are reported at once; more would flood whoever reads them."""

MAX_FAULT_CHARS = 2_000
"""Of one fault."""

MAX_READ = 100
"""Steps, and agents of a step, that are looked at one by one: beyond it their number is the only fault that counts."""

MAX_CALLS_READ = PLAN_STEPS * BLOCK_AGENTS + 1
"""Agents of all steps together that are looked at, one more than a plan may have. Of each as many criteria as it may
have: there is room for a hundred thousand in a plan, and to say what is wrong with each takes seconds."""

_FIELDS = ("id", "name", "description", "bindings", "steps")
_PAYLOADS = ("agent", "parallel")
_STEP_ID, _RESULT_KEY = re.compile(STEP_ID), re.compile(RESULT_KEY)

Place = tuple[str | int, ...]


def check_plan(
    data: JsonObject,
    *,
    agents: Collection[str],
    bindings: Collection[str] = (),
    most_steps: int = PLAN_STEPS,
    self_contained: bool = False,
) -> tuple[Plan | None, list[ProblemDetail]]:
    """Return the plan that *data* holds, or every reason why it can't be carried out.

    *agents* are the names that steps may ask, *bindings* those that come with the request. *most_steps* can only lower
    the server's cap. With *self_contained* only the plan says what its agents do: each call needs a prompt or input.
    """
    if (fault := _unreadable(data)) is not None:
        return None, [_fault((), fault)]
    known = {name: data[name] for name in _FIELDS if name in data}
    if isinstance(known.get("steps"), list | tuple):
        known["steps"] = _filled(known["steps"])
    given = known.get("steps")
    read = _looked_at(known)
    plan, shape = _shaped(read)
    steps = read["steps"] if isinstance(given, list) else []
    found = [*shape, *_counted(given, min(most_steps, PLAN_STEPS)), *_named(steps), *_asked(steps, agents)]
    if self_contained:
        found += _silent(steps)
    own = known.get("bindings")
    found += _referring(steps, {*bindings, *(own if isinstance(own, dict) else ())})
    ordered = sorted({(one.pointer, one.detail): one for one in found}.values(), key=_order)
    return (plan if not ordered else None), ordered[:MAX_REPORTED]


def _unreadable(data: Any) -> str | None:
    if not isinstance(data, dict):
        return f"a plan is an object, not {type(data).__name__}"
    fault = json_fault(data, max_depth=MAX_VALUE_DEPTH)
    if fault is not None:
        return fault
    size = len(canonical_json(data).encode("utf-8"))
    return None if size <= PLAN_BYTES else f"the plan has {size} bytes; the limit is {PLAN_BYTES}"


def _filled(steps: Any) -> list[Any]:
    """Return *steps* with ids where they have none, and the source's other word for `collect` replaced."""
    filled = []
    for place, step in enumerate(steps, start=1):
        named = step
        if isinstance(step, dict):
            named = {**step, "id": f"step_{place:02d}"} if step.get("id") in (None, "") else dict(step)
            block = named.get("parallel")
            if isinstance(block, dict) and block.get("merge_strategy") == "collect_all":
                named["parallel"] = {**block, "merge_strategy": "collect"}
        filled.append(named)
    return filled


def _looked_at(known: JsonObject) -> JsonObject:
    """Return the part of the fields that is checked: every fault costs time, and only the first are reported."""
    given = known.get("steps")
    if not isinstance(given, list):
        return known
    room = _ReadingRoom()
    return {**known, "steps": [room.step(step) for step in given[:MAX_READ]]}


class _ReadingRoom:
    """What of a plan is still looked at, in the order in which it stands there.

    It is more than a plan may have: where it is used up there are too many steps, agents or criteria, which is a fault.
    """

    def __init__(self) -> None:
        self._calls = MAX_CALLS_READ
        self._others = MAX_REPORTED

    def step(self, step: Any) -> Any:
        """Return what is looked at of a step."""
        if not isinstance(step, dict):
            return step
        kept = self._fields(step, PlanStep)
        if isinstance(kept.get("agent"), dict):
            kept["agent"] = self._call(kept["agent"])
        block = kept.get("parallel")
        if isinstance(block, dict):
            kept["parallel"] = block = self._fields(block, ParallelAgentCalls)
            if isinstance(block.get("steps"), list):
                block["steps"] = [self._call(call) for call in block["steps"][: min(MAX_READ, self._calls)]]
        return kept

    def _call(self, call: Any) -> Any:
        self._calls = max(0, self._calls - 1)
        if not isinstance(call, dict):
            return call
        kept = self._fields(call, PlanAgentCall)
        if isinstance(kept.get("acceptance_criteria"), list):
            few = kept["acceptance_criteria"][:MAX_CRITERIA]
            kept["acceptance_criteria"] = [
                self._fields(one, Criterion) if isinstance(one, dict) else one for one in few
            ]
        return kept

    def _fields(self, value: JsonObject, kind: type[ClientMessagePart]) -> JsonObject:
        """Return the fields of *value* that *kind* has, and of all others as many as are reported in all."""
        own = {name for field, about in kind.model_fields.items() for name in (field, about.alias or field)}
        others = nsmallest(self._others, (name for name in value if name not in own)) if self._others else []
        self._others -= len(others)
        return {name: value[name] for name in (*(name for name in value if name in own), *others)}


def _shaped(known: JsonObject) -> tuple[Plan | None, list[ProblemDetail]]:
    """Hold the fields against their types; strictly, so that no text becomes a number."""
    try:
        return Plan.model_validate_json(canonical_json(known), strict=True), []
    except ValidationError as error:
        entries = error.errors(include_url=False, include_input=False, include_context=False)
        return None, [_fault(tuple(entry["loc"]), _validation_message(entry)) for entry in entries]


def _validation_message(entry: Any) -> str:
    match entry["type"]:
        case "missing":
            return "is required"
        case "string_too_short" if entry["loc"][-1] == "agent_key":
            return "is required"
        case "extra_forbidden":
            return ": there is no such field"
        case _:
            return f": {entry_message(entry)}"


def _counted(steps: Any, most: int) -> Iterator[ProblemDetail]:
    """Yield what is wrong with the number of steps, and with what each of them is made of."""
    if steps == []:
        yield _fault(("steps",), "needs at least 1 step")
    if not isinstance(steps, list):
        return
    if len(steps) > most:
        yield _fault(("steps",), f"has {len(steps)} steps; the limit is {most}")
    for place, step in enumerate(steps[:MAX_READ]):
        if not isinstance(step, dict):
            continue
        given = [name for name in _PAYLOADS if step.get(name) is not None]
        if len(given) != 1:
            yield _fault(("steps", place), "needs exactly one of agent and parallel")
        elif step.get("type") in _PAYLOADS and given != [step["type"]]:
            yield _fault(("steps", place, "type"), f"is {step['type']}, but the step has {given[0]}")
        children = _children(step)
        if children is not None and not children:
            yield _fault(("steps", place, "parallel", "steps"), "needs at least 1 agent")
        if children is not None and len(children) > BLOCK_AGENTS:
            at: Place = ("steps", place, "parallel", "steps")
            yield _fault(at, f"has {len(children)} agents; the limit is {BLOCK_AGENTS}")
        yield from _criteria_counted(place, step)


def _criteria_counted(place: int, step: JsonObject) -> Iterator[ProblemDetail]:
    for at, call in _calls(place, step):
        criteria = call.get("acceptance_criteria")
        if isinstance(criteria, list) and len(criteria) > MAX_CRITERIA:
            yield _fault((*at, "acceptance_criteria"), f"has {len(criteria)} criteria; the limit is {MAX_CRITERIA}")


def _children(step: JsonObject) -> list[Any] | None:
    block = step.get("parallel")
    inside = block.get("steps") if isinstance(block, dict) else None
    return inside if isinstance(inside, list) else None


Call = tuple[Place, JsonObject]
"""An agent of a plan: its path, and what is written of it."""


def _calls(place: int, step: Any) -> list[Call]:
    """Return the agents of a step."""
    if not isinstance(step, dict):
        return []
    children = (_children(step) or [])[:MAX_READ]
    alone: list[Call] = [(("steps", place, "agent"), step["agent"])] if isinstance(step.get("agent"), dict) else []
    at = ("steps", place, "parallel", "steps")
    return alone + [((*at, index), child) for index, child in enumerate(children) if isinstance(child, dict)]


def _named(steps: list[Any]) -> Iterator[ProblemDetail]:
    """Yield what is wrong with ids and result keys. Where a result has no key it stands under the id of its step."""
    ids: dict[str, Place] = {}
    keys: dict[str, Place] = {}
    for place, step in enumerate(steps):
        if isinstance(step, dict):
            yield from _name(("steps", place, "id"), step.get("id"), _STEP_ID, STEP_ID, ids)
        for at, call in _calls(place, step):
            if call.get("result_key") not in (None, ""):
                yield from _name((*at, "result_key"), call["result_key"], _RESULT_KEY, RESULT_KEY, keys)
    for place, step in enumerate(steps):
        name = step.get("id") if isinstance(step, dict) else None
        unnamed = any(not call.get("result_key") for _at, call in _calls(place, step))
        if isinstance(name, str) and name in keys and unnamed:
            detail = f"{_shown(name)} names results of this step, and is the result_key of {_path(keys[name][:-1])}"
            yield _fault(("steps", place, "id"), detail)


def _result(step: JsonObject, call: JsonObject) -> Any:
    return call.get("result_key") or step.get("id")


def _name(
    at: Place, name: Any, pattern: re.Pattern[str], shown: str, seen: dict[str, Place]
) -> Iterator[ProblemDetail]:
    if not isinstance(name, str):
        return  # its type is reported with the shape
    if len(name) > MAX_NAMES:
        yield _fault(at, f"has {len(name)} characters; the limit is {MAX_NAMES}")
    elif not pattern.fullmatch(name):
        yield _fault(at, f"{_shown(name)} does not match {shown}")
    if name in seen:
        yield _fault(at, f"{_shown(name)} is used by {_path(seen[name])} already")
    seen.setdefault(name, at)


def _asked(steps: list[Any], agents: Collection[str]) -> Iterator[ProblemDetail]:
    known = list_names(agents)
    for place, step in enumerate(steps):
        for at, call in _calls(place, step):
            key = call.get("agent_key")
            if isinstance(key, str) and key and key not in agents:
                yield _fault((*at, "agent_key"), f"{_shown(key)} is not an agent here; agents are: {known}")


def _silent(steps: list[Any]) -> Iterator[ProblemDetail]:
    for place, step in enumerate(steps):
        for at, call in _calls(place, step):
            if not call.get("prompt") and not call.get("with"):
                yield _fault(at, "needs a prompt or with: nothing else says what it is to do")


class _KnownNames:
    """Names that references may begin with, and how messages list them: made once, however many references miss."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)

    @cached_property
    def listed(self) -> str:
        """The names as messages list them."""
        return list_names(self.names)


def _referring(steps: list[Any], bindings: Collection[str]) -> Iterator[ProblemDetail]:
    """Yield which references can't be followed: what they name is a result of no earlier step, or no binding.

    The first of the plan are reported, so nothing after those is looked at. Of too many references none is.
    """
    if excess := reference_excess(_templates(steps)):
        yield _fault(("steps",), excess)
        return
    results: set[str] = set()
    bound, left = _KnownNames(bindings), MAX_REPORTED
    for place, step in enumerate(steps):
        calls = _calls(place, step)
        known = {RESULT: _KnownNames(results), BINDINGS: bound}
        for at, call in calls:
            for name in ("prompt", "with"):
                for fault in islice(_faults_of(call.get(name), known), left):
                    left -= 1
                    yield _fault((*at, name), f": {fault}")
        names = [_result(step, call) for _at, call in calls]
        results |= {name for name in names if isinstance(name, str)}


def _templates(steps: list[Any]) -> Iterator[str]:
    """Yield every text of the steps in which references are read."""
    for place, step in enumerate(steps):
        for _at, call in _calls(place, step):
            yield from texts_in([call.get("prompt"), call.get("with")])


def _faults_of(value: Any, known: dict[str, _KnownNames]) -> Iterator[str]:
    """Yield what is wrong with the references in *value*, each thing once."""
    seen: set[str] = set()
    for text in texts_in(value):
        for piece in split_text(text):
            fault = piece.fault
            if piece.reference is not None and piece.reference.name_in(known[piece.reference.root].names) is None:
                fault = undefined_message(piece.reference, known[piece.reference.root].listed)
            if fault and fault not in seen:
                seen.add(fault)
                yield fault


def _shown(name: str) -> str:
    return repr(name if len(name) <= MAX_NAMES else f"{name[:MAX_NAMES]}…")


def _path(at: Place) -> str:
    """Return a path in the source's style: `steps[0].agent.agent_key`."""
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _fault(at: Place, text: str) -> ProblemDetail:
    at = tuple(part if isinstance(part, int) else part[: 2 * MAX_NAMES] for part in at)
    separator = "" if not at or text.startswith(":") else " "
    pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in at)
    detail = f"{_path(at)}{separator}{text}"
    return ProblemDetail(pointer=pointer, code=PLAN_INVALID, detail=detail[:MAX_FAULT_CHARS])


def _order(one: ProblemDetail) -> tuple[Any, ...]:
    """Order faults as they stand in the plan: by place, numbers as numbers."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in one.pointer.split("/"))

"""Finds models that none can be in a network as it is written, before its form is right.

Who mends faults of form would meet these next; so they are told at once. Whatever was written may be looked at: nothing
of it has been checked, and only the first agents are looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from towpath_contracts.decisions.model_strings import model_fault
from towpath_contracts.problems.near_names import SUGGESTED
from towpath_contracts.problems.registry import ProblemDetail

MAX_AGENTS_LOOKED_AT = 100
"""Of a network; one with more and with faults of form is mended in two rounds."""


def written_model_problems(written: Any) -> Iterator[ProblemDetail]:
    """Yield a problem for each of the first models of *written* that none can be."""
    if not isinstance(written, Mapping):
        return
    agents, goal = written.get("agents"), written.get("goal")
    places: list[tuple[str, Any]] = [("", written)]
    if isinstance(agents, Sequence) and not isinstance(agents, str):
        places += [(f"/agents/{place}", agent) for place, agent in enumerate(agents[:MAX_AGENTS_LOOKED_AT])]
    models = [found for at, one in places if isinstance(one, Mapping) for found in _models_at(at, one)]
    if isinstance(goal, Mapping):
        models.append(("/goal/judge_model", goal.get("judge_model")))
    faults = ((pointer, model_fault(model)) for pointer, model in models if isinstance(model, str))
    details = (ProblemDetail(pointer=at, code="model_unknown", detail=fault) for at, fault in faults if fault)
    yield from islice(details, SUGGESTED)


def _models_at(pointer: str, written: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in ("model", "fallback_models"):
        named = written.get(key)
        if isinstance(named, Sequence) and not isinstance(named, str):  # `model` may be a list as well
            yield from ((f"{pointer}/{key}/{place}", model) for place, model in enumerate(named[:SUGGESTED]))
        elif key == "model":
            yield f"{pointer}/{key}", named

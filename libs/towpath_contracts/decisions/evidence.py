"""What a judgement names as evidence: something that exists in the run's log, by its name.

Whether it does is looked up, never asked: a name counts where the assessment lists it, and stands alone in the text.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind

EVIDENCE = "evidence"
"""The part of an assessment that lists what can be named: `{"name", "what"}`. It is there where it must be."""

TEXT_CRITERIA = "text_criteria"
"""The part that has the numbers of the criteria which are texts: the others need no evidence."""

COMPLETE = 1.0
"""Only a goal that is said to be reached needs evidence; less is an estimate."""

_WORD = r"[\w/\-]"
_QUOTES = ("'", '"', "`")


def names_any(text: str, names: Iterable[str]) -> bool:
    """Return whether *text* names any of *names*, not as a part of a longer name."""
    return any(_stands_alone(name, text) for name in names if name and name in text)


def _stands_alone(name: str, text: str) -> bool:
    """A name that is plain words has to be all of the text, or quoted: sentences hold words by chance."""
    if name.replace(" ", "").isalpha():
        return text.strip() == name or any(f"{quote}{name}{quote}" in text for quote in _QUOTES)
    pattern = rf"(?<!{_WORD})(?<!{_WORD}\.){re.escape(name)}(?!{_WORD}|\.\w)"
    return re.search(pattern, text) is not None


def listed_names(assessment: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """Return what an assessment lists; None where no evidence is asked for."""
    listed = (assessment or {}).get(EVIDENCE)
    return None if listed is None else tuple(str(one["name"]) for one in listed)


def evidence_fault(kind: DecisionKind, answer: JsonObject, assessment: Mapping[str, Any] | None) -> str:
    """Say in words for the model what an answer to *kind* claims without evidence; empty where nothing is wrong.

    Where nothing can be named the claim stands, and counts for nothing.
    """
    names = listed_names(assessment)
    if not names:
        return ""
    advice = f"name one of the listed {EVIDENCE} there: an execution id, an artifact or a file"
    if kind is DecisionKind.PROGRESS:
        complete = isinstance(score := answer.get("progress"), int | float) and score >= COMPLETE
        unshown = complete and not names_any(str(answer.get("evidence", "")), names)
        return f"evidence: {advice}, or answer with less than 1" if unshown else ""
    texts = set((assessment or {}).get(TEXT_CRITERIA, ()))
    faults = [
        f"criteria.{place}.evidence: {advice}, or say that it is not met"
        for place, one in enumerate(answer.get("criteria", ()))
        if one.get("met") and one.get("criterion") in texts and not names_any(str(one.get("evidence", "")), names)
    ]
    return "; ".join(faults)

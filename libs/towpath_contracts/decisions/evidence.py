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

_QUOTES = ("'", '"', "`")

_JOINED_BEFORE = re.compile(r"[\w/\-]\.?\Z")
_JOINED_AFTER = re.compile(r"[\w/\-]|\.\w")
"""What makes a name a part of a longer one."""

MAX_SEARCHED = 8_000_000
"""Characters of one judgement that are searched for names: decisions, or facts, of other runs wait meanwhile."""

PER_NAME, PER_PLACE = 50, 500
"""What a name costs beside the text, and what each place does where it stands, in such characters."""


class EvidenceSearch:
    """Finds out whether the texts of one judgement name any of *names*, within one budget for all of them.

    What there is nothing left for names nothing. No clock is asked: the same judgement is always read in the same way.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(filter(None, names))
        self._left = MAX_SEARCHED

    def is_named_in(self, text: str) -> bool:
        """Return whether *text* names any of the names, not as a part of a longer name."""
        return any(self._stands_alone(name, text) for name in self._names)

    def _stands_alone(self, name: str, text: str) -> bool:
        """A name that is plain words has to be all of the text, or quoted: sentences hold words by chance."""
        if not self._pay(PER_NAME + len(text)) or name not in text:
            return False
        if name.replace(" ", "").isalpha():
            quoted = self._pay(len(_QUOTES) * len(text)) and any(f"{one}{name}{one}" in text for one in _QUOTES)
            return text.strip() == name or quoted
        at = text.find(name)
        while at >= 0 and self._pay(PER_PLACE):
            joined = _JOINED_BEFORE.search(text[max(0, at - 2) : at]) or _JOINED_AFTER.match(text, at + len(name))
            if joined is None:
                return True
            at = text.find(name, at + 1)
        return False

    def _pay(self, characters: int) -> bool:
        self._left -= characters
        return self._left >= 0


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
    search = EvidenceSearch(names)
    advice = f"name one of the listed {EVIDENCE} there: an execution id, an artifact or a file"
    if kind is DecisionKind.PROGRESS:
        complete = isinstance(score := answer.get("progress"), int | float) and score >= COMPLETE
        unshown = complete and not search.is_named_in(str(answer.get("evidence", "")))
        return f"evidence: {advice}, or answer with less than 1" if unshown else ""
    texts = set((assessment or {}).get(TEXT_CRITERIA, ()))
    faults = [
        f"criteria.{place}.evidence: {advice}, or say that it is not met"
        for place, one in enumerate(answer.get("criteria", ()))
        if one.get("met") and one.get("criterion") in texts and not search.is_named_in(str(one.get("evidence", "")))
    ]
    return "; ".join(faults)

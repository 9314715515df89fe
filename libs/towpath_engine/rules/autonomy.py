"""Decides who is asked when a goal run is in doubt.

Autonomy moves the decision between the model and a person. It never changes the threshold below which there is doubt.
"""

from typing import Literal

from towpath_contracts.networks.goal import Autonomy

Who = Literal["nobody", "model", "person"]

PERSON_BELOW: dict[Autonomy, float] = {"low": 1.0, "medium": 0.7, "high": 0.3}
"""Confidence below which a doubt goes to a person; above it the model is told to find another way."""

FAILURES_ASKED: dict[Autonomy, int] = {"low": 1, "medium": 2, "high": 3}
"""Failed steps in a row after which confidence is checked, whatever the interval."""


def who_decides(autonomy: Autonomy, trigger: str, score: float, threshold: float) -> Who:
    """Return who goes on deciding after a confidence check of *score* that was made because of *trigger*.

    At low autonomy every occasion but the interval is a doubt, and every doubt is a person's.
    """
    if autonomy == "low":
        return "person" if score < threshold or trigger != "interval" else "nobody"
    if score >= threshold:
        return "nobody"
    return "person" if score < PERSON_BELOW[autonomy] else "model"


def asks_specialist_without_person(autonomy: Autonomy) -> bool:
    """Return whether a specialist may be asked without a person: not at low autonomy."""
    return autonomy != "low"

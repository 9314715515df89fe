"""Lays out how much of a limit is spent, as one bar: spent, then reserved, with a mark where a warning is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

WIDTH = 100.0
"""Units across; whoever draws stretches them."""

Burn = Literal["within", "near", "used up"]


@dataclass(frozen=True, slots=True)
class BurnBar:
    """Where the parts of a bar end, in units; `percent` is of what is spent, and may be above 100."""

    spent: float
    reserved: float
    soft: float
    state: Burn
    percent: float


def burn_bar(balance: Mapping[str, Any], soft: float) -> BurnBar | None:
    """Return the bar of one unit of an account, whose warning comes at the share *soft*; None without a limit.

    What is spent beyond the limit fills the bar and is told in words. A limit of nothing is used up.
    """
    limit = balance.get("limit")
    if limit is None:
        return None
    spent = balance["spent"] / limit if limit > 0 else 1.0
    used = (balance["spent"] + balance["reserved"]) / limit if limit > 0 else 1.0
    state: Burn = "used up" if spent >= 1 else "near" if used >= soft else "within"
    first = min(spent, 1.0) * WIDTH
    return BurnBar(
        spent=round(first, 2),
        reserved=round(min(used, 1.0) * WIDTH - first, 2),
        soft=round(soft * WIDTH, 2),
        state=state,
        percent=round(spent * 100, 1),
    )

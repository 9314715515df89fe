"""The cases of the crash-point sweep: which point is hit, at which passing, while which runs are under way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tests.chaos.crash_points.points import CrashPoint
from tests.chaos.crash_points.tasks import CLASSES, EffectClass

UNCLAIMED: Final = frozenset(
    {
        "tas.claim_taken",
        "tas.claim_before_reply",
        "tas.claim_replied",
        "worker.before_claim",
        "worker.claim_answered",
    }
)
"""Points that a pure call never passes, because it is not claimed."""

PROBED: Final = "worker.probed"
"""Passed only by a reconcilable call that was started before and never reported."""

DOUBTFUL: Final[Mapping[str, EffectClass]] = {"worker.after_tool": "reconcilable", "worker.before_tool": "irreversible"}
"""Killed here, a worker leaves a call of this class behind whose outcome is unknown.

In this order: the first is settled by a probe half a minute later, so it comes first.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCase:
    """Kill at the *nth* passing of a point while runs with tools of one class are under way (empty: of all)."""

    point: CrashPoint
    nth: int
    effect_class: EffectClass | Literal[""]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRound:
    """Cases with the same traffic: runs whose tools are of *classes*. *settle* waits until all of them have ended.

    With *doubt* there is one run at a time, and a kill counts once it has left a call of the case's class in doubt.
    Cases of *meanwhile* are armed before the others and may be hit in a later round.
    """

    cases: tuple[SweepCase, ...]
    classes: tuple[EffectClass, ...]
    settle: bool
    doubt: bool = False
    meanwhile: tuple[SweepCase, ...] = ()


def short_rounds(found: Sequence[CrashPoint]) -> list[SweepRound]:
    """Return rounds that hit every point once, at its first passing, while all classes are under way.

    Before them workers are killed in a reconcilable and in an irreversible call, so that something is in doubt: without
    the first no probe would be asked.
    """
    named = {point.name: point for point in found}
    doubts = [
        SweepRound(cases=(_case(named[name], effect_class),), classes=(effect_class,), settle=False, doubt=True)
        for name, effect_class in DOUBTFUL.items()
        if name in named
    ]
    rest = tuple(_case(p, "") for p in found if p.name not in DOUBTFUL and p.name != PROBED)
    probed = tuple(_case(p, "reconcilable") for p in found if p.name == PROBED)
    return [*doubts, SweepRound(cases=rest, classes=CLASSES, settle=True, meanwhile=probed)]


def long_rounds(found: Sequence[CrashPoint]) -> list[SweepRound]:
    """Return a round for each class: every point that its calls pass, at the first and at the second passing."""
    return [
        SweepRound(
            cases=_twice(effect_class, _passed(found, effect_class)),
            classes=(effect_class,),
            settle=True,
            meanwhile=_twice(effect_class, found, only=PROBED) if effect_class == "reconcilable" else (),
        )
        for effect_class in CLASSES
    ]


def _case(point: CrashPoint, effect_class: EffectClass | Literal[""], nth: int = 1) -> SweepCase:
    return SweepCase(point=point, nth=nth, effect_class=effect_class)


def _twice(effect_class: EffectClass, found: Sequence[CrashPoint], only: str = "") -> tuple[SweepCase, ...]:
    return tuple(_case(p, effect_class, nth) for p in found if only in ("", p.name) for nth in (1, 2))


def _passed(found: Sequence[CrashPoint], effect_class: EffectClass) -> list[CrashPoint]:
    """The points that calls of a class pass in any case."""
    never = UNCLAIMED | {PROBED} if effect_class == "pure" else {PROBED}
    return [point for point in found if point.name not in never]

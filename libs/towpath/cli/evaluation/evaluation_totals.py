"""Sums over the runs of an evaluation: by model, and by case."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
OWN_MODELS = "the network's"
"""What stands for the models that a network names, where no other is asked for."""


def by_model(runs: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a row for each model; its cost is None where the price of one of its runs is not known."""
    return [{"model": model or OWN_MODELS, **_sums(found)} for model, found in _grouped(runs, lambda run: run["model"])]


def by_case(runs: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a row for each case of each suite and model."""
    groups = _grouped(runs, lambda run: (run["suite"], run["case"], run["model"]))
    return [
        {"suite": suite, "case": case, "model": model or OWN_MODELS, **_sums(found)}
        for (suite, case, model), found in groups
    ]


def pass_rate(runs: Sequence[Row]) -> float:
    """Return the part of *runs* that passed."""
    return sum(run["passed"] for run in runs) / len(runs) if runs else 0.0


def _grouped(runs: Sequence[Row], key: Callable[[Row], Any]) -> Iterable[tuple[Any, list[Row]]]:
    groups: dict[Any, list[Row]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups.items()


def _sums(runs: Sequence[Row]) -> dict[str, Any]:
    costs = [run["usd"] for run in runs]
    return {
        "runs": len(runs),
        "passed": sum(run["passed"] for run in runs),
        "pass_rate": round(pass_rate(runs), 4),
        "usd": None if None in costs else sum(costs),
        "tokens": sum(run["tokens"] for run in runs),
        "seconds": round(sum(run["seconds"] for run in runs), 3),
    }

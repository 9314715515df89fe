"""What the runs of an evaluation come to: totals by model, and JUnit XML, which CI servers read."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

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


_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write *runs* to *path*."""
    root = ET.Element("testsuites", _counts(runs))
    for suite, model in dict.fromkeys((run["suite"], run["model"]) for run in runs):
        of_it = [run for run in runs if (run["suite"], run["model"]) == (suite, model)]
        name = f"{suite} [{model or OWN_MODELS}]"
        group = ET.SubElement(root, "testsuite", {"name": _text(name), **_counts(of_it)})
        for run in of_it:
            repeated = any(other["case"] == run["case"] and other["attempt"] > 1 for other in of_it)
            shown = f"{run['case']} #{run['attempt']}" if repeated else run["case"]
            about = {"classname": _text(suite), "name": _text(shown), "time": f"{run['seconds']:.3f}"}
            case = ET.SubElement(group, "testcase", about)
            if run["failures"]:
                failure = ET.SubElement(case, "failure", {"message": _text(run["failures"][0])})
                failure.text = _text("\n".join(run["failures"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _counts(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {
        "tests": str(len(runs)),
        "failures": str(sum(not run["passed"] for run in runs)),
        "time": f"{sum(run['seconds'] for run in runs):.3f}",
    }


def _text(written: str) -> str:
    """Return what a model or a tool may have written without signs that XML has no place for."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", written)

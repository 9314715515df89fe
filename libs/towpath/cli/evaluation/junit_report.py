"""Writes the runs of an evaluation as JUnit XML, which CI servers read: a suite for each model, a case for each run."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from towpath.cli.evaluation.evaluation_totals import OWN_MODELS

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

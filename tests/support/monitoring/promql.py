"""Reads what a PromQL expression asks for, and says what of it no process tells."""

import re
from collections.abc import Collection

from tests.docs_site.reference.metrics_page import declared_metrics

OF_PROMETHEUS = frozenset({"job", "instance", "le", "component"})
PARTS = ("_bucket", "_sum", "_count")
ONLY_PROMETHEUS = {"up": frozenset[str]()}
DECLARED = declared_metrics()

_SELECTOR = re.compile(r"\b((?:towpath[_:]|process_)[a-z0-9_:]*|up)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|on|without)\s*\(([^)]*)\)")


def faults(expression: str, recorded: Collection[str] = ()) -> list[str]:
    """Return which metrics and labels of *expression* do not exist; *recorded* are the names that rules make."""
    found: list[str] = []
    known: set[str] = set(OF_PROMETHEUS)
    selectors = _SELECTOR.findall(expression)
    if not selectors:
        found.append("it asks for no metric")
    for name, matchers in selectors:
        labels = _labels_of(name, recorded)
        if labels is None:
            found.append(f"no process tells {name}")
            continue
        known |= labels
        asked = set(_MATCHER.findall(matchers))
        found += [f"{name} has no label {label}" for label in sorted(asked - labels - OF_PROMETHEUS)]
    if any(":" in name for name, _ in selectors):
        return found
    for group in _GROUPING.findall(expression):
        found += [f"nothing has a label {label}" for label in re.findall(r"\w+", group) if label not in known]
    return found


def _labels_of(name: str, recorded: Collection[str]) -> frozenset[str] | None:
    if name in ONLY_PROMETHEUS:
        return ONLY_PROMETHEUS[name]
    if name in recorded or name.startswith("process_"):
        return frozenset()
    for part in ("", *PARTS):
        base = name.removesuffix(part) if part else name
        kind, labels = DECLARED.get(base, ("", frozenset[str]()))
        if kind and (kind == "histogram") == bool(part) and base + part == name:
            return labels
    return None

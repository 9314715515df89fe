"""docs/reference/metrics.md: every Prometheus metric that a process has, read from where it is declared."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.docs_site.reference.markdown_text import cell, table
from tests.support.places import ROOT

_HEAD = """# Metrics

What each process answers at `/metrics` of its health port, and the gateway at its own too, in Prometheus' format. No
label ever holds an id. A histogram `NAME` is read as `NAME_bucket`, `NAME_sum` and `NAME_count`. How to collect them:
[operations](../operations.md); traces: [tracing](../tracing.md).
"""
_KINDS = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram"}


def metrics_page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for package in _packages():
        rows = [row for path in sorted(package.rglob("*.py")) for row in _metrics(path)]
        if rows:
            name = "Every process" if package.name == "towpath_fabric" else package.name.removeprefix("towpath_")
            title = name.replace("_", "-").capitalize() if name != "tas" else "Tool access"
            parts += [f"## {title}\n", table(("metric", "kind", "labels", "what it says"), sorted(rows)) + "\n"]
    return "\n".join(parts)


def declared_metrics() -> dict[str, tuple[str, frozenset[str]]]:
    """Return the kind and the labels of every metric, by the name that Prometheus has for it."""
    rows = (row for package in _packages() for path in sorted(package.rglob("*.py")) for row in _metrics(path))
    return {
        name.strip("`"): (kind, frozenset(filter(None, labels.replace("`", "").split(", "))))
        for name, kind, labels, _ in rows
    }


def _packages() -> list[Path]:
    return sorted([*(ROOT / "services").iterdir(), ROOT / "libs" / "towpath_fabric"], key=lambda one: one.name)


def _metrics(path: Path) -> Iterator[tuple[str, ...]]:
    text = path.read_text("utf-8")
    if "prometheus_client" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _KINDS and node.args:
            name, about, *labels = [_value(argument) for argument in node.args]
            kind = _KINDS[node.func.id]
            shown = f"{name.removesuffix('_total')}_total" if kind == "counter" else name
            told = ", ".join(f"`{label}`" for label in (labels[0] if labels else ()))
            yield f"`{shown}`", kind, told, cell(about)


def _value(node: ast.expr) -> Any:
    return ast.literal_eval(node)

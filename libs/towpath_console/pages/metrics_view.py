"""Small charts of the last hour: what waits, what is under way, and what models cost, where there is no Prometheus."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from towpath_console.drawings.bars import ChartBar, bar_chart
from towpath_console.page import Asked, Page, PageRoute

REFRESH_S = 15.0
BARS = 60
"""Of an hour."""

SHOWN = (
    ("waits", "Calls that wait for a worker", "now"),
    ("in_flight", "Calls under way", "now"),
    ("gates", "Gates that wait for people", "now"),
    ("model_calls", "Model calls", "added"),
    ("tokens", "Tokens", "added"),
    ("usd", "Money", "added"),
)


class MetricChart(NamedTuple):
    """One chart: its name in the API, its title, whether it shows a state or what was added, and its bars.

    `last` is the newest value, `most` the highest, `total` what was added in all; None where nothing is known.
    """

    name: str
    title: str
    is_state: bool
    bars: list[ChartBar]
    last: float | None
    most: float | None
    total: float


async def metrics_view(asked: Asked) -> Page:
    """Make the page from what the gateway has sampled."""
    found = await asked.api.get("/v1/metrics/samples")
    charts = [chart(name, title, found["samples"], is_state=kind == "now") for name, title, kind in SHOWN]
    view = {
        "charts": charts,
        "samples": len(found["samples"]),
        "since": found["samples"][0]["at"] if found["samples"] else None,
        "every_s": found["every_s"],
        "refused": found["refused"],
        "kept": found.get("kept", True),
    }
    return Page("Metrics", "metrics_view.html", found, view, REFRESH_S)


def chart(name: str, title: str, samples: Sequence[Mapping[str, Any]], *, is_state: bool) -> MetricChart:
    """Return a chart of one number, with at most BARS bars: of a state the highest of some samples, else their sum."""
    known = [sample[name] for sample in samples]
    values = known if is_state else added(known)
    size = max(1, -(-len(values) // BARS))
    parts = [values[at : at + size] for at in range(0, len(values), size)]
    joined = [_joined([value for value in part if value is not None], is_state=is_state) for part in parts]
    told = [value for value in values if value is not None]
    return MetricChart(
        name, title, is_state, bar_chart(joined), known[-1] if known else None, max(told, default=None), sum(told)
    )


def added(values: Sequence[float | None]) -> list[float | None]:
    """Return what each sample of a sum adds to the one before; the sum begins anew with each day."""
    steps: list[float | None] = []
    before: float | None = None
    for value in values:
        steps.append(None if value is None or before is None else value - before if value >= before else value)
        before = value if value is not None else before
    return steps


def _joined(values: Sequence[float], *, is_state: bool) -> float | None:
    if not values:
        return None
    return max(values) if is_state else sum(values)


PAGES = (PageRoute("/metrics-view", metrics_view, "/queues"),)

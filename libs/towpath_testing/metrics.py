"""Metrics that count nothing: nobody scrapes a harness, and a step of a run has some eighty numbers to tell."""

from typing import Any, Self, TypeVar

from prometheus_client.metrics import MetricWrapperBase

MetricsT = TypeVar("MetricsT")


class Uncounted:
    """Takes what a counter, a gauge or a histogram takes."""

    def labels(self, *_values: Any, **_named: Any) -> Self:
        return self

    def inc(self, *_amount: Any) -> None:
        return

    dec = set = observe = inc


def uncounted(metrics: MetricsT) -> MetricsT:
    """Return *metrics* with a metric that counts nothing in the place of each."""
    nothing = Uncounted()
    for name, value in vars(metrics).items():
        if isinstance(value, MetricWrapperBase):
            setattr(metrics, name, nothing)
    return metrics

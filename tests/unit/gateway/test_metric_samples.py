"""Samples of the last hour: bounded, only of projects that are looked at, and whole where a service is away."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.app import metric_samples
from towpath_gateway.app.metric_samples import EVERY_S, MetricSampler


class Services:
    """Services of which those in `away` do not answer."""

    def __init__(self, *away: str) -> None:
        self.away = away
        self.asked: list[str] = []
        self.gates = 3
        self.pages: list[uuid.UUID] = []
        """Where further pages of gates begin."""

    async def request(self, method: rpc.RpcMethod, request: Any, timeout_s: float = 5.0) -> Any:
        self.asked.append(request.project)
        if method.service in self.away:
            raise ProblemError(problem("unavailable", "away"))
        day = SimpleNamespace(model_calls=3, tokens=40, usd=0.5)
        queue = SimpleNamespace(waits=2, in_flight=1)
        behind = self.pages.pop() if method is rpc.LIST_GATES and self.pages else None
        gates = range(min(self.gates, request.limit)) if method is rpc.LIST_GATES else ()
        return SimpleNamespace(queues=(queue, queue), gates=gates, days=(day, day), next_after=behind)


async def test_a_sample_sums_queues_and_days_and_leaves_out_what_nobody_says() -> None:
    sampler = MetricSampler(Services())
    assert sampler.look("shop") == ()
    await sampler.take()
    [sample] = sampler.look("shop")
    assert (sample.waits, sample.in_flight, sample.gates) == (4, 2, 3)
    assert (sample.model_calls, sample.tokens, sample.usd) == (6, 80, 1.0)
    alone = MetricSampler(Services("log_writer", "tas"))
    alone.look("shop")
    await alone.take()
    [sample] = alone.look("shop")
    assert (sample.waits, sample.gates, sample.tokens) == (None, 3, None)


async def test_gates_are_counted_behind_the_first_page_which_ends_where_one_answer_holds_no_more() -> None:
    sampler = MetricSampler(services := Services())
    for pages, counted in ((1, 6), (4, 15), (5, 15), (9, 15)):
        services.pages = [uuid.uuid4() for _ in range(pages)]
        sampler.look("shop")
        await sampler.take()
        assert sampler.look("shop")[-1].gates == counted


async def test_of_very_many_gates_four_hundred_are_counted() -> None:
    sampler = MetricSampler(services := Services())
    sampler.look("shop")
    for services.gates, counted in ((399, 399), (1_000, 400)):
        await sampler.take()
        assert sampler.look("shop")[-1].gates == counted


async def test_memory_is_bounded_and_nobody_is_asked_for_whom_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(metric_samples, "monotonic", lambda: now)
    services = Services()
    sampler = MetricSampler(services)
    await sampler.take()
    assert services.asked == []
    sampler.look("shop")
    for _ in range(249):
        await sampler.take()
    assert len(sampler.look("shop")) * EVERY_S == 3_600, "an hour"
    now = 300.0
    for number in range(8):
        sampler.look(f"other-{number}")
    services.asked.clear()
    await sampler.take()
    assert set(services.asked) == {f"other-{number}" for number in range(8)}
    now = 4_000.0
    services.asked.clear()
    await sampler.take()
    assert services.asked == []


async def test_projects_that_are_looked_at_keep_their_places_and_further_ones_push_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(metric_samples, "monotonic", lambda: now)
    sampler = MetricSampler(Services())
    projects = [f"project-{number}" for number in range(10)]
    for _ in range(240):
        now += 15.0
        for project in projects:
            sampler.look(project)
        await sampler.take()
    assert [len(sampler.look(project)) for project in projects] == [240] * 8 + [0, 0]
    assert [sampler.keeps(project) for project in projects] == [True] * 8 + [False, False]
    for waited, has_place in ((299.0, False), (1.0, True)):
        now += waited
        sampler.look("project-9")
        assert sampler.keeps("project-9") is has_place, "once nobody has looked at another for five minutes"
    assert not sampler.keeps("project-0")

"""Jobs that stand beside the services are new ones whenever their pod is: that of a Job can't be changed."""

from typing import Any

import pytest
from tests.support.deploy.rendered_chart import FEW, of_kind

BESIDE: dict[str, Any] = {**FEW, "migrations": {"mode": "job"}}


def templates(values: dict[str, Any], *, upgrade: bool = True) -> dict[str, Any]:
    """Return the pods of the jobs by the jobs' names."""
    return {name: one["spec"]["template"] for name, one in of_kind(values, "Job", upgrade=upgrade).items()}


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"image": {"tag": "2"}}, {"migrate", "streams"}),
        ({"image": {"pullPolicy": "Always"}}, {"migrate", "streams"}),
        ({"imagePullSecrets": [{"name": "pull"}]}, {"migrate", "streams"}),
        ({"scheduling": {"nodeSelector": {"disk": "ssd"}}}, {"migrate", "streams"}),
        ({"nats": {"tlsSecret": "nats-tls"}}, {"streams"}),
        ({"broker": {**FEW["broker"], "replicas": 5}}, {"streams"}),
        ({"migrations": {"mode": "job", "existingSecret": "other"}}, {"migrate"}),
        ({"roles": {"tas": {"replicas": 3}}}, set()),
    ],
)
def test_a_job_whose_pod_changes_has_another_name(changed: dict[str, Any], names: set[str]) -> None:
    before, after = templates(BESIDE), templates({**BESIDE, **changed})
    assert {name.partition("-")[0] for name in set(after) - set(before)} == names
    assert all(before[name] == after[name] for name in set(before) & set(after))


def test_the_same_values_make_the_same_jobs_and_old_ones_are_removed() -> None:
    assert templates(BESIDE) == templates(BESIDE, upgrade=False)
    assert {one["spec"]["ttlSecondsAfterFinished"] for one in of_kind(BESIDE, "Job").values()} == {3600}

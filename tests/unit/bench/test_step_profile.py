"""How the samples of a profile are counted, and the table that divides the processor time of a step by them."""

from collections import Counter

import pytest

from step_profile import OTHER, count_samples, kind_of, table


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ("fold (/src/libs/towpath_engine/machine.py:10)", "run machine"),
        ("model_validate_json (/v/site-packages/pydantic/main.py:782)", "messages and their checks"),
        ("run (/src/services/towpath_tas/app/calls/tool_requests.py:120)", "own code of the service"),
        ("take (/src/libs/towpath_fabric/nats/pull_consumer.py:110)", "connections, queues, guards"),
        ("publish (/v/site-packages/nats/aio/client.py:900)", "NATS (nats-py)"),
        ("publish (nats/aio/client.py:900)", "NATS (nats-py)"),
        ("fetch (/v/site-packages/asyncpg/connection.py:5)", "Postgres (asyncpg)"),
        ("run (/usr/lib/python3.11/asyncio/runners.py:118)", "event loop, system calls"),
        ("dumps (/usr/lib/python3.11/json/__init__.py:238)", "JSON, digests, signatures"),
        ("<module> (<string>:1)", OTHER),
    ],
)
def test_code_is_of_the_kind_that_its_place_names(frame: str, kind: str) -> None:
    assert kind_of(frame) == kind


def test_a_sample_counts_for_the_innermost_function() -> None:
    lines = [
        "main (/src/services/towpath_tas/app/a.py:1);take (/src/libs/towpath_fabric/nats/b.py:2) 3",
        "main (/src/services/towpath_tas/app/a.py:1) 1",
        "Thread._bootstrap (threading.py:1);wait (threading.py:300) 9",
    ]
    assert count_samples(lines) == {"connections, queues, guards": 3, "own code of the service": 1}


def test_samples_divide_what_was_measured_without_the_sampler() -> None:
    samples = {"tas": Counter({"own code of the service": 3, OTHER: 1})}
    written = table({"tas": 0.4, "nats": 0.3}, {"tas": 2.0}, samples).splitlines()
    assert written[2] == "| all | 0.40 | 0.30 | 0.70 |"
    assert "| own code of the service | 0.30 |  | 0.30 |" in written
    assert written[-1] == "| thread switches a step | 2.0 | 0.0 | 2.0 |"

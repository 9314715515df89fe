"""Which refusals of a registration a worker waits for, and which end it."""

import pytest

from towpath_contracts.problems.registry import REGISTRY, ProblemError, problem
from towpath_worker.app.registration import is_final

WAITED_FOR = ["unavailable", "internal", "overloaded"]
FINAL = ["broker_denied", "request_invalid", "request_malformed", "request_too_large", "forbidden"]


@pytest.mark.parametrize("code", WAITED_FOR)
def test_a_refusal_that_may_pass_is_waited_for(code: str) -> None:
    assert code in REGISTRY
    assert not is_final(ProblemError(problem(code, "said")))


@pytest.mark.parametrize("code", FINAL)
def test_a_refusal_that_comes_again_ends_the_worker(code: str) -> None:
    assert is_final(ProblemError(problem(code, "said")))

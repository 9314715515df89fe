"""A registration that could never work is refused whole."""

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.workers import RegisterTools
from towpath_tas.app.policy.registration_checks import check_registration


def registration(tools: int) -> RegisterTools:
    specs = tuple(ToolSpec(name=f"shop.t{number}", toolset="shop") for number in range(tools))
    return RegisterTools(toolset="shop", worker="w", owner="team", tools=specs)


def test_a_worker_offers_512_tools_at_most() -> None:
    check_registration(registration(512))
    with pytest.raises(ProblemError) as refused:
        check_registration(registration(513))
    assert [(one.pointer, one.detail) for one in refused.value.problem.errors] == [
        ("/tools", "at most 512 tools at once")
    ]

"""Names of networks that nobody publishes."""

import pytest

from towpath_contracts.grant_proposals.asked_grants import GRANT_NETWORK
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.problems.registry import ProblemError
from towpath_orchestrator.app.api.network_registry import compile_checked

AGENT = {"key": "a", "is_default": True, "allow_respond": True}


@pytest.mark.parametrize("name", [GRANT_NETWORK, "towpath.triage", "TowPath.Grant_Proposal"])
def test_no_network_is_published_below_the_name_of_the_platform(name: str) -> None:
    with pytest.raises(ProblemError) as refused:
        compile_checked(NetworkSpec.model_validate({"name": name, "agents": [AGENT]}), {})
    (found,) = refused.value.problem.errors
    assert (found.code, found.pointer) == ("network_reserved", "/name")


def test_a_network_whose_name_only_begins_alike_is_published() -> None:
    spec = NetworkSpec.model_validate({"name": "towpath_demo", "agents": [AGENT]})
    assert compile_checked(spec, {}).snapshot.network == "towpath_demo"

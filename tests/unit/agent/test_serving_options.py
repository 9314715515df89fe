"""How an agent is served where nothing is said of it, and what its command refuses."""

import pytest

from towpath_agent.__main__ import USAGE_ERROR, main
from towpath_agent.app.agent_server import AgentServerOptions
from towpath_agent.settings import AgentSettings


@pytest.mark.parametrize(
    ("count", "why"), [("0", "--count"), ("1", "MODULE:CLASS"), ("64", "MODULE:CLASS"), ("65", "--count")]
)
def test_one_to_64_processes_serve_an_agent(count: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing", "--count", count]) == USAGE_ERROR
    assert why in capsys.readouterr().err


def test_an_agent_answers_as_many_requests_at_once_whoever_starts_it() -> None:
    assert AgentServerOptions(worker="w").concurrency == AgentSettings.model_fields["agent_concurrency"].default

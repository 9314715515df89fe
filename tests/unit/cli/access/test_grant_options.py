"""What `towpath run` says to a model that proposes a grant, and which grants it reads from files."""

from pathlib import Path
from typing import Any

import pytest

from towpath.cli.definitions.grant_options import GrantOptions, read_grant, said
from towpath_contracts.problems.registry import ProblemError


def test_a_model_is_told_what_the_caller_says_and_nothing_that_is_quoted() -> None:
    task: dict[str, Any] = {
        "quoted_inputs": {"mail": "SECRET"},
        "mounts": [{"files": [{"path": "a", "content": "SECRET"}]}],
        "goal": {"goal": "no order is open"},
        "background": {"objective": "read them all", "context_sections": [{"title": "t", "text": "SECRET"}]},
        "plan": {"prompt": "first find them"},
    }
    told = said("Look at the orders", task)
    assert told == "Look at the orders\n\nno order is open\n\nread them all\n\nfirst find them"
    steps = [{"agent": {"agent_key": "a", "prompt": "find them"}}]
    assert "find them" in said("", {"plan": {"plan": {"steps": steps}, "bindings": {"x": "SECRET"}}})
    with pytest.raises(ProblemError) as caught:
        said("", {"quoted_inputs": {"mail": "SECRET"}})
    assert "--grant auto needs a message" in caught.value.problem.detail


def test_a_grant_is_read_as_a_list_or_as_what_a_proposal_prints(tmp_path: Path) -> None:
    path = tmp_path / "grant.yaml"
    for text in (
        "- {tool: orders.find}",
        "grant: [{tool: orders.find}]",
        '{"network": "n", "grant": [{"tool": "orders.find"}]}',
    ):
        path.write_text(text, "utf-8")
        assert read_grant(path) == [{"tool": "orders.find"}]
    for text in ("tool: orders.find", "grant: all", "", "grant: [", "a: b: c"):
        path.write_text(text, "utf-8")
        with pytest.raises(ProblemError) as caught:
            read_grant(path)
        assert caught.value.problem.code == "request_invalid"
    with pytest.raises(ProblemError):
        read_grant(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    "given",
    [{"grant": "auto", "grant_from_runs": True}, {"grant_model": "m:x"}, {"grant": "f.yaml", "grant_model": "m:x"}],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ProblemError):
        GrantOptions(**given).check()

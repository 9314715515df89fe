"""Every code that a run, a call or a decision can end with is explained."""

import re

import pytest
from tests.support.contracts.written_codes import written_codes

from towpath.cli import main
from towpath.cli.app import make_app
from towpath_contracts.decisions.request import CALL_LOST, CALL_UNASKED
from towpath_contracts.outcomes.outcome_codes import OUTCOMES
from towpath_contracts.problems.registry import REGISTRY
from towpath_contracts.tools.violations import DenialCode
from towpath_decider.adapters.provider_failures import _REASONS
from towpath_decider.app.model_checker import _REMEDIES
from towpath_engine.state.run import Status

CALL_STATUSES = "requested denied awaiting_approval permitted started succeeded failed unknown void cancelled"


def test_every_code_that_the_services_write_is_explained() -> None:
    written = written_codes()
    assert len(written) > 90  # the search finds what it is to find
    unknown = {code: place for code, place in written.items() if code not in OUTCOMES and code not in REGISTRY}
    assert not unknown


@pytest.mark.parametrize(
    "codes",
    [
        {code for name, code in vars(DenialCode).items() if name.isupper()},
        {*_REASONS.values(), *_REMEDIES, CALL_LOST, CALL_UNASKED},
        {str(status) for status in Status if status != Status.NEW},
        set(CALL_STATUSES.split()),
    ],
    ids=["denials", "models", "statuses of runs", "statuses of calls"],
)
def test_every_code_of_a_table_is_explained(codes: set[str]) -> None:
    assert not codes - OUTCOMES.keys() - REGISTRY.keys()


def test_no_code_is_explained_twice() -> None:
    assert not OUTCOMES.keys() & REGISTRY.keys()


def test_a_remedy_names_commands_that_there_are() -> None:
    app = make_app()
    for kind in OUTCOMES.values():
        for words in re.findall(r"towpath ((?:[a-z]+(?: |\b))+)", kind.remedy):
            command = app
            for word in words.split():
                if word not in command:
                    break  # the sentence goes on
                command = command[word]
            assert command is not app and command.default_command is not None, f"{kind.code}: {kind.remedy}"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("model_unauthorized", "error of a model"),
        ("script_exhausted", "Add to the script what the agent does next."),
        ("tool_not_allowed", "refusal of a decision"),
        ("denied", "status of a call"),
        ("max_steps_exceeded", "--set max_steps=M"),
    ],
)
def test_a_code_of_a_record_is_explained(code: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", code, "-o", "table"]) == 0
    assert told in " ".join(capsys.readouterr().out.split())


def test_a_misspelt_code_of_a_record_is_told_with_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "script_exausted"]) == 3
    assert "script_exhausted" in capsys.readouterr().err

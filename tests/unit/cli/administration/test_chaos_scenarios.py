"""`towpath chaos --scenario` hands over to the scenarios of a checkout, and says how to get one where there is none."""

import argparse
import asyncio
import json
from pathlib import Path

import pytest
from tests.chaos.__main__ import _run
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport, catalogue
from tests.support.cli.printed_documents import PrintedDocuments
from tests.support.places import ROOT

import towpath
from towpath.cli import main
from towpath.cli.administration.chaos_command import checkout_of
from towpath_contracts.problems.registry import ProblemError


def test_a_checkout_is_found_by_the_package_that_runs(tmp_path: Path) -> None:
    assert checkout_of(Path(towpath.__file__)) == ROOT
    installed = tmp_path / "site-packages" / "towpath" / "__init__.py"
    with pytest.raises(ProblemError) as refused:
        checkout_of(installed)
    found = refused.value.problem
    assert found.code == "binary_missing" and str(installed.parent) in found.detail
    assert "git clone --branch v" in found.remedy and "towpath chaos --scenario" in found.remedy


def test_a_name_of_no_scenario_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "--scenario", "nosuch", "--json"]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert all(scenario.name in said.err for scenario in catalogue())


def test_options_of_a_campaign_are_refused_beside_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "--scenario", "restore", "--kills", "5", "--quick"]) == 2
    assert "--quick, --kills: of a campaign" in capsys.readouterr().err


@pytest.mark.prints("chaos")
@pytest.mark.parametrize("problems", [[], ["a run was lost"]])
def test_the_document_of_scenarios_is_as_published(
    problems: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, printed_documents: PrintedDocuments
) -> None:
    async def run(_context: ScenarioContext) -> ScenarioReport:
        return ScenarioReport.of({"kills": 2, "longest_s": 1.5, "control_fails": True, "note": None}, problems)

    scenario = Scenario(number=1, name="one", summary="something breaks", run=run)
    options = argparse.Namespace(data=tmp_path, seed=1, long=False)
    assert asyncio.run(_run([scenario], options)) == bool(problems)
    printed_documents.see("chaos", json.loads(capsys.readouterr().out))

"""`towpath up --strict` says all that is wrong with its files before anything is started."""

import asyncio
from pathlib import Path

import pytest

from towpath.project.scaffold import create_project
from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.console import UpConsole
from towpath_embedded.launch_options import with_project
from towpath_embedded.start_checks import UpOptions
from towpath_embedded.strict_checks import check_strictly

NETWORK, SCRIPT, POLICY, TOOLS = "networks/support.yaml", "networks/support.json", "policies.yaml", "tools/orders.py"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    create_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told() -> list[str]:
    options = with_project(UpOptions(data=Path(".towpath"), gateway_port=None, nats_port=None, strict=True))
    try:
        asyncio.run(check_strictly(options, UpConsole(as_json=True)))
    except ProblemError as refused:
        return [one.detail for one in refused.problem.errors]
    return []


def test_nothing_is_said_of_a_project_that_is_in_order(project: Path) -> None:
    assert told() == []
    assert not (project / ".towpath/logs").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (NETWORK, "is_default:", "is_defualt:", "networks/support.yaml:10: there is no field 'is_defualt'"),
        (NETWORK, "[billing]", "[biling]", "networks/support.yaml:11: triage routes to biling"),
        (NETWORK, "agents:", "agents: [", "networks/support.yaml:8: not YAML"),
        (SCRIPT, "[", "[[", "networks/support.json:47: not JSON"),
        (POLICY, "effect: allow", "efect: allow", "policies.yaml:8: there is no field 'efect'"),
        (POLICY, "args.amount <= 100", "args.amount <== 100", "policies.yaml:15: it can't be read as CEL"),
        (TOOLS, "-> Order:", "-> Ordr:", "tools/orders.py:27: NameError"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(
    project: Path, file: str, old: str, new: str, said: str
) -> None:
    text = (project / file).read_text("utf-8")
    assert old in text
    (project / file).write_text(text.replace(old, new, 1), "utf-8")
    assert [one for one in told() if one.removeprefix(f"{project}/").startswith(said)]


def test_a_second_network_of_a_name_is_told(project: Path) -> None:
    (project / "networks/again.yaml").write_text((project / NETWORK).read_text("utf-8"), "utf-8")
    assert [one for one in told() if "support" in one and "again.yaml" in one]

"""`towpath up --strict` says all that is wrong with its files before anything is started."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import eventually

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


def test_tools_are_imported_with_the_umask_of_the_person_as_where_they_are_served(project: Path) -> None:
    (project / "tools/writes.py").write_text("open('made', 'w').close()\n", "utf-8")
    before = os.umask(0o022)
    try:
        assert told() == []
    finally:
        os.umask(before)
    assert (project / "made").stat().st_mode & 0o777 == 0o644


def test_of_several_files_of_tools_those_are_named_that_are_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tools/broken.py").write_text("raise RuntimeError", "utf-8")
    assert [one for one in told() if "tools/broken.py:1: RuntimeError" in one]
    assert "  tools/broken.py was refused" in capsys.readouterr().err


def test_a_stop_while_tools_are_imported_leaves_nothing(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    temporary, marker = tmp_path_factory.mktemp("temporary"), project / "imported"
    waits = f"import os, pathlib, time\npathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    (project / "tools/slow.py").write_text(waits, "utf-8")
    command = (sys.executable, "-m", "towpath_embedded", "up", "--strict", "--ephemeral", "--port", "auto")
    with subprocess.Popen(command, cwd=project, env={**os.environ, "TMPDIR": str(temporary)}) as process:
        try:
            asyncio.run(eventually(lambda: marker.exists() and bool(marker.read_text())))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 130
        finally:
            process.kill()
    assert list(temporary.iterdir()) == []
    assert not Path(f"/proc/{marker.read_text()}").exists()

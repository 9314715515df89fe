"""What `towpath up` can't start with is said before anything is started, and with --strict what it stops at."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.platform_state import data_option, refuse_shared_folder
from towpath_embedded.processes.child_process import failure
from towpath_embedded.start_checks import UpOptions, check_files, check_syntax, refused_at_start


def check(**options: Any) -> None:
    check_files(UpOptions(data=Path(), gateway_port=None, nats_port=None, **options))


def test_a_file_of_tools_that_is_not_there_is_told_with_the_near_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").touch()
    (tmp_path / "tools").mkdir()
    check(workers=("tools.py", "shop.tools"))  # of a module only its import knows
    for missing, told in (("tolos.py", "did you mean tools.py?"), ("tools/a", "tools/a is not there")):
        with pytest.raises(ProblemError) as refused:
            check(workers=("tools.py", missing))
        assert refused.value.problem.code == "file_missing"
        assert refused.value.problem.detail.startswith(f"--worker: {missing} is not there")
        assert told in refused.value.problem.detail


def test_a_command_that_is_told_can_be_typed_whatever_the_path_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "a policy's.yaml"
    policy.touch()
    with pytest.raises(ProblemError) as refused:
        check(policy=policy, profile="strict")
    _, _, command = refused.value.problem.remedy.partition("start: ")
    assert shlex.split(command.partition(". With")[0]) == ["towpath", "up", "--policy", str(policy)]
    data = tmp_path / "a platform's"
    assert shlex.split(f"towpath down{data_option(data)}") == ["towpath", "down", "--data", str(data)]
    monkeypatch.chdir(tmp_path)
    assert data_option(tmp_path / ".towpath") == ""
    data.mkdir(mode=0o777)
    data.chmod(0o777)
    with pytest.raises(ProblemError) as refused:
        refuse_shared_folder(data, data.stat().st_uid)
    assert f"chmod go-w {shlex.quote(str(data))}." in refused.value.problem.remedy


def test_files_of_tools_that_are_no_python_are_all_told_with_their_lines(tmp_path: Path) -> None:
    right, colon, null = (tmp_path / name for name in ("right.py", "colon.py", "null.py"))
    right.write_text("raise RuntimeError('it is not imported here')\n'\\d'\n")
    colon.write_text("x = 1\ndef f()\n")
    null.write_bytes(b"x = '\0'\n")
    check_syntax((str(right), "shop.tools"))
    with pytest.raises(ProblemError) as refused:
        check_syntax((str(right), str(colon), str(null)))
    assert refused.value.problem.code == "project_invalid"
    first, second = refused.value.problem.detail.split("; ", 1)
    assert first.endswith("colon.py:2: not Python: expected ':'") and "null" in second


def test_a_strict_start_names_the_files_whose_faults_were_told_above() -> None:
    found = refused_at_start({"a.yaml": ["a.yaml:1: x", "a.yaml:2: y"], "b.yaml": ["b.yaml:1: z"]})
    assert found.detail.endswith(": a.yaml, b.yaml")
    assert [one.detail for one in found.errors] == ["a.yaml:1: x", "a.yaml:2: y", "b.yaml:1: z"]


def test_what_user_code_says_of_itself_is_the_cause_and_of_others_the_end_of_their_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("{}\ntowpath worker: tools.py:5: not Python: expected ':'\n{}\n")
    found = failure("worker", log, "ended at its start")
    assert found.detail == "worker ended at its start: tools.py:5: not Python: expected ':'"
    assert found.remedy == "Correct that, and start again."
    log.write_text("out of memory\n")
    assert (
        failure("tas", log, "ended at its start").detail
        == f"tas ended at its start. Its log ({log}) ends:\nout of memory"
    )


@pytest.mark.parametrize("option", ["gateway_port", "nats_port"])
def test_a_port_that_there_is_not_is_told_by_its_option(option: str) -> None:
    check_files(UpOptions(**{"data": Path(), "gateway_port": 8787, "nats_port": None, option: 65535}))
    with pytest.raises(ProblemError) as refused:
        check_files(UpOptions(**{"data": Path(), "gateway_port": 8787, "nats_port": None, option: 99999}))
    name = {"gateway_port": "--port", "nats_port": "--nats-port"}[option]
    assert refused.value.problem.detail == f"{name}: 99999 is no port: there are those up to 65535"
    assert refused.value.problem.remedy == f"Write e.g. {name} auto."

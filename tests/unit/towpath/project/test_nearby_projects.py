"""Where a command finds no platform, the projects beside its folder are named."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from towpath.cli import main
from towpath.cli.shared.exit_codes import UNREACHABLE
from towpath.project.nearby_projects import MAX_ABOVE, MAX_ENTRIES, NearbyProjects, find_nearby_projects, remedy_nearby

Make = Callable[..., Path]


@pytest.fixture
def make_project(tmp_path: Path) -> Iterator[Make]:
    """Make a project in a folder; one that is `running` has the lock of this process."""
    with ExitStack() as locks:

        def make(name: str, *, running: bool = False) -> Path:
            data = tmp_path / name / ".towpath"
            data.mkdir(parents=True, mode=0o700)
            (data.parent / "towpath.yaml").write_text("kind: Project\n")
            (data / "lock").write_text(json.dumps({"pid": os.getpid()}))
            (data / "lock").chmod(0o600)
            if running:
                fcntl.flock(locks.enter_context((data / "lock").open()), fcntl.LOCK_EX)
            return data.parent

        yield make


def test_projects_below_are_found_and_those_that_run_first(make_project: Make, tmp_path: Path) -> None:
    for name, running in (("shop", False), ("a store", True), (".hidden", False)):
        make_project(name, running=running)
    assert find_nearby_projects(tmp_path) == NearbyProjects(("a store",), ("shop",))
    assert remedy_nearby(tmp_path) == "A platform of yours runs in a store; ask there: cd 'a store'"


def test_a_project_that_no_platform_runs_in_is_told_with_its_start(make_project: Make, tmp_path: Path) -> None:
    for number in range(5):
        make_project(f"shop{number}")
    said = "A project lies in shop0, shop1, shop2 and 2 more; start it there: cd shop0 && towpath up"
    assert remedy_nearby(tmp_path) == said


def test_the_nearest_project_above_is_found(make_project: Make, tmp_path: Path) -> None:
    below = make_project("shop", running=True) / "tests" / "more"
    below.mkdir(parents=True)
    assert remedy_nearby(below) == "A platform of yours runs in ../..; ask there: cd ../.."
    deep = below.joinpath(*("x" for _ in range(MAX_ABOVE)))
    deep.mkdir(parents=True)
    assert remedy_nearby(deep) == ""


def test_nothing_is_told_where_there_is_no_project(tmp_path: Path) -> None:
    for number in range(MAX_ENTRIES + 1):
        (tmp_path / f"{number:03}").mkdir()
    (tmp_path / "a file").touch()
    assert find_nearby_projects(tmp_path) == NearbyProjects()
    assert remedy_nearby(tmp_path) == ""


@pytest.mark.parametrize("above", [False, True])
def test_a_project_of_another_user_is_not_told(
    make_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: bool
) -> None:
    """`towpath up` would import what it names."""
    folder = make_project("shop") / "tests" if above else make_project("shop").parent
    folder.mkdir(exist_ok=True)
    assert remedy_nearby(folder) != ""
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert find_nearby_projects(folder) == NearbyProjects()


@pytest.mark.parametrize("place", ["shop", "shop/towpath.yaml"])
def test_a_project_that_others_may_write_is_not_told(make_project: Make, tmp_path: Path, place: str) -> None:
    make_project("shop")
    (tmp_path / place).chmod(0o777)
    assert find_nearby_projects(tmp_path) == NearbyProjects()


def test_where_a_folder_has_a_project_itself_no_other_one_is_named(make_project: Make, tmp_path: Path) -> None:
    make_project(".")
    make_project("shop", running=True)
    assert remedy_nearby(tmp_path) == ""
    assert remedy_nearby(tmp_path / "shop") == ""


def test_a_name_that_a_terminal_would_obey_is_passed_over_and_a_dash_is_no_option(
    make_project: Make, tmp_path: Path
) -> None:
    for name in ("a\x1b]0;b\x07", "c\nd", "e\u202ef", "-g"):
        make_project(name)
    assert find_nearby_projects(tmp_path) == NearbyProjects(resting=("./-g",))


def test_a_link_that_leads_to_itself_hides_nothing_else(make_project: Make, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    make_project("shop")
    assert find_nearby_projects(tmp_path) == NearbyProjects(resting=("shop",))


@pytest.mark.parametrize(
    ("running", "remedy"),
    [
        (True, "A platform of yours runs in shop; ask there: cd shop"),
        (False, "A project lies in shop; start it there: cd shop && towpath up"),
    ],
)
def test_a_command_one_folder_above_names_the_project(
    make_project: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    running: bool,
    remedy: str,
) -> None:
    make_project("shop", running=running)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("towpath.client.settings.DEFAULT_SERVER", "http://127.0.0.1:9")
    assert main(["runs", "list"]) == UNREACHABLE
    assert remedy in capsys.readouterr().err
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_of_another")
    assert main(["run", "shop", "hi"]) == UNREACHABLE
    assert remedy in capsys.readouterr().err, "a key of the environment names no platform"
    assert main(["runs", "list", "--server", "http://127.0.0.1:9"]) == UNREACHABLE
    assert remedy not in capsys.readouterr().err, "who names a platform means that one"


def test_a_folder_that_is_closed_or_gone_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is root may look everywhere, so the system's refusal is played."""
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "towpath.yaml").touch()
    look = os.stat

    def refuse(path: Any, *more: Any, **options: Any) -> os.stat_result:
        if "closed/" in os.fspath(path):
            raise PermissionError(path)
        return look(path, *more, **options)

    monkeypatch.setattr(os, "stat", refuse)
    assert find_nearby_projects(tmp_path) == NearbyProjects(resting=("open",))
    assert find_nearby_projects(tmp_path / "gone") == NearbyProjects()

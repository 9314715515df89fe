"""Who else may change a file, by its owner and its mode."""

import grp
import os
import pwd
import stat
from pathlib import Path

import pytest

from towpath_fabric.file_owners import fault_above, fault_of, fault_of_status, is_private_group

ME, OTHER = 1000, 1001


def status(mode: int, user: int = ME, group: int = ME) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, user, group, 0, 0, 0, 0))


@pytest.fixture(autouse=True)
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with a group of their own, and a group of several."""
    people = {ME: pwd.struct_passwd(("ann", "x", ME, ME, "", "/", "/bin/sh"))}
    groups = {
        ME: grp.struct_group(("ann", "x", ME, [])),
        100: grp.struct_group(("users", "x", 100, [])),
        101: grp.struct_group(("ann", "x", 101, ["ann", "bob"])),
    }
    monkeypatch.setattr("pwd.getpwuid", people.__getitem__)
    monkeypatch.setattr("grp.getgrgid", groups.__getitem__)


def test_another_users_file_is_not_trusted() -> None:
    assert fault_of_status(status(stat.S_IFREG | 0o600, OTHER), {ME, 0}) == "belongs to another user"
    assert fault_of_status(status(stat.S_IFREG | 0o600, 0), {ME, 0}) is None


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_folder_that_everybody_may_write_is_not_trusted(mode: int) -> None:
    """The sticky bit keeps others from removing files, not from adding some."""
    assert fault_of_status(status(stat.S_IFDIR | mode), {ME}) == "can be written by other users"


def test_the_group_counts_as_others_unless_it_is_the_users_own() -> None:
    mode = stat.S_IFDIR | 0o775
    assert fault_of_status(status(mode), {ME}) is None
    for group in (100, 101, 102):
        assert fault_of_status(status(mode, group=group), {ME}) == "can be written by other users"
    assert is_private_group(4_242, 4_242)  # of an unknown user: of the machine around a container
    assert not is_private_group(4_242, 4_243)


def test_a_link_and_a_socket_have_no_mode_that_counts() -> None:
    for kind in (stat.S_IFLNK, stat.S_IFSOCK):
        assert fault_of_status(status(kind | 0o777), {ME}) is None


def test_where_a_link_leads_is_looked_at(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    folder.chmod(0o757)
    link.symlink_to(folder)
    assert fault_of(link, {os.getuid()}) == "can be written by other users"
    assert fault_of(link, {os.getuid() + 1}) == "belongs to another user"


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A folder below one that belongs to a team."""
    below = tmp_path / "team" / "project" / "data"
    below.mkdir(parents=True)
    return below


@pytest.mark.parametrize("mode", [0o757, 0o777, 0o2777])
def test_a_folder_above_that_others_may_write_is_found_however_far_up(team: Path, mode: int) -> None:
    assert fault_above(team, {os.getuid()}) is None
    team.parents[1].chmod(mode)
    assert fault_above(team, {os.getuid()}) == f"{team.parents[1]} can be written by other users"
    assert fault_above(team / "not" / "there" / "yet", {os.getuid()}) is not None


def test_a_folder_above_that_a_group_of_several_may_write_is_found(team: Path) -> None:
    team.parent.chmod(0o2775)
    if os.geteuid() == 0:
        os.chown(team.parent, 0, 100)
        assert fault_above(team, {0}) == f"{team.parent} can be written by other users"
        os.chown(team.parent, 0, ME)  # the group that bears the name of its one member
        assert fault_above(team, {0, ME}) is None


def test_nobody_renames_the_folders_of_others_in_a_sticky_one(team: Path) -> None:
    team.parent.chmod(0o1777)
    assert fault_above(team, {os.getuid()}) is None


def test_whose_a_folder_above_is_counts(team: Path) -> None:
    if os.geteuid() == 0:
        os.chown(team.parents[1], OTHER, OTHER)
        assert fault_above(team, {0}) == f"{team.parents[1]} belongs to another user"
        assert fault_above(team, {OTHER}) is None
    elif Path("/").stat().st_uid != os.getuid():
        assert fault_above(team, {os.getuid() + 1}) is not None


def test_every_folder_that_a_link_leads_through_is_looked_at(team: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", team.parents[1] / "second"
    first.symlink_to("team/second")
    second.symlink_to(Path("..", "team", "project"))
    assert fault_above(first / "data", {os.getuid()}) is None
    team.parents[1].chmod(0o777)
    assert fault_above(first, {os.getuid()}) == f"{team.parents[1]} can be written by other users"

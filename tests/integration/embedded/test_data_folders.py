"""A data folder that another user made, or may write, is refused before anything in it counts."""

import os
from pathlib import Path

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.platform import Platform
from towpath_embedded.platform_state import lock_folder, refuse_shared_folder


def refusal(data: Path, user: int | None = None) -> str:
    with pytest.raises(ProblemError) as refused:
        refuse_shared_folder(data, os.geteuid() if user is None else user)
    assert refused.value.problem.code == "data_folder_shared"
    return refused.value.problem.detail


@pytest.fixture
def data(folder: Path) -> Path:
    """A folder as a platform leaves it."""
    data = folder / ".towpath"
    with lock_folder(data):
        (data / "authorization").write_text("Authorization: Bearer mine")
        (data / "logs").mkdir()
    return data


@pytest.fixture
def open_data(data: Path) -> Path:
    """The same, after everybody was allowed to write there."""
    data.chmod(0o777)
    return data


async def test_a_platform_does_not_start_on_a_folder_that_others_may_write(open_data: Path) -> None:
    data = open_data
    with pytest.raises(ProblemError) as refused:
        await Platform(data).start()
    assert refused.value.problem.code == "data_folder_shared"
    assert f"{data} can be written by other users" in refused.value.problem.detail
    assert not (data / "state.json").exists()


def test_what_another_user_planted_is_refused_and_all_of_it_is_named(data: Path) -> None:
    told = refusal(data, os.geteuid() + 1)
    for path in (data, data / "authorization", data / "lock", data / "logs"):
        assert f"{path} belongs to another user" in told


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_token_that_others_may_write_is_refused(data: Path, mode: int) -> None:
    (data / "authorization").chmod(mode)
    assert refusal(data) == f"{data / 'authorization'} can be written by other users"


def test_a_folder_behind_a_link_is_looked_at_too(data: Path) -> None:
    link = data.with_name("link")
    link.symlink_to(data)
    refuse_shared_folder(link, os.geteuid())
    data.chmod(0o731)
    assert refusal(link) == f"{link} can be written by other users"


def test_the_folder_of_an_earlier_version_is_taken(data: Path) -> None:
    (data / "lock").chmod(0o664)
    with lock_folder(data):
        assert (data / "lock").stat().st_mode & 0o777 == 0o600

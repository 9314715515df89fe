"""A data folder that another user made, or may write, is refused before anything in it counts."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.platform import Platform
from towpath_embedded.platform_state import lock_folder, make_folders, refuse_shared_folder
from towpath_embedded.processes.child_process import current_umask
from towpath_embedded.processes.role_process import WorkerLaunch

TOOLS = """
import os
from pathlib import Path
from towpath import tool
Path("written_by_user_code").touch()
@tool(toolset="mine")
def one() -> str:
    \"\"\"One.\"\"\"
    return "1"
"""


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


@pytest.mark.parametrize("made", [True, False])
def test_no_data_folder_is_taken_or_made_below_a_folder_where_others_may_rename_it(folder: Path, made: bool) -> None:
    data = folder / "project" / ".towpath"
    data.parent.mkdir()
    if made:
        with lock_folder(data):
            pass
    folder.chmod(0o777)
    with pytest.raises(ProblemError) as refused, lock_folder(data):
        pass
    assert refused.value.problem.code == "data_folder_shared"
    assert f"{folder} can be written by other users" in refused.value.problem.detail
    assert "--data ~/" in str(refused.value.problem.remedy)
    assert data.exists() == made


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


@pytest.fixture
def anything_goes() -> Iterator[None]:
    """The umask of a user who lets everybody write what they make, as some machines set it for all."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("anything_goes")
async def test_others_may_write_nothing_that_a_platform_makes_whatever_the_umask(folder: Path) -> None:
    data = folder / ".towpath"
    (folder / "mine.py").write_text(TOOLS)
    worker = WorkerLaunch(modules=("mine.py",), directory=folder)
    async with Platform(data, durable=False, starts="fork", workers=(worker,)):
        found = {path: path.lstat() for path in data.rglob("*")}
    private = {name: (data / name).stat().st_mode & 0o777 for name in ("nats", "logs")}
    assert private == {"nats": 0o700, "logs": 0o700}
    kinds = {path: status for path, status in found.items() if stat.S_ISREG(status.st_mode) or path.is_dir()}
    assert [str(path) for path, status in kinds.items() if status.st_mode & 0o022] == []
    assert {path.name for path in found if path.suffix == ".served" and found[path].st_mode & 0o777 == 0o600}
    assert (folder / "written_by_user_code").stat().st_mode & 0o777 == 0o666
    assert current_umask() == 0


@pytest.mark.parametrize("place", ["nats", "nats/passwords.json", "nats/store/a", "postgres", "postgres/cluster/data"])
def test_what_others_may_write_below_the_servers_folders_is_refused(data: Path, place: str) -> None:
    """Such as what was made under another umask: who changed a file of the database is the database."""
    make_folders(data)
    path = data / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch()
    refuse_shared_folder(data, os.geteuid())
    path.chmod(path.stat().st_mode | 0o002)
    assert refusal(data) == f"{path} can be written by other users"
    if os.geteuid() == 0:
        path.chmod(0o700)
        os.chown(path, 4_242, 4_242)
        assert f"{path} belongs to another user" in refusal(data)


def test_a_thousand_files_that_others_may_write_are_counted(data: Path) -> None:
    make_folders(data)
    for number in range(1_000):
        path = data / "postgres" / f"{number}"
        path.touch()
        path.chmod(0o666)
    assert refusal(data).endswith("; 990 more")

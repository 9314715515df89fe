"""What one program in a sandbox leaves in a folder that it may change grants nothing to the next one."""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from towpath import Sandbox, ToolError, run_process
from towpath.tools.isolation import data_folders, granted_path
from towpath.tools.isolation.data_folders import LEVELS, MAX_FOLDERS, set_data_folder
from towpath.tools.isolation.granted_path import is_of_the_system, open_granted
from towpath.tools.sandbox import _files_of, refusal

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
KEYS = ("authorization", "ticket.key", "seal.key", "state.json")
FIND = "for one in $(find WHERE -name ticket.key); do cat $one; done; echo looked"


@pytest.fixture(autouse=True)
def _no_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folders, "_own", None)
    monkeypatch.setattr(data_folders, "_held", {})


def data_folder(place: Path) -> Path:
    place.mkdir(parents=True)
    for name in KEYS:
        (place / name).write_text("secret\n")
    return place


async def shell(script: str, **granted: tuple[Path, ...]) -> str:
    """Run a script where it may change or read what is granted; return what it printed."""
    done = await run_process("sh", "-c", script, sandbox=Sandbox(mode="required", **granted))
    return done.text


async def looked(where: Path, **granted: tuple[Path, ...]) -> str:
    return await shell(FIND.replace("WHERE", str(where)), **granted)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder that programs may change, beside a private one."""
    (tmp_path / "work" / "out").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "id_rsa").write_text("secret")
    return tmp_path / "work"


@pytest.mark.parametrize("kind", ["writable", "files", "cwd", "below"])
async def test_an_inner_grant_that_a_program_has_replaced_by_a_link_is_refused(work: Path, kind: str) -> None:
    if refusal():
        return
    private, out = work.parent / "private", work / "out"
    await shell(f"rmdir {out}; ln -s {private} {out}", writable=(work,))
    assert out.is_symlink()
    granted = out / "id_rsa" if kind == "below" else out
    sandbox = Sandbox() if kind == "cwd" else Sandbox(**{"files" if kind == "below" else kind: (granted,)})
    with pytest.raises(ToolError, match=f"{out} is a link, which a program may have made") as refused:
        await run_process("cat", f"{out}/id_rsa", sandbox=sandbox, cwd=out if kind == "cwd" else None)
    assert refused.value.code == "process_not_started"
    assert list(private.iterdir()) == [private / "id_rsa"]


async def test_a_grant_that_is_replaced_again_and_again_never_shows_what_the_links_lead_to(work: Path) -> None:
    if refusal():
        return
    out, link = work / "out", work / "link"
    link.symlink_to(work.parent / "private")
    swap = f"""
import ctypes, time
exchange = lambda: ctypes.CDLL(None).renameat2(-100, b"{out}", -100, b"{link}", 2)
until = time.monotonic() + 4
while time.monotonic() < until:
    exchange(); exchange()
"""
    swapping = asyncio.create_task(run_process(PYTHON, "-c", swap, sandbox=Sandbox(writable=(work,))))
    told = []
    while not swapping.done():
        try:
            told.append(await shell(f"ls {out}", writable=(out,)))
        except ToolError as refused:
            told.append(refused.code)
    assert (await swapping).returncode == 0
    assert not [one for one in told if "id_rsa" in one]
    assert len(told) > 10


def test_a_python_that_a_program_has_linked_does_not_show_the_folder_above_it(work: Path) -> None:
    place = work.parent / "private" / "bin"
    place.mkdir()
    (place / "python-tool").write_text("#!/bin/sh\n")
    (work / "tool").symlink_to(place / "python-tool")
    assert [*_files_of(str(work / "tool"))] == [work / "tool", place / "python-tool"]
    assert sys.prefix == sys.base_prefix or next(_files_of(sys.executable)) == Path(sys.prefix)


def test_links_of_the_system_are_followed_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_of_the_system(Path("/bin"), 0) and is_of_the_system(Path("/var/run"), 0)
    assert not is_of_the_system(tmp_path / "link", 1000)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not is_of_the_system(Path("/srv/work/link"), 0), "root's own programs may have made it"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert is_of_the_system(Path("/srv/work/link"), 0)
    (tmp_path / "a").mkdir()
    (tmp_path / "first").symlink_to("second/../a")
    (tmp_path / "second").symlink_to(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setattr(granted_path, "is_of_the_system", lambda *_: True)
    with pytest.raises(OSError, match="too many links"), open_granted(tmp_path / "loop"):
        pass
    with pytest.raises(FileNotFoundError, match="does not exist"), open_granted(tmp_path / "a" / "missing" / "b"):
        pass
    before = len([*Path("/proc/self/fd").iterdir()])
    with open_granted(tmp_path / "second") as opened:
        assert (opened.place, opened.real) == (tmp_path / "second", tmp_path.resolve())
    assert len([*Path("/proc/self/fd").iterdir()]) == before


async def test_data_folders_of_other_platforms_are_empty_in_the_upper_levels_of_a_grant(tmp_path: Path) -> None:
    if refusal():
        return
    for place in (".towpath", "one/.towpath", "one/two/.towpath", "one/two/three/.towpath", "one/named-otherwise"):
        data_folder(tmp_path / place)
    assert await looked(tmp_path, files=(tmp_path,)) == "looked\n"
    assert await looked(tmp_path, writable=(tmp_path,)) == "looked\n"
    assert await looked(tmp_path, files=(tmp_path / "one" / ".towpath",)) == "looked\n"
    file = tmp_path / "one" / ".towpath" / "ticket.key"
    assert await shell(f"cat {file}; echo looked", files=(file,)) == "looked\n"
    below = data_folder(tmp_path / "/".join("d" * LEVELS) / ".towpath")
    assert "secret" in await looked(below.parent, files=(tmp_path,)), "deeper ones are not looked for, as is documented"


async def test_the_search_for_data_folders_ends_in_a_large_tree(tmp_path: Path) -> None:
    for number in range(MAX_FOLDERS + 10):
        (tmp_path / "many" / f"{number:05}").mkdir(parents=True)
    data_folder(tmp_path / "one" / ".towpath")
    assert refusal() or await looked(tmp_path, files=(tmp_path,)) == "looked\n"


@pytest.mark.parametrize("known", [True, False])
async def test_a_program_can_not_move_a_data_folder_to_where_the_next_one_finds_it(tmp_path: Path, known: bool) -> None:
    if refusal():
        return
    data = data_folder(tmp_path / "k" / "proj" / ".towpath")
    if known:
        set_data_folder(data)
    move = "mkdir -p 1/2/3/4/5; mv k/proj 1/2/3/4/5/x; mv k 1/2/3/4/5/y; echo x > k/proj/written"
    await shell(f"cd {tmp_path}; {move}", writable=(tmp_path,))
    assert (data / "ticket.key").exists() and (tmp_path / "k" / "proj" / "written").exists()
    assert await looked(tmp_path, writable=(tmp_path,)) == "looked\n"


async def test_a_program_can_not_fill_the_levels_above_a_data_folder_that_was_found(tmp_path: Path) -> None:
    if refusal():
        return
    data_folder(tmp_path / "one" / "two" / ".towpath")
    await shell(f"cd {tmp_path}; mkdir $(seq {2 * MAX_FOLDERS})", writable=(tmp_path,))
    assert (tmp_path / str(2 * MAX_FOLDERS)).is_dir()
    assert await looked(tmp_path / "one", files=(tmp_path,)) == "looked\n"


async def test_folders_that_were_removed_are_not_held_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if refusal():
        return
    monkeypatch.setattr(data_folders, "MAX_HELD", 8)  # each program takes 20 milliseconds
    for number in range(2 * data_folders.MAX_HELD):
        place = data_folder(tmp_path / f"{number}" / ".towpath")
        await looked(tmp_path, files=(place.parent,))
        assert len(data_folders._held) == 1
        if number % 2:
            shutil.rmtree(place)
        else:
            for name in KEYS:
                (place / name).unlink()


async def test_the_own_data_folder_is_hidden_wherever_it_was_moved_to(tmp_path: Path) -> None:
    if refusal():
        return
    set_data_folder(data_folder(tmp_path / "proj" / "data"))
    deep = tmp_path / "1" / "2" / "3" / "4" / "5" / "6"
    deep.mkdir(parents=True)
    (tmp_path / "proj").rename(deep / "proj")
    assert await looked(tmp_path, writable=(tmp_path,)) == "looked\n"
    assert await looked(tmp_path, files=(deep / "proj" / "data",)) == "looked\n"


async def test_so_many_data_folders_that_no_command_can_name_them_are_refused(tmp_path: Path) -> None:
    for number in range(300):
        data_folder(tmp_path / f"{number}" / ".towpath")
    if not refusal():
        with pytest.raises(ToolError, match="300 data folders of platforms"):
            await looked(tmp_path, files=(tmp_path,))


async def test_folders_that_are_only_called_like_a_data_folder_are_neither_hidden_nor_held(work: Path) -> None:
    if refusal():
        return
    await shell(f"cd {work}; mkdir $(seq 300); for i in $(seq 300); do mkdir $i/.towpath; done", writable=(work,))
    (work / "1" / ".towpath" / "notes.txt").write_text("notes")
    assert await shell(f"cat {work}/1/.towpath/notes.txt", writable=(work,)) == "notes"
    assert not data_folders._held


@pytest.mark.parametrize("where", ["other", "above", "root"])
async def test_a_link_that_a_program_makes_hides_nothing_that_others_were_granted(
    work: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    if refusal():
        return
    other = work.parent / "other"
    other.mkdir()
    target = {"other": other, "above": work.parent, "root": Path("/")}[where]
    for _ in range(2):
        await shell(f"ln -sfn {target} {work}/.towpath", writable=(work,))
    assert not data_folders._held and not caplog.records
    assert await shell(f"echo paid > {other}/receipt; cat {other}/receipt", writable=(other,)) == "paid\n"
    assert (other / "receipt").read_text() == "paid\n"


async def test_a_data_folder_behind_a_link_is_empty_and_what_is_hidden_is_told_once(
    work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if refusal():
        return
    data = data_folder(work.parent / "disk" / "data")
    (work / ".towpath").symlink_to(data)
    for _ in range(2):
        assert await looked(data.parent, files=(work, data.parent)) == "looked\n"
    assert [record.getMessage().split()[0] for record in caplog.records] == [str(data)]


async def test_a_program_that_may_change_too_many_folders_to_look_through_is_not_started(work: Path) -> None:
    """It could have made them so that the keys of another platform, deeper in its grant, are not found."""
    if refusal():
        return
    data_folder(work / "one" / ".towpath")
    await shell(f"cd {work}; mkdir $(seq {2 * MAX_FOLDERS})", writable=(work,))
    data_folders._held.clear()  # as in the next worker
    with pytest.raises(ToolError, match="grant a smaller folder") as refused:
        await looked(work, writable=(work,))
    assert refused.value.code == "process_not_started"
    assert await looked(work, writable=(work / "one",), files=(work / "2",)) == "looked\n"


def test_no_link_among_temporary_folders_hides_what_it_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may make one there."""
    places, mine = tmp_path / "places", tmp_path / "mine"
    (places / "clusters" / "cluster-1").mkdir(parents=True)
    (places / "towpath-1").mkdir()
    mine.mkdir()
    for folder in (mine, places / "towpath-1"):
        (folder / "lock").touch()
    (places / "towpath-x").symlink_to(mine)
    (places / "clusters" / "cluster-x").symlink_to(mine)
    (places / "linked").symlink_to(mine)
    (mine / "cluster-2").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    monkeypatch.setattr(data_folders, "_CLUSTER_PLACES", (places / "clusters", places / "linked"))
    assert set(data_folders._database_folders()) == {places / "clusters" / "cluster-1", places / "towpath-1"}

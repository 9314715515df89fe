"""Folders of this host that can't be mounted are refused with what is in the way."""

from collections.abc import Callable
from pathlib import Path

import pytest

from towpath import HostMount, RefusedError
from towpath_contracts.tools.workspace import MAX_MOUNT_FILES


def _outside(folder: Path) -> HostMount:
    return HostMount(folder, "notes", roots=[folder / "inside"])


def _absent(folder: Path) -> HostMount:
    return HostMount(folder / "none", "notes", roots=[folder])


def _many(folder: Path) -> HostMount:
    for number in range(MAX_MOUNT_FILES + 1):
        (folder / f"{number}.txt").touch()
    return HostMount(folder, "notes", roots=[folder])


def _large(folder: Path) -> HostMount:
    (folder / "a.txt").write_text("x" * 11)
    return HostMount(folder, "notes", roots=[folder], max_bytes=10)


def _binary(folder: Path) -> HostMount:
    (folder / "a.png").write_bytes(b"\x89PNG\xff")
    return HostMount(folder, "notes", roots=[folder])


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        (_outside, "is outside what may be mounted"),
        (_absent, "can't be read: No such file or directory"),
        (_many, f"has {MAX_MOUNT_FILES + 1} files; the limit is {MAX_MOUNT_FILES}"),
        (_large, "has more than 10 bytes; leave files out by a glob"),
        (_binary, "is no UTF-8 text; leave it out by a glob"),
    ],
)
def test_a_folder_that_cant_be_mounted_is_refused(
    mount: Callable[[Path], HostMount], told: str, tmp_path: Path
) -> None:
    with pytest.raises(RefusedError, match=told) as refused:
        mount(tmp_path).to_json()
    assert refused.value.code == "mount_refused" and str(tmp_path) in str(refused.value)

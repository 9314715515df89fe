"""The wheel as a release has it, built from this checkout and unpacked, so that it runs in the sources' place."""

import fcntl
import os
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.support.places import ROOT

BUILT_FROM = ("libs", "services", "examples", "pyproject.toml", "README.md", "LICENSE", "deploy/console_assets.py")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "vendor")
"""Scripts of other packages come by the build alone; it does not touch those that this checkout serves."""


def unpacked_wheel(folders: pytest.TempPathFactory) -> Path:
    """Return where the wheel of this checkout is unpacked: what PYTHONPATH names to run it.

    It is built once for all processes of tests, and lies packed in `built` beside that folder.
    """
    base = folders.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel-of-this-checkout"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            _build(folder)
            (folder / "done").touch()
    return folder / "wheel"


def _build(folder: Path) -> None:
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv is not None, "uv builds the wheel; run the tests by `uv run`"
    source = folder / "source"
    for name in BUILT_FROM:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=NOT_COPIED)
        else:
            shutil.copyfile(ROOT / name, source / name)
    words = [uv, "build", "--wheel", "--quiet", "--out-dir", str(folder / "built"), str(source)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "wheel")


def packaged_files(root: Path = ROOT) -> set[str]:
    """Return every file of the packages below *root*, by its path in the wheel."""
    target = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    found = {
        str(path.relative_to((root / package).parent))
        for package in target["packages"]
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for place, name in target["force-include"].items():
        found |= {str(Path(name) / path.relative_to(root / place)) for path in (root / place).glob("*.*")}
    return found

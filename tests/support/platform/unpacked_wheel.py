"""The wheel as a release has it, built from this checkout and unpacked, so that it runs in the sources' place."""

import os
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

from tests.support.places import ROOT

BUILT_FROM = ("libs", "services", "examples", "pyproject.toml", "README.md", "LICENSE", "deploy/console_assets.py")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "vendor")
"""Scripts of other packages come by the build alone; it does not touch those that this checkout serves."""


def unpacked_wheel(folder: Path) -> Path:
    """Build the wheel in *folder* and return where it is unpacked: what PYTHONPATH names to run it."""
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
    return folder / "wheel"


def packaged_files() -> set[str]:
    """Return every file of the packages, by its path in the wheel."""
    target = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    found = {
        str(path.relative_to((ROOT / package).parent))
        for package in target["packages"]
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for place, name in target["force-include"].items():
        found |= {str(Path(name) / path.relative_to(ROOT / place)) for path in (ROOT / place).glob("*.*")}
    return found

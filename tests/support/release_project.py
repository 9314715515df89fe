"""A small project of the product's form, in a repository of its own: what a release is tried on in seconds."""

import subprocess
from pathlib import Path

from tests.support.places import ROOT

PROJECT = """\
[build-system]
requires = ["hatchling>=1.27,<2"]
build-backend = "hatchling.build"

[project]
name = "towpath"
version = "0.1.0"
description = "A small one."
readme = "README.md"
requires-python = ">=3.11"
license = "Apache-2.0"
license-files = ["LICENSE"]

[project.optional-dependencies]
log-writer = []

[project.scripts]
towpath = "towpath:main"

[tool.hatch.build.targets.wheel]
packages = ["libs/towpath", "libs/towpath_console"]

[tool.hatch.build.targets.wheel.force-include]
"examples/support" = "towpath/samples"
"""

MAIN = """\
import sys
from importlib.metadata import version

def main():
    print(version("towpath") if "--version" in sys.argv else "help")
"""

CHANGELOG = """\
# Changelog

## [Unreleased]

Nothing is promised yet.

### Added

- The first thing.

## [0.0.9] - 2026-01-02

### Added

- An older thing.
"""

FILES = {
    "pyproject.toml": PROJECT,
    "README.md": "# Small\n\nIt does little.\n",
    "LICENSE": "The licence.\n",
    "CHANGELOG.md": CHANGELOG,
    "deploy/chart/Chart.yaml": "name: small\nversion: 0.1.0\nappVersion: 0.1.0\n",
    "clients/typescript/package.json": '{\n  "name": "towpath",\n  "version": "0.1.0"\n}\n',
    ".gitignore": "dist/\n*.log\n",
    "examples/support/network.yaml": "kind: Network\n",
    "libs/towpath/__init__.py": MAIN,
    "libs/towpath/py.typed": "",
    "libs/towpath_console/__init__.py": "",
    "libs/towpath_console/py.typed": "",
    "libs/towpath_console/assets/vendor/x.js": "x()\n",
    "libs/towpath_console/assets/vendor/x.js.LICENSE.txt": "Anybody may.\n",
}


def git(folder: Path, *words: str) -> str:
    """Run git in *folder*, as somebody whose settings nobody knows."""
    person = ("-c", "user.name=A person", "-c", "user.email=person@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *person, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def release_project(folder: Path) -> Path:
    """Write the project into *folder*, commit it and return where it is."""
    pins = {
        name: (ROOT / "deploy" / name).read_text("utf-8") for name in ("requirements.txt", "build-requirements.txt")
    }
    for name, text in {**FILES, **{f"deploy/{name}": text for name, text in pins.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder

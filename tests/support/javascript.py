"""Where Node and the JavaScript packages of the tests are (tests/javascript), and what it takes to have them."""

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.places import ROOT, TESTS

FOLDER = TESTS / "javascript"
DEMANDED = "TOWPATH_TESTS_DEMAND_NODE"
"""A machine that sets this fails without Node, instead of leaving its tests out."""

NAMED = "javascript"
"""Tests that need Node have this in their name."""

HOW = "npm ci --prefix tests/javascript, with node and npm on the path"


def node_path() -> str | None:
    """Return the program, None where there is none or the packages were not installed."""
    return shutil.which("node") if (FOLDER / "node_modules").is_dir() else None


def is_demanded() -> bool:
    """Return whether the tests must not be left out."""
    return os.environ.get(DEMANDED, "") not in ("", "0")


def is_left_out(name: str) -> bool:
    """Return whether the test *name* can't be run here, and need not be."""
    return re.search(rf"_{NAMED}(_|$)", name) is not None and node_path() is None and not is_demanded()


async def run_node(folder: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """Run Node in *folder* with *environment* besides, and return what it printed; a failure is one of the test."""
    process = await asyncio.create_subprocess_exec(
        node_path() or "node",
        *arguments,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, f"{out.decode()}\n{errors.decode()}"
    return out.decode()


async def compile_typescript(folder: Path, project: str = "tsconfig.json") -> None:
    """Compile the project in *folder*; what its types refuse fails the test."""
    compiler = FOLDER / "node_modules" / "typescript" / "bin" / "tsc"
    await run_node(folder, {}, str(compiler), "--project", project)


async def build_client(folder: Path) -> Path:
    """Build the TypeScript client (clients/typescript) below *folder*, and return its package."""
    package = folder / "node_modules" / "towpath"
    shutil.copytree(ROOT / "clients" / "typescript", package, ignore=shutil.ignore_patterns("dist", "node_modules"))
    await compile_typescript(package)
    return package

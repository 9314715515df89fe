"""Where Node and the JavaScript packages of the tests are (tests/javascript), and what it takes to have them."""

import os
import re
import shutil

from tests.support.places import TESTS

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

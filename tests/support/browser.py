"""Where a browser for the tests is, and what it takes to use it."""

import importlib.util
import os
import re
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEMANDED = "TOWPATH_TESTS_DEMAND_BROWSER"
"""A machine that sets this fails without a browser, instead of leaving its tests out."""

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage")
HOW = "uv run --group dev --group browser pytest, with chromium on the path (Debian: apt-get install chromium)"


def browser_path() -> str | None:
    """Return the browser's program, None where there is none, or the library that drives it is missing."""
    if importlib.util.find_spec("playwright") is None or importlib.util.find_spec("axe_playwright_python") is None:
        return None
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def is_demanded() -> bool:
    """Return whether the tests must not be left out."""
    return os.environ.get(DEMANDED, "") not in ("", "0")


def left_out(folder: Path) -> int:
    """Return how many tests of *folder* are left out; they can't be imported without the library."""
    return sum(
        len(re.findall(r"^async def test_", path.read_text("utf-8"), re.MULTILINE)) for path in folder.glob("test_*.py")
    )

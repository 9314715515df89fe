"""What the checks of deploy/chart need: Helm and the schemas of Kubernetes, both as packages of Python."""

import importlib.util
import os
import re
from pathlib import Path

DEMANDED = "TOWPATH_TESTS_DEMAND_DEPLOY_CHECK"
"""A machine that sets this fails without these packages, instead of leaving the tests out."""

NEEDED = ("helm_python", "kubernetes_validate")
HOW = "uv run --group dev --group deploy-check pytest"


def is_there() -> bool:
    """Return whether the packages are installed."""
    return all(importlib.util.find_spec(name) for name in NEEDED)


def is_demanded() -> bool:
    """Return whether the tests must not be left out."""
    return os.environ.get(DEMANDED, "") not in ("", "0")


def left_out(folder: Path) -> int:
    """Return how many tests of *folder* are left out; they can't be imported without the packages."""
    texts = [path.read_text("utf-8") for path in folder.glob("test_*.py")]
    return sum(len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE)) for text in texts)

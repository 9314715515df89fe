"""Prometheus's own tool for rules, and what it takes to have it."""

import os
import re
import shutil

DEMANDED = "TOWPATH_TESTS_DEMAND_PROMTOOL"
"""A machine that sets this fails without promtool, instead of leaving its tests out."""

NAMED = "promtool"
"""Tests that need it have this in their name."""

HOW = "promtool on the path (Debian: apt-get install prometheus)"


def is_left_out(name: str) -> bool:
    """Return whether the test *name* can't be run here, and need not be."""
    demanded = os.environ.get(DEMANDED, "") not in ("", "0")
    return re.search(rf"_{NAMED}(_|$)", name) is not None and shutil.which("promtool") is None and not demanded

"""The tests in a real browser; left out, and said so, where there is none (`tests.support.browser`)."""

import pytest
from tests.support import browser

collect_ignore_glob = [] if browser.browser_path() or browser.is_demanded() else ["test_*.py"]


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program of the browser; fails where it is demanded and missing."""
    found = browser.browser_path()
    assert found is not None, f"no browser was found: {browser.HOW}"
    return found

"""Checks of deploy/chart by Helm; left out, and said so, where its package is not installed."""

from tests.support.deploy import check_packages

collect_ignore_glob = [] if check_packages.is_there() or check_packages.is_demanded() else ["test_*.py"]

"""The chart beside real servers; left out, and said so, where Helm's package is not installed."""

from tests.support.deploy import check_packages

collect_ignore_glob = [] if check_packages.is_there() or check_packages.is_demanded() else ["test_*.py"]

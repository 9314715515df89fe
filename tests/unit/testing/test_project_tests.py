"""What the process that tests a project does once for all its forks."""

import subprocess
import sys

PROGRAM = """
from towpath_testing import project_tests
from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.networks.spec import NetworkSpec
before = event_adapter.pydantic_complete, LogEntry.__pydantic_complete__
project_tests._build_messages()
after = event_adapter.pydantic_complete, LogEntry.__pydantic_complete__, NetworkSpec.__pydantic_complete__
print(before, after)
"""


def test_the_largest_messages_are_built_before_the_forks() -> None:
    shown = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    assert shown.stdout.strip() == "(False, False) (True, True, True)"

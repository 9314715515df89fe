"""What `towpath test` imports, and what the process that it starts does once for all its forks."""

import subprocess
import sys

BUILDS = """
from towpath_testing import project_tests
from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.networks.spec import NetworkSpec
before = event_adapter.pydantic_complete, LogEntry.__pydantic_complete__
project_tests._build_messages()
after = event_adapter.pydantic_complete, LogEntry.__pydantic_complete__, NetworkSpec.__pydantic_complete__
print(before, after)
"""

IMPORTS = """
import sys
import towpath.cli.app, towpath.cli.evaluation.test_command
print(*sys.modules)
"""


def printed_by(program: str) -> str:
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return shown.stdout.strip()


def test_the_command_imports_no_agents_no_tools_and_no_settings() -> None:
    loaded = set(printed_by(IMPORTS).split())
    assert not loaded & {"towpath.networks.network", "towpath.tools.declaration", "pydantic_settings", "nats"}


def test_the_largest_messages_are_built_before_the_forks() -> None:
    assert printed_by(BUILDS) == "(False, False) (True, True, True)"

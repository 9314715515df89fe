"""What `towpath test` imports, and what the process that it starts does once for all its forks."""

import subprocess
import sys
from pathlib import Path
from typing import IO

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


def printed_by(program: str, *words: str, given: IO[bytes] | None = None) -> str:
    command = [sys.executable, "-c", program, *words]
    shown = subprocess.run(command, stdin=given, capture_output=True, text=True, check=True, timeout=120)
    return shown.stdout.strip()


def test_the_command_imports_no_agents_no_tools_and_no_settings() -> None:
    loaded = set(printed_by(IMPORTS).split())
    assert not loaded & {"towpath.networks.network", "towpath.tools.declaration", "pydantic_settings", "nats"}


def test_the_largest_messages_are_built_before_the_forks() -> None:
    assert printed_by(BUILDS) == "(False, False) (True, True, True)"


STARTED = """
import sys
import towpath.cli
from towpath.cli.evaluation import project_test_start
start, started = project_test_start._start, []
def recorded():
    started.append(("towpath.cli.app" in sys.modules, start()))
    return started[-1][1]
project_test_start._start = recorded
code = towpath.cli.main(sys.argv[1:])
print(code, [early for early, _ in started], all(process.returncode is not None for _, process in started))
"""

IMPORTS_WHEN_ASKED = """
import sys
from towpath_testing import project_tests
print(project_tests.main([]), "pytest" in sys.modules, "towpath_testing.platform" in sys.modules)
"""


def test_the_process_starts_before_the_tree_of_commands_is_imported_and_ends_where_there_is_nothing_to_test(
    tmp_path: Path,
) -> None:
    assert printed_by(STARTED, "test", str(tmp_path / "missing")).endswith("2 [False] True")


def test_help_starts_no_process() -> None:
    assert printed_by(STARTED, "test", "--help").endswith("0 [] True")


def test_only_what_is_asked_for_is_imported_once_the_request_is_there(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text('{"tests": []}')
    with request.open("rb") as asked:
        assert printed_by(IMPORTS_WHEN_ASKED, given=asked) == "0 False False"


def test_the_process_ends_silently_where_who_started_it_asks_for_nothing() -> None:
    words = [sys.executable, "-P", "-m", "towpath_testing.project_tests", "0", "1"]
    shown = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=120)
    assert (shown.stdout, shown.stderr) == ("", "")

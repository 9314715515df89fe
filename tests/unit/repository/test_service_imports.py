"""What services import when they start: a framework that one of them doesn't use would cost all their starts."""

import json
import subprocess
import sys

OTHERS = ("agent", "decider", "log_writer", "orchestrator", "tas", "watchdog", "worker")
UNUSED = {
    *("rich", "pygments", "cyclopts", "griffe"),  # the command line, and the declaration of tools
    *("anthropic", "google.genai", "openai", "mcp", "genai_prices", "httpx2"),  # at the first call that needs them
    *("opentelemetry.sdk", "opentelemetry.exporter"),  # where traces are exported
}
OF_THE_GATEWAY = {"fastapi", "starlette"}

PROGRAM = """
import importlib, json, sys
for service in sys.argv[1:]:
    importlib.import_module(f"towpath_{service}.__main__")
print(json.dumps(sorted(sys.modules)))
"""


def imported(*services: str) -> set[str]:
    program = [sys.executable, "-c", PROGRAM, *services]
    return set(json.loads(subprocess.run(program, capture_output=True, check=True).stdout))


def test_services_import_no_framework_that_they_do_not_use() -> None:
    assert not imported(*OTHERS) & (UNUSED | OF_THE_GATEWAY)
    assert not imported("gateway") & UNUSED

"""What `import towpath.testing` imports: every run of somebody's tests pays for it before its first test."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""

OF_PROCESSES = {
    "faststream",
    "fast_depends",
    "uvicorn",
    "h11",
    "fastapi",
    "starlette",
    "nkeys",
    "httpx2",
    "rich",
    "cyclopts",
}
"""What serves, connects or prints: a harness is a part of the process that it is in."""

OF_ONE_REPLICA = {
    "towpath_fabric.service",
    "towpath_fabric.nats.bus",
    "towpath_tas.wiring.audit_wiring",
    "towpath_tas.app.audit.sealer",
}


def modules_of(name: str) -> set[str]:
    shown = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, check=True, timeout=120)
    return set(json.loads(shown.stdout))


@pytest.mark.parametrize(
    "name", ["towpath.testing", "towpath_testing.evaluation.__main__", "towpath_decider.adapters.keyed_providers"]
)
def test_a_harness_and_its_providers_import_nothing_that_only_processes_of_the_platform_need(name: str) -> None:
    assert not modules_of(name) & (OF_PROCESSES | OF_ONE_REPLICA)


def test_the_plugin_of_pytest_imports_pytest_and_nothing_of_the_platform() -> None:
    more = modules_of("towpath_testing.pytest_plugin") - modules_of("pytest")
    assert more == {"towpath_testing", "towpath_testing.pytest_plugin"}

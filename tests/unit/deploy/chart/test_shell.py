"""ShellCheck has nothing to say of the scripts that a deployment runs."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.places import ROOT

SCRIPTS = ("deploy/make-secrets", "deploy/kubernetes-secrets", "deploy/pin-images", "deploy/roles.sh", ".ci/run")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_has_no_finding(script: str) -> None:
    command = [Path(sys.executable).parent / "shellcheck", "--severity=warning", ROOT / script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")

"""A process closes itself to others of its user, and its secrets never stand in what the system lists of it."""

import functools
import json
import os
import subprocess
import sys

import pytest
from tests.support.places import ROOT

from towpath_embedded.processes.role_names import START_ORDER
from towpath_fabric import redaction
from towpath_fabric.process_protection import (
    SECRETS_DESCRIPTOR,
    forget_credentials,
    secrets_pipe,
    without_secrets,
)

READ = """
import ctypes, json, os
from towpath_fabric.process_protection import protect_process
protect_process()
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
listed = open("/proc/self/environ").read() if os.getuid() == 0 else ""
descriptors = len(os.listdir("/proc/self/fd"))
print(json.dumps([dumpable, os.environ.get("TOWPATH_NATS_PASSWORD"), "hunter" in listed, descriptors]))
"""


def test_an_executed_process_reads_its_secrets_from_a_pipe_and_closes_it() -> None:
    def read(secrets: dict[str, str]) -> list[object]:
        with secrets_pipe(secrets) as (descriptors, variables):
            words = [sys.executable, "-P", "-c", READ]
            environment = {"PYTHONPATH": os.pathsep.join(sys.path), **variables}
            done = subprocess.run(words, env=environment, pass_fds=descriptors, capture_output=True, check=True)
        found: list[object] = json.loads(done.stdout)
        return found

    given, none = read({"TOWPATH_NATS_PASSWORD": "hunter2"}), read({})
    assert given == [0, "hunter2", False, none[3]]
    assert none[:3] == [0, None, False]


def test_secrets_are_told_apart_from_the_rest_of_an_environment() -> None:
    plain, secret = without_secrets({"TOWPATH_DATABASE_URL": "a", "TOWPATH_NATS_URL": "b", "OPENAI_API_KEY": "c"})
    assert plain == {"TOWPATH_NATS_URL": "b"}
    assert secret == {"TOWPATH_DATABASE_URL": "a", "OPENAI_API_KEY": "c"}
    with secrets_pipe({}) as nothing:
        assert nothing == ((), {})
    assert SECRETS_DESCRIPTOR not in secret


def test_credentials_leave_the_environment_and_are_still_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = functools.cache(redaction._environment_secrets.__wrapped__)  # this process may have redacted before
    monkeypatch.setattr(redaction, "_environment_secrets", fresh)
    monkeypatch.setenv("TOWPATH_NATS_PASSWORD", "hunter2-hunter2")
    monkeypatch.setenv("TOWPATH_API_KEY", "for-a-tool-that-submits")
    assert forget_credentials()["TOWPATH_NATS_PASSWORD"] == "hunter2-hunter2"
    assert "TOWPATH_NATS_PASSWORD" not in os.environ
    assert os.environ["TOWPATH_API_KEY"] == "for-a-tool-that-submits"
    assert redaction.redact("refused: hunter2-hunter2") == "refused: [redacted]"


@pytest.mark.parametrize("role", START_ORDER)
def test_every_service_protects_itself_before_it_imports_anything_else(role: str) -> None:
    text = (ROOT / "services" / f"towpath_{role}" / "__main__.py").read_text()
    assert text.index("    protect_process()") < text.index("with paused():")

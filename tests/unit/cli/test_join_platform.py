"""A worker started by hand finds the platform beside it, and expects its broker to be of that platform's user."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

JOIN = """
import os, sys
from towpath.cli.administration.process_commands import join_platform
join_platform("worker")
os.execv(sys.executable, [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"])
"""


def test_who_joins_a_platform_is_told_its_broker_and_whose_process_that_is(tmp_path: Path) -> None:
    folder = tmp_path / ".towpath"
    folder.mkdir()
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps({"worker": "secret"}))
    state = {"nats_url": "nats://127.0.0.1:4321", "nats_passwords": str(passwords)}
    (folder / "state.json").write_text(json.dumps(state))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([sys.executable, "-c", JOIN], cwd=tmp_path, capture_output=True, text=True, check=True)
    joined = {name: value for name, value in json.loads(done.stdout).items() if name.startswith("TOWPATH_NATS_")}
    assert joined == {
        "TOWPATH_NATS_URL": "nats://127.0.0.1:4321",
        "TOWPATH_NATS_USER": "worker",
        "TOWPATH_NATS_PASSWORD": "secret",
        "TOWPATH_NATS_OWNER": str(folder.stat().st_uid),
    }

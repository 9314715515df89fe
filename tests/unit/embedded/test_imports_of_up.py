"""What the process of `towpath up` imports, and when: it waits for its own imports, and later for the services."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
from pathlib import Path
import towpath_embedded.__main__
from towpath_embedded.start_checks import UpOptions
from towpath_embedded.up import import_for_later

LATER = ("network_files.network_folder", "terminal.key_actions", "terminal.live_view")
HEAVY = ("faststream", "httpx2", "yaml")

def imported(**options):
    import_for_later(UpOptions(data=Path(), gateway_port=None, nats_port=None, **options))
    return [name for name in LATER if f"towpath_embedded.{name}" in sys.modules]

print(json.dumps({
    "heavy": [name for name in HEAVY if name in sys.modules],
    "servers": imported(servers_only=True, networks=Path("networks")),
    "bare json": imported(as_json=True),
    "json": imported(as_json=True, networks=Path("networks")),
    "terminal": imported(networks=Path("networks")),
}))
"""


def test_a_start_imports_nothing_heavy_first_and_what_it_needs_later_while_it_waits() -> None:
    command = [sys.executable, "-c", PROGRAM]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert json.loads(shown) == {
        "heavy": [],
        "servers": [],
        "bare json": [],
        "json": ["network_files.network_folder"],
        "terminal": ["network_files.network_folder", "terminal.key_actions", "terminal.live_view"],
    }


def test_ctrl_c_while_it_imports_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "cyclopts.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told this process to ignore it
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-P", "-m", "towpath_embedded", "up", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (-signal.SIGINT, b"")

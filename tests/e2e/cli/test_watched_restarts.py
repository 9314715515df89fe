"""Whoever watches a run sees each line of it once, although the gateway dies meanwhile and is started again."""

import json
import os
import subprocess
from pathlib import Path

from tests.e2e.cli.conftest import Ask
from tests.e2e.cli.test_cli_platform import TOWPATH, waiting
from tests.support.platform.sample_platform import ServedSample


def test_watching_goes_on_over_a_restart_of_the_gateway_without_a_lost_or_doubled_line(
    ask: Ask, served: ServedSample, tmp_path: Path
) -> None:
    run_id, gate_id = waiting(ask, tmp_path)
    command = [str(TOWPATH), "runs", "watch", run_id, "-o", "jsonl"]
    watching = subprocess.Popen(command, env={**os.environ, "TOWPATH_SERVER": served.address}, stdout=subprocess.PIPE)
    try:
        assert watching.stdout is not None
        seen = [json.loads(watching.stdout.readline())]
        while seen[-1]["event"]["type"] != "gate_opened":
            seen.append(json.loads(watching.stdout.readline()))
        served.kill_gateway()
        code, _ = ask("gates", "approve", gate_id, "--reason", "checked")
        assert code == 0
        rest, _ = watching.communicate(timeout=120)
    finally:
        watching.kill()
        watching.wait()
    *entries, view = map(json.loads, rest.splitlines())
    assert [entry["seq"] for entry in (*seen, *entries)] == list(range(1, view["seq"] + 1))
    assert (watching.returncode, view["status"]) == (0, "completed")

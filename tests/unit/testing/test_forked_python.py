"""The interpreter that forks has and does what one has that is started: files, folder, environment, signals, end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.forked_python import forked_python

PROBE = """
import json, os, signal, sys, time
import shown
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ["WORD"], sys.stdin.read(), shown.IMPORTED_BY == os.getpid(),
    os.getsid(0) == os.getpid(), "tests" in sys.modules]), flush=True)
print("aside", file=sys.stderr, flush=True)
if sys.argv[1:] == ["stay"]:
    time.sleep(60)
sys.exit(3)
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that is imported before processes are forked."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "shown").mkdir()
    (folder / "shown" / "__init__.py").write_text("import os\nIMPORTED_BY = os.getpid()\n")
    (folder / "shown" / "__main__.py").write_text("")
    return folder


@pytest.fixture(scope="module")
def forked(shown: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(shown))
        with forked_python("shown") as program:
            yield program


def started(python: str, shown: Path, folder: Path, word: str) -> subprocess.Popen[str]:
    (folder / "probe.py").write_text(PROBE)
    environment = {**os.environ, "WORD": "a word", "PYTHONPATH": str(shown)}
    return subprocess.Popen(
        [python, "-m", "probe", word], cwd=folder, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def test_a_fork_has_what_a_process_has_that_is_started_and_ends_alike(forked: str, shown: Path, tmp_path: Path) -> None:
    told = []
    for python in (forked, sys.executable):
        process = started(python, shown, tmp_path, "go")
        out, aside = process.communicate("given")
        told.append((json.loads(out), aside, process.returncode))
    (fork, *rest), (start, *others) = told
    assert rest == others == ["aside\n", 3]
    assert fork == [["go"], str(tmp_path), "a word", "given", False, True, False]
    assert start == [["go"], str(tmp_path), "a word", "given", True, True, False]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_ends_by_the_signal_of_the_process_that_stands_for_it(
    forked: str, shown: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    process = started(forked, shown, tmp_path, "stay")
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    assert json.loads(process.stdout.readline())[0] == ["stay"]
    process.send_signal(sent)
    assert process.wait(30) == -sent
    assert process.stdout.read() == "", "the fork has ended, as nobody has its output open"
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def test_who_asks_a_server_that_has_ended_is_told_and_does_not_wait(tmp_path: Path) -> None:
    with forked_python("nothing_of_this_name") as program:
        asked = subprocess.run([program, "-m", "probe"], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert asked.returncode == 1

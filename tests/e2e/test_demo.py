"""`towpath demo` as a newcomer runs it: everything starts, one run happens and is recorded, nothing stays behind.

It is installed from a wheel, as a release has it, so that what is missing there is missed here.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from tests.docs_site.shell_blocks import shell_commands
from tests.docs_site.taken_blocks import taken
from tests.support.cli.printed_documents import PrintedDocuments
from tests.support.console.page_files import absent_files
from tests.support.decider.gemini_server import gemini, says
from tests.support.deploy.package_folder import fill_package_folder
from tests.support.places import ROOT
from tests.support.platform.unpacked_wheel import packaged_files, unpacked_wheel

from towpath_console.pages import PAGES

TOWPATH = Path(sys.executable).parent / "towpath"
COLD_LIMIT_S = 120
"""A cold start, on a machine that may do something else too."""

START_LIMIT_S = 120
NEEDS_MORE = re.compile(r"\{(letter_id|gate_id|entry_id|erasure_id|worker_id)|/compare$|/batch$")
"""Pages about something that is not looked for here."""


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without a model's key, so that the demo plays its script."""
    return {**{name: value for name, value in os.environ.items() if name != "GEMINI_API_KEY"}, **more}


def children(pid: int) -> set[int]:
    """Return every living process that descends from *pid*."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:  # it ended meanwhile
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found, looked = {pid}, 0
    while looked != len(found):
        looked = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


def gone(pids: set[int], within_s: float) -> bool:
    """Return whether all of *pids* end within a time."""
    end = time.monotonic() + within_s
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Shown(NamedTuple):
    """What one run of the demo prints, how long it took until it could be looked at, and the console's first page."""

    printed: str
    said: str
    took: float
    page: str
    wrong: list[str]
    files: set[str]


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """End *process* after the block, whatever becomes of it."""
    try:
        yield
    finally:
        process.kill()


def console_link(said: Path) -> tuple[str, str]:
    """Return the console's address that the demo says, and the path that lets one browser in."""
    end = time.monotonic() + START_LIMIT_S
    while not (link := re.search(r"the console +(http://[^/]+)(/sign-in\?token=\S+)", said.read_text())):
        assert time.monotonic() < end, said.read_text()
        time.sleep(0.05)
    return link[1], link[2]


async def looked_at(address: str, way_in: str) -> tuple[str, list[str], set[str]]:
    """Return the first page, what is wrong with any page and its files, and these files."""
    async with httpx2.AsyncClient(base_url=address, headers={"Accept": "text/html"}, timeout=60) as browser:
        assert (await browser.get(way_in)).status_code == 303
        first = (await browser.get("/")).raise_for_status().text
        run_id = re.findall(r'href="/runs/([0-9a-f-]{36})"', first)[0]
        known = {"run_id": run_id, "network": "support", "tool": "orders.find", "version": 1, "step": 1}
        paths = [route.path.replace(":path}", "}") for route in PAGES if not NEEDS_MORE.search(route.path)]
        assert {"/docs", "/asyncapi"} <= {*paths}
        for document in ("/openapi.json", "/asyncapi.json"):
            assert (await browser.get(document)).raise_for_status().json()["info"]
        return first, *(await absent_files(browser, [path.format_map(known) for path in paths]))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    return unpacked_wheel(tmp_path_factory)


@pytest.fixture(scope="module")
def packages(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What has uv install from a folder, which has the wheel and what its extra needs, and from nowhere else."""
    folder, cache = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("cache")
    (built,) = (wheel.parent / "built").glob("*.whl")
    fill_package_folder(folder, built, "embedded")
    found = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(folder), "UV_CACHE_DIR": str(cache), "UV_PYTHON": sys.executable}
    return {**found, "UV_NO_CONFIG": "1"}


@pytest.fixture(scope="module")
def shown(packages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """One run of the demo that goes on until Ctrl-C, by the command with which the README installs nothing."""
    (command,) = shell_commands(taken("README.md: uvx").text, {})
    uvx = Path(os.environ.get("UV") or shutil.which("uv") or "uv").with_name("uvx")
    assert command.words[0] == uvx.name
    began = time.monotonic()
    folder = tmp_path_factory.mktemp("demo")
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [uvx, *command.words[1:], "--yes", "--json", "--keep"],
            env=environment(**packages), cwd=folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        with process, ended(process):
            line = process.stdout.readline()
            took = time.monotonic() - began
            page, wrong, files = asyncio.run(looked_at(*console_link(folder / "said")))
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            assert process.wait(timeout=90) == 0, (folder / "said").read_text()
            assert process.stdout.read() == "", "one line of JSON and no more"
    assert not (folder / ".towpath").exists()
    return Shown(line, (folder / "said").read_text(), took, page, wrong, files)


@pytest.mark.prints("demo", "demo run")
def test_the_numbers_of_the_demo_agree(shown: Shown, printed_documents: PrintedDocuments) -> None:
    (summary,), took = printed_documents.read("demo", shown.printed), shown.took
    assert printed_documents.read("demo run", shown.printed) == [summary], "one command under both names"
    assert summary["status"] == "completed"
    assert summary["steps"] >= 4
    assert summary["history_steps"] == summary["steps"]
    assert summary["tool_calls"] >= 2
    assert summary["approvals"] >= 1
    assert summary["audit_entries"] >= summary["tool_calls"]
    assert "129.00" in summary["answer"]["message"]
    assert took < COLD_LIMIT_S


def test_the_demo_says_that_no_model_was_asked(shown: Shown) -> None:
    summary, said = json.loads(shown.printed), shown.said
    assert summary["model"] == "scripted:support"
    assert "no model is asked" in said


def test_the_wheel_has_every_file_of_its_packages_and_is_what_the_demo_runs(wheel: Path) -> None:
    packed = {str(path.relative_to(wheel)) for path in wheel.rglob("*") if path.is_file()}
    assert packaged_files() - packed == set()
    asked = [sys.executable, "-P", "-c", "import towpath_gateway; print(towpath_gateway.__file__)"]
    found = subprocess.run(asked, env=environment(PYTHONPATH=str(wheel)), capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(wheel)


def test_every_page_and_every_file_that_pages_load_comes_with_the_wheel(shown: Shown) -> None:
    assert shown.wrong == []
    assert {"console.css", "console.js", "htmx.js", "icon.svg"} <= {path.rpartition("/")[2] for path in shown.files}


def test_the_first_page_has_a_finished_run_and_one_that_waits_for_a_person(shown: Shown) -> None:
    assert "Refund order 8811" in shown.page and "completed" in shown.page
    assert "Refund order 8813" in shown.page and "/approve" in shown.page
    assert 'value="Refund order 8812"' in shown.page


def test_the_demo_shows_every_step(shown: Shown) -> None:
    said = shown.said
    for part in (
        "hands over to billing",
        "orders.find order_id=8812",
        "waits for a person",
        "refund_id=rf_",
        "answers",
    ):
        assert part in said, said


def test_the_picture_in_the_readme_shows_what_the_demo_says(shown: Shown) -> None:
    """Its steps and its audit; `python -m tests.browser.screenshots --readme` draws it again."""
    drawn = (ROOT / "docs" / "demo.svg").read_text("utf-8")
    rows: dict[str, str] = {}
    for height, text in re.findall(r'<text [^>]*\by="([\d.]+)"[^>]*clip-path=[^>]*>([^<]*)</text>', drawn):
        rows[height] = rows.get(height, "") + unescape(text).replace("\xa0", " ")
    assert steps_and_audit("\n".join(rows.values())) == steps_and_audit(shown.said)


def steps_and_audit(said: str) -> list[list[str]]:
    """Return the first words of each step, and every word of each entry of the audit."""
    lines = [line.split() for line in said.splitlines()]
    steps = [words[:3] for words in lines if words and words[0] in {"✓", "◐"}]
    start = lines.index(["phase", "verdict", "tool", "rule", "by"])
    return steps + [words for words in lines[start:] if len(words) == 5]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_running(number: signal.Signals) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told this process to ignore it
    (command,) = shell_commands(taken("examples/support/README.md: towpath demo").text, {})
    process = subprocess.Popen(
        [TOWPATH.with_name(command.words[0]), *command.words[1:], "--yes"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + START_LIMIT_S
        while len(children(process.pid)) < 8:  # up, Postgres, NATS and services are starting
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        started = children(process.pid)
        os.kill(process.pid, number)
        said, _ = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert gone(started, 60)


@pytest.mark.prints("demo crash")
def test_with_a_key_a_model_decides_and_with_a_crash_in_the_middle_no_tool_is_called_twice(
    tmp_path_factory: pytest.TempPathFactory, printed_documents: PrintedDocuments
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    script = json.loads((ROOT / "examples/support/script.json").read_text("utf-8"))
    decisions = [{name: part for name, part in entry.items() if name != "agent"} for entry in script]
    with gemini(*(says(json.dumps(decision)) for decision in decisions)) as server:
        done = subprocess.run(
            [TOWPATH, "demo", "crash", "--yes", "-o", "json", "--data", folder],
            env=environment(GEMINI_API_KEY="no-real-key", TOWPATH_GEMINI_BASE_URL=server.url),
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        prompts = [json.dumps(seen.body) for seen in server.seen]
    assert done.returncode == 0, done.stderr
    (summary,) = printed_documents.read("demo crash", done.stdout)
    assert (summary["model"], summary["steps"], summary["status"]) == ("gemini:gemini-2.5-flash", 4, "completed")
    assert len(prompts) == 4
    assert all("arrived broken" in prompt for prompt in prompts)
    assert "decisions come from gemini" in done.stderr
    killed, started = summary["orchestrator"]["killed_pid"], summary["orchestrator"]["started_pid"]
    assert f"kill -9 {killed}: the orchestrator" in done.stderr and f"started again as pid {started}" in done.stderr
    assert killed != started and done.stderr.index(f"pid {started}") < done.stderr.index("✓ completed")
    assert summary["calls"] == {"orders.find": 1, "orders.refund": 1} and summary["refunds"] == 1
    assert "the shop's own database has 1 refund more of order 8812" in done.stderr
    assert "no-real-key" not in done.stderr + done.stdout
    assert (folder / ".towpath").is_dir()
    assert "is kept in" in done.stderr


def test_a_worker_that_waits_for_its_broker_stops_when_asked(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "towpath_worker", "--builtin"],
        env=environment(TOWPATH_NATS_URL="nats://127.0.0.1:1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    try:
        while b"Waiting for application startup" not in process.stdout.readline():
            assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.prints("demo flood")
def test_a_flood_of_runs_is_carried_out_and_measured(printed_documents: PrintedDocuments) -> None:
    done = subprocess.run(
        [TOWPATH, "demo", "flood", "--runs", "30", "--json"],
        env=environment(), capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (measured,) = printed_documents.read("demo flood", done.stdout)
    assert (measured["runs"], measured["statuses"]) == (30, {"completed": 30})
    assert 0 < measured["p50_s"] <= measured["p95_s"] <= measured["took_s"]
    assert f"30 completed in {measured['took_s']:.1f} s: {measured['runs_per_s']:.1f} runs/s" in done.stderr

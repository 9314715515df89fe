"""The README and the tutorial are true: their code blocks are taken out and run, as they stand, in an empty folder.

Only addresses are changed, so that a platform on the default ports is left alone.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.docs_site.taken_blocks import taken
from tests.support.places import ROOT

from towpath import Client

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")))
EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("examples/*/README.md"))
BIN = Path(sys.executable).parent
START_LIMIT_S = 120
ANSWER = {"message": "12 lamps are left; two are set aside for you."}


class Block(NamedTuple):
    """A fenced block: its language, the name after it, and its text."""

    language: str
    name: str
    text: str


def blocks(page: Path = TUTORIAL) -> list[Block]:
    """Return every fenced block of *page*, in order."""
    found = re.findall(r"^```(\w*) ?(\S*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(*parts) for parts in found]


def named(name: str) -> Block:
    """Return the one block called *name*."""
    (block,) = [block for block in blocks() if block.name == name]
    return block


class Place(NamedTuple):
    """The folder with the tutorial's files, and the platform that runs on it."""

    folder: Path
    http: str
    nats: str
    state: dict[str, Any]

    def moved(self, text: str) -> str:
        """Return *text* with the addresses of this platform."""
        return text.replace("http://127.0.0.1:8787", self.http).replace("nats://127.0.0.1:4222", self.nats)

    def token(self) -> str:
        """The token of its gateway, for who is in another folder."""
        return (self.folder / ".towpath" / "authorization").read_text().rpartition(" ")[2].strip()

    def shell(self, name: str) -> str:
        """Run a block of shell commands and return what it printed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.moved(named(name).text)],
            cwd=self.folder, env=environment(), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


def environment() -> dict[str, str]:
    """Return this process's environment with `towpath` on the path, as the tutorial asks for."""
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The tutorial's own files and its own `towpath up`, on free ports."""
    folder = tmp_path_factory.mktemp("tutorial")
    for block in blocks():
        if re.fullmatch(r"\w+\.(py|yaml|json)", block.name):
            (folder / block.name).write_text(block.text, "utf-8")
    command = [*named("up").text.split(), "--port", "auto", "--nats-port", "auto", "--json"]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        state = json.loads(process.stdout.readline())
        assert "gateway_url" in state, state
        yield Place(folder, state["gateway_url"], state["nats_url"], state)
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()


def test_the_readme_names_the_commands_to_begin_with_and_the_test_command() -> None:
    commands = [block.text.strip() for block in blocks(README) if block.language == "sh"]
    assert commands[0].startswith("git clone ")
    assert commands[1:3] == ["pip install uv && uv run towpath demo", "pip install 'towpath[embedded]' && towpath demo"]
    assert commands[3] == "uvx --from 'towpath[embedded]' towpath demo"
    assert "uv run --group dev pytest" in commands
    assert "run --group dev pytest" in (ROOT / ".ci/run").read_text("utf-8").splitlines()[-1]


def test_the_task_runs_over_http(place: Place) -> None:
    run = json.loads(place.shell("http"))
    assert run["status"] == "completed"
    assert run["final"] == ANSWER
    assert run["last_output"] == "2 of lamp set aside"


def test_the_task_runs_by_a_bare_request_over_nats(place: Place) -> None:
    script = place.folder / "moved.py"
    script.write_text(place.moved(named("submit.py").text), "utf-8")
    done = subprocess.run(
        [BIN / "python", script], cwd=place.folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["status"] == "completed", run
    assert run["final"] == ANSWER
    assert run["caller"] == "anonymous"


def test_a_bare_request_says_at_once_in_one_line_that_nothing_runs_there(tmp_path: Path) -> None:
    script = tmp_path / "submit.py"
    script.write_text(named("submit.py").text.replace("127.0.0.1:4222", "127.0.0.1:1"), "utf-8")
    (tmp_path / "task.json").write_text("{}", "utf-8")
    done = subprocess.run(
        [BIN / "python", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("no Towpath answers at nats://127.0.0.1:1")
    assert line.endswith("start it: towpath up")


def test_the_task_runs_from_the_command_line(place: Place) -> None:
    assert "12 lamps are left" in place.shell("cli")


def test_the_order_to_break_it_is_one_that_can_be_followed(place: Place) -> None:
    """Without its number of kills nothing is started, and everything else about the order is checked."""
    command = named("chaos").text.replace("--kills 24", "--kills 0 --json")
    done = subprocess.run(
        ["bash", "-c", command], cwd=place.folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert [entry["pointer"] for entry in json.loads(done.stderr)["errors"]] == ["/kills"]


def test_the_task_runs_from_python(place: Place) -> None:
    script = place.folder / "client.py"
    done = subprocess.run(
        [BIN / "python", script], cwd=place.folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(ANSWER)


def test_a_refund_is_approved_and_made_though_its_worker_is_killed(place: Place) -> None:
    before = worker_pid(place)
    done = subprocess.run(
        [BIN / "python", place.folder / "refund.py"],
        cwd=place.folder, capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    waits, ended = done.stdout.splitlines()
    assert waits == "waits for a person: stock.refund {'amount': 129, 'order': '8812'}"
    assert ended == "completed {'message': '129 euros are on their way.'}"
    assert worker_pid(place) != before


def worker_pid(place: Place) -> int:
    """Return the process of the worker as the platform tells it now."""
    state = json.loads((place.folder / ".towpath" / "state.json").read_text("utf-8"))
    return int(state["processes"]["worker"]["pid"])


@pytest.mark.parametrize("way", ["http", "nats"])
async def test_the_task_runs_by_the_client_over_both_ways(place: Place, way: str) -> None:
    task = json.loads((place.folder / "task.json").read_text("utf-8"))
    async with Client(place.http if way == "http" else place.nats, api_key=place.token()) as client:
        accepted = await client.submit(task.pop("network"), task.pop("user_message"), **task)
        kinds = [entry.event.type async for entry in client.events(accepted.run_id)]
        run = await client.result(accepted.run_id, timeout=60)
    assert (kinds[0], kinds[-1], run.status) == ("run_created", "run_finished", "completed")


def test_what_came_of_it_can_be_looked_at(place: Place) -> None:
    place.shell("http")
    shown = place.shell("look")
    runs = json.JSONDecoder().raw_decode(shown)[0]["runs"]
    assert {run["network"] for run in runs} == {"stock"}


def test_the_audit_knows_the_calls(place: Place) -> None:
    place.shell("http")
    entries = json.JSONDecoder().raw_decode(place.shell("audit"))[0]["entries"]
    assert {entry["verdict"] for entry in entries if entry["phase"] == "decision"} == {"allow"}
    assert any(entry["phase"] == "outcome" and entry["verdict"] == "succeeded" for entry in entries)


def test_another_worker_joins_the_platform_of_its_folder(place: Place) -> None:
    process = subprocess.Popen(
        ["bash", "-c", f"exec {named('worker').text}"],
        cwd=place.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        end = time.monotonic() + START_LIMIT_S
        while b'"started"' not in (line := process.stdout.readline()):
            assert line, "the worker ended"
            assert time.monotonic() < end
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_clone_of_the_repository_is_where_the_commands_begin(tmp_path: Path) -> None:
    block = taken("README.md: git clone").text.replace("REPOSITORY", str(ROOT))
    script = f"{block}test -f pyproject.toml && git rev-parse HEAD"
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "towpath" / "pyproject.toml").read_text("utf-8").count('name = "towpath"') == 1


def test_the_map_names_what_is_there() -> None:
    text = taken("README.md: libs/").text
    wanted = {word.rstrip("/") for word in text.split() if re.fullmatch(r"(libs|services)/\w+/", word)}
    there = {
        str(path.relative_to(ROOT))
        for folder in ("libs", "services")
        for path in (ROOT / folder).iterdir()
        if (path / "__init__.py").is_file()
    }
    assert wanted == there


@pytest.mark.parametrize("name", [*PAGES, "CONTRIBUTING.md", "AGENTS.md", *EXAMPLES])
def test_links_between_documents_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target

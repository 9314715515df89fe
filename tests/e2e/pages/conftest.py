"""One platform for the blocks of all pages, and a player of a page that works in a folder of its own."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs_site.page_player import COMMAND_S, PagePlayer, in_time
from tests.support.places import EXAMPLES
from tests.support.platform.pages_platform import PagesPlatform, pages_platform

from towpath import SyncClient
from towpath.cli import main

SAMPLE_TASK = "Please refund order 8812, it arrived broken."
Play = Callable[[str], PagePlayer]


@pytest.fixture(scope="session")
def served() -> Iterator[PagesPlatform]:
    """The platform."""
    with pages_platform() as platform:
        yield platform


class World:
    """What is there when a page begins: a platform with the sample, and what a test adds to it."""

    def __init__(self, platform: PagesPlatform, capfd: pytest.CaptureFixture[str]) -> None:
        self.platform = platform
        self._capfd = capfd

    def ask(self, *words: str) -> Any:
        """Return the document that a command prints."""
        self._capfd.readouterr()
        with in_time():
            code = main([*words, "-o", "json"])
        shown = self._capfd.readouterr()
        assert code == 0, shown
        return json.loads(shown.out)

    def publish(self, name: str, *agents: dict[str, Any], **more: Any) -> None:
        """Publish a network whose agents may answer."""
        members = [{"allow_respond": True, "prompt_template": "You work.", **agent} for agent in agents]
        spec = {"kind": "Network", "name": name, "model": "openai:gpt-5-mini", **more, "agents": members}
        if "swarm" not in more:
            members[0]["is_default"] = True
        Path(f"{name}.network.json").write_text(json.dumps(spec), "utf-8")
        self.ask("networks", "publish", f"{name}.network.json")

    def publish_sample(self) -> None:
        """Publish the sample's network again, in the place of a page's with the same name."""
        self.ask("networks", "publish", str(EXAMPLES / "support" / "network.yaml"))

    def ended(self, message: str = "Where is order 8811?") -> str:
        """Return a run of the sample that has ended."""
        return str(self.ask("run", "support", message)["run_id"])

    def waiting(self) -> tuple[str, str]:
        """Return a run of the sample that waits for a person, and the gate."""
        run_id = str(self.ask("run", "support", SAMPLE_TASK, "--detach")["run_id"])
        until = time.monotonic() + COMMAND_S
        while not (gates := self.ask("gates", "list", "--run", run_id)["gates"]):
            assert time.monotonic() < until, "no gate was opened"
            time.sleep(0.05)
        return run_id, str(gates[0]["gate_id"])

    @contextlib.contextmanager
    def approving(self) -> Iterator[None]:
        """Have a person approve the next call that waits, while the block runs."""

        def approve() -> None:
            until = time.monotonic() + COMMAND_S
            with SyncClient(self.platform.address) as client:
                before = {gate.gate_id for gate in client.gates.list()}
                begun.set()
                while not (new := [gate for gate in client.gates.list() if gate.gate_id not in before]):
                    assert time.monotonic() < until, "no gate was opened"
                    time.sleep(0.05)
                client.gates.approve(new[0].gate_id, reason="looked at")

        begun = threading.Event()
        person = threading.Thread(target=approve)
        person.start()
        begun.wait(COMMAND_S)
        yield
        person.join()


@pytest.fixture
def world(served: PagesPlatform, capfd: pytest.CaptureFixture[str]) -> World:
    """The platform for a test's own commands, with the policy, the sample and the budget that it began with."""
    found = World(served, capfd)
    found.ask("policy", "apply", str(served.data.parent / "policy.yaml"))
    found.publish_sample()
    found.ask("budgets", "lift", "project", "--per-day")  # some pages set one, and agents of others have no price
    return found


@pytest.fixture
def servers(served: PagesPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that speak with the database and the broker find those of the pages' platform."""
    passwords = json.loads((served.data / "nats" / "passwords.json").read_text("utf-8"))
    monkeypatch.setenv("TOWPATH_DATABASE_URL", served.database_url)
    monkeypatch.setenv("TOWPATH_NATS_URL", served.nats_url)
    monkeypatch.setenv("TOWPATH_NATS_USER", "deploy")
    monkeypatch.setenv("TOWPATH_NATS_PASSWORD", passwords["deploy"])


@pytest.fixture
def play(
    served: PagesPlatform,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Play]:
    """Begin a page; every block of it has to be run until the test ends."""
    begun: list[PagePlayer] = []

    def begin(page: str) -> PagePlayer:
        begun.append(PagePlayer(page, capfd))
        return begun[-1]

    monkeypatch.setenv("TOWPATH_SERVER", served.address)
    monkeypatch.chdir(tmp_path)
    yield begin
    assert [block.place for player in begun for block in player.left] == [], "blocks that were not run"

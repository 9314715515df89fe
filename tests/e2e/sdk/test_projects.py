"""A project of `towpath init` runs as docs/projects.md says: its commands are taken from there, as they stand."""

import asyncio
import contextlib
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.docs_site.shell_blocks import shell_commands
from tests.docs_site.taken_blocks import taken
from tests.e2e.test_readme import blocks
from tests.support.cli.printed_documents import PrintedDocuments
from tests.support.places import ROOT
from tests.support.platform.up_in_process import Lines, status_after

from towpath import Client, Policy, PolicyRule, WaitingGate
from towpath.cli import main
from towpath_testing.evaluation.evaluator import EvaluationRequest, evaluate

PAGE = ROOT / "docs" / "projects.md"
TIMEOUT_S = 60


def commands(name: str) -> list[list[str]]:
    """Return the commands of the one block of the page that is called *name*."""
    (block,) = [one.text for one in blocks(PAGE) if one.name == name]
    return [shlex.split(line) for line in block.splitlines()]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one more of everything."""
    folder = tmp_path_factory.mktemp("project")
    (_, *init), (_, there) = commands("init")
    with contextlib.chdir(folder):
        assert main(init) == 0
    with contextlib.chdir(folder / there):
        assert [main(words[1:]) for words in commands("add")] == [0, 0, 0, 0]
        texts = {block.name: block.text for block in blocks(PAGE) if block.name}
        assert Path("policies.yaml").read_text("utf-8").endswith(f"\n{texts['rule']}")
        shown, _, _ = Path("networks/research.yaml").read_text("utf-8").partition("\n")
        assert f"{shown}\n" == taken("docs/projects.md: # yaml-language-server").text
        for file in ("tools/weather_lookup.py", "networks/research.yaml", "networks/research.json"):
            assert Path(file).is_file(), "the command has made it"
            Path(file).write_text(texts[file], "utf-8")
    return folder / there


def test_its_own_tests_pass_without_a_platform(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ((_, *words),) = commands("check")
    whole, one = (command.words[1:] for command in shell_commands(taken("docs/evaluation.md: towpath test\n").text, {}))
    assert [*whole] == words
    monkeypatch.chdir(project)
    assert main([*one, "-o", "json"]) == 0
    (verdicts,) = json.loads(capfd.readouterr().out)["files"]
    assert (verdicts["tests"], verdicts["passed"], verdicts["failed"]) == ("tests/verdicts.yaml", 4, 0)
    assert main([*words, "-o", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [(row["tests"], row["passed"], row["failed"]) for row in found["files"]] == [
        ("pytest", 3, 0), ("tests/evaluation.yaml", 3, 0), ("tests/verdicts.yaml", 4, 0)
    ]  # fmt: skip


def test_a_test_of_one_s_own_files_passes_as_the_page_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["init", "--empty"]) == 0
    assert [main(words[1:]) for words in commands("own-files")] == [0, 0]
    (test,) = [one for one in blocks(PAGE) if one.name == "tests/test_stock.py"]
    assert Path(test.name).read_text() == test.text
    capfd.readouterr()
    assert main(["test", "-o", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [(row["tests"], row["passed"], row["failed"]) for row in found["files"]] == [("pytest", 2, 0)]


def test_schemas_are_listed_printed_and_written(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    place = project / ".towpath" / "schema" / "network.json"
    place.unlink()
    assert [main(words[1:]) for words in commands("schema")] == [0, 0, 0]
    said = capsys.readouterr().out
    assert '"$schema": "https://json-schema.org/draft/2020-12/schema"' in said
    assert ".towpath/schema/network.json" in said
    assert json.loads(place.read_text())["title"] == "Towpath network"


async def refund(address: str) -> tuple[Any, Any]:
    """Have an order refunded, whose call a person approves, and ask for the weather; return both answers."""
    async with Client(address) as client, asyncio.timeout(TIMEOUT_S):
        accepted = await client.submit("support", "Refund order 8812")
        events = client.stream(accepted.run_id)
        verdicts = [await event.approve(reason="checked") async for event in events if isinstance(event, WaitingGate)]
        assert len(verdicts) == 1
        (paid,) = await client.tool_calls(accepted.run_id, "orders.refund")
        assert (paid.status, paid.args["order_id"], paid.agent) == ("succeeded", "8812", "billing")
        assert await accepted.denied_calls() == []
        checked = await client.policy.apply(Policy([PolicyRule("all", effect="allow")]), dry_run=True)
        assert (checked.rules, checked.changed) == (1, True)
        added = await client.policy.put_rule(PolicyRule("none", tool="mail.*", effect="deny"), dry_run=True)
        assert added.rules == 5
        other = await client.submit("research", "What is the weather like in Ghent?")
        return (await client.result(accepted.run_id)).final, (await client.result(other.run_id)).final


async def judged(suite: Path, address: str) -> list[dict[str, Any]]:
    """Return the runs of a suite on the platform."""
    asked = EvaluationRequest(suite=suite, server=address)
    return [line["run"] async for line in evaluate(asked) if "run" in line]


@pytest.mark.prints("up")
def test_up_finds_all_of_it_and_a_run_waits_for_its_approval(
    project: Path, monkeypatch: pytest.MonkeyPatch, printed_documents: PrintedDocuments
) -> None:
    def look(told: Lines) -> None:
        (ready,) = printed_documents.read("up", told.wait_for("gateway_url"))
        assert ready["project"] == str(project / "towpath.yaml")
        assert (Path(ready["policy"]["source"]).name, ready["policy"]["rules"]) == ("policies.yaml", 4)
        refunded, weather = asyncio.run(refund(ready["gateway_url"]))
        assert "Order 8812 is refunded" in refunded["message"]
        assert weather["message"] == "There is rain in Ghent."
        suite = project / "tests" / "evaluation.yaml"
        written = suite.read_text()
        suite.write_text(f"{written}  - {{name: other, input: Refund order 8812, gates: [{{rule: another}}]}}\n")
        try:
            runs = asyncio.run(judged(suite, ready["gateway_url"]))
        finally:
            suite.write_text(written)  # other tests count what it has
        # The order is refunded already, and the tools of a platform remember.
        assert [(run["passed"], len(run["gates"])) for run in runs] == [(False, 1), (True, 1), (True, 0), (False, 1)]
        assert runs[0]["failures"][0].startswith("the answer does not contain '8812': 'Nothing was refunded")
        assert runs[-1]["failures"][1] == "no gate opened for another"

    monkeypatch.chdir(project)
    assert status_after(look, "up", "--port", "auto", "--nats-port", "auto", "--json") == 0

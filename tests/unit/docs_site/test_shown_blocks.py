"""Blocks that nobody runs, and which show something: what the product prints, what it sums up to, where things are."""

import json
import re
from typing import Any
from uuid import UUID

import pytest
from tests.docs_site.taken_blocks import taken
from tests.support.places import ROOT

from towpath.cli.administration.chaos_command import _show
from towpath.cli.shared.output import OutputPrinter
from towpath_contracts import rpc, subjects
from towpath_contracts.decisions.request import FullToolOutput
from towpath_contracts.facts import ToolFinishedFact
from towpath_contracts.problems.registry import problem
from towpath_engine.state.output_shares import cut_output

FOLDERS = ("libs/towpath_engine", "services/towpath_tas")
BESIDE = {"__init__", "expressions", "publish", "replay_diff"}
"""What is on no storey of the engine: it is read, checked or compared there, beside the run machine."""
TIMES = "\N{MULTIPLICATION SIGN}"


def test_the_end_of_a_campaign_is_printed_as_the_tutorial_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    """With the figures that stand there."""
    lines = taken("docs/tutorial.md: fault").text.splitlines()
    left_out = lines.index("…")
    (head, *rows), ends = lines[:left_out], lines[left_out + 1 :]
    _show(campaign([row.split() for row in rows], "\n".join(ends)), OutputPrinter("table"))
    printed = capsys.readouterr().out.splitlines()
    begin = printed.index(head)
    assert [line.rstrip() for line in printed[begin + 1 : begin + 1 + len(rows)]] == rows
    assert printed[-len(ends) :] == ends


def campaign(rows: list[list[str]], ends: str) -> dict[str, Any]:
    """Return the report that has the figures of an output."""
    figures = ("strikes", "lost", "duplicates", "unknown")
    by_fault = {
        name: {
            **dict(zip(figures, map(int, counts[:4]), strict=True)),
            "recovery_s": dict(zip(("p50", "p99"), map(float, counts[4:]), strict=True)),
        }
        for name, *counts in rows
    }
    whole = r"(\d+) kills among (\d+) strikes; (\d+) of (\d+) runs completed .*; (\d+) s, seed (\d+)"
    found = re.search(whole, ends)
    assert found
    numbers = dict(
        zip(("kills", "strikes", "completed", "runs", "seconds", "seed"), map(int, found.groups()), strict=True)
    )
    zeros = {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", ends.splitlines()[1])}
    causes = {cause: int(count) for count, cause in re.findall(r"unknown (\d+) times: (.*)", ends)}
    share = numbers["completed"] / numbers["runs"]
    more = {"matrix": {}, "by_fault": by_fault, "unknown_by_cause": causes, "problems": [], "completed_share": share}
    return {**numbers, **zeros, **more}


def test_what_stands_between_the_parts_of_a_large_result_is_as_the_page_shows_it() -> None:
    shown = taken("docs/tools.md: [").text.strip()
    part, size = re.findall(r"\d+", shown)[:2]
    whole = FullToolOutput(execution_id=UUID(int=7), tool="t", step=1, status="succeeded", text="a" * int(size))
    (line,) = [one for one in cut_output(whole, int(part)).text.splitlines() if one.startswith("[…")]
    assert masked(line) == masked(shown)


def masked(text: str) -> str:
    """Return *text* without what differs from call to call: sizes that depend on the id, and the id."""
    return re.sub(r"execution_id [0-9a-f-]+…?:", "execution_id …:", re.sub(r"\d+ of", "… of", text))


def test_a_problem_is_as_its_page_shows_it() -> None:
    shown = json.loads(taken("docs/reference/problems.md: {").text)
    made = json.loads(problem(shown["code"], shown["detail"]).model_dump_json())
    assert {name: made[name] for name in shown} == shown


def test_the_rooms_of_services_and_of_the_engine_are_there() -> None:
    engine, service = (ROOT / name for name in FOLDERS)
    rooms = names_before(taken("docs/architecture.md: replay").text)
    assert [name for name in rooms if not (engine / name).is_dir() and not (engine / f"{name}.py").is_file()] == []
    there = {path.stem for path in engine.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert there == {name.rstrip("/") for name in rooms} | BESIDE
    for name in names_before(taken("docs/architecture.md: __main__.py").text):
        assert (service / name).exists() or (service / name.removesuffix(".py")).is_dir(), name


def names_before(drawn: str) -> list[str]:
    """Return the names in a drawing that stand before what it says of them."""
    return [name for line in drawn.splitlines() for name in line.split("  ")[0].split(", ")]


def test_the_messages_of_a_call_are_those_of_the_contracts() -> None:
    drawn = taken("docs/architecture.md: orchestrator").text
    named = {*re.findall(r"[a-z_]+(?:\.[a-z_<>]+)+", drawn)}
    finished = ToolFinishedFact.model_fields["type"].default
    sent = {subjects.TOOL_REQUEST, subjects.TOOL_OUTCOME, subjects.tool_exec("<project>", "<toolset>")}
    assert named == {*sent, rpc.CLAIM_START.subject, finished}


def test_what_storage_costs_is_what_the_formulas_of_its_page_say() -> None:
    text = (ROOT / "docs" / "storage.md").read_text("utf-8")
    sentence = (
        rf"([\d,]+) runs of `steps` a day, kept (\d+) days, are .* {TIMES} ([\d,]+) / .* = ([\d.]+) GB: at ([\d.]+) USD"
    )
    told = re.search(sentence, text)
    assert told
    runs, days, size, gigabytes, price = (float(one.replace(",", "")) for one in told.groups())
    values = {"runs a day": runs, "days kept": days, "bytes per run": size, "10⁹": 1e9}
    values |= {"price of a GB and month": price, "copies of the database": 0.0}
    found = dict[str, float]()
    for line in taken("docs/storage.md: GB =").text.splitlines():
        name, _, formula = line.partition(" = ")
        for words, value in {**values, **found}.items():
            formula = re.sub(rf"(?<![\w]){re.escape(words)}(?![\w])", str(value), formula)
        found[name] = eval(formula.replace(TIMES, "*"))
    assert round(found["GB"], 1) == gigabytes
    assert f"{found['cost a month']:.2f} USD a month" in text

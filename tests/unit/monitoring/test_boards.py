"""The boards of deploy/monitoring: they ask for what there is, and lead to pages of the console."""

import json
import re
import runpy
from typing import Any

import pytest
from tests.support.monitoring.promql import faults
from tests.support.places import ROOT
from tests.unit.monitoring.test_alert_rules import MONITORING, RECORDED

from towpath_console.pages import PAGES

FILES = sorted((MONITORING / "boards").glob("*.json"))
BOARDS: list[dict[str, Any]] = [json.loads(path.read_text("utf-8")) for path in FILES]
PANELS = [(board["uid"], panel) for board in BOARDS for panel in board["panels"]]


def test_the_files_are_those_that_the_script_writes() -> None:
    script = runpy.run_path(str(MONITORING / "make_boards.py"))
    assert {path.stem: path.read_text("utf-8") for path in FILES} == {
        name: script["text"](name) for name in script["BOARDS"]
    }, "run: python deploy/monitoring/make_boards.py"


def test_boards_have_a_uid_each_and_panels_have_an_id_each_and_no_other_s_place() -> None:
    assert len({board["uid"] for board in BOARDS}) == len(BOARDS) == 4
    for board in BOARDS:
        ids = [panel["id"] for panel in board["panels"]]
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
        assert len(set(ids)) == len(ids) == len(set(places))
        [source] = [one["name"] for one in board["templating"]["list"] if one["type"] == "datasource"]
        assert source == "DS_PROMETHEUS"


@pytest.mark.parametrize("panel", [panel for _, panel in PANELS], ids=[f"{uid} {one['title']}" for uid, one in PANELS])
def test_a_panel_says_what_it_shows_and_asks_for_what_there_is(panel: dict[str, Any]) -> None:
    assert panel["title"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
    [target] = panel["targets"]
    assert panel["datasource"]["uid"] == target["datasource"]["uid"] == "${DS_PROMETHEUS}"
    assert faults(target["expr"], RECORDED) == []
    shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    grouped = {label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(", ")}
    assert not grouped or shown <= grouped, "a legend can only name labels that are left"
    for link in panel["fieldConfig"]["defaults"]["links"]:
        path = re.sub(r"\$\{__field\.labels\.\w+\}", "x", link["url"].removeprefix("${console}")).partition("?")[0]
        known = [re.sub(r"\{[^}]*\}", "[^/]+", one.path) for one in PAGES]
        assert any(re.fullmatch(pattern, path) for pattern in known), f"the console has no page {path}"


def test_the_boards_are_named_where_people_look_for_them() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    for board in BOARDS:
        assert board["title"].removeprefix("Towpath: ") in page

"""The rules of deploy/monitoring: they ask for what there is, and each alert is explained and tried."""

import re
import subprocess
from typing import Any

import pytest
import yaml
from tests.support.monitoring.promql import faults
from tests.support.places import ROOT

from towpath_orchestrator.app import operating_gauges
from towpath_tas.app import queue_gauges
from towpath_tas.core.seal_times import MAX_CLOCK_DIFFERENCE

MONITORING = ROOT / "deploy" / "monitoring"
GROUPS = yaml.safe_load((MONITORING / "rules.yaml").read_text("utf-8"))["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
PAGE = (ROOT / "docs" / "alerts.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.get("alert", rule.get("record"))))
def test_a_rule_asks_for_metrics_and_labels_that_processes_have(rule: dict[str, Any]) -> None:
    assert faults(rule["expr"], RECORDED) == []


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("towpath_nothing > 0", "no process tells towpath_nothing"),
        ('towpath_gates_pending{kind="x"}', "towpath_gates_pending has no label kind"),
        ("sum by (kind) (towpath_gates_pending)", "nothing has a label kind"),
        ("rate(towpath_run_seconds[5m])", "no process tells towpath_run_seconds"),
        ("1 > 0", "it asks for no metric"),
    ],
)
def test_an_expression_that_asks_for_what_is_not_there_is_noticed(expression: str, fault: str) -> None:
    assert faults(expression) == [fault]


def test_each_alert_has_its_section_and_points_to_it() -> None:
    assert set(ALERTS) == {name for name in SECTIONS if name.startswith("Towpath")}
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"
        assert {"summary", "description"} <= rule["annotations"].keys()
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert "**What to do.**" in SECTIONS[name] and f"`{rule['labels']['severity']}`" in SECTIONS[name], name


def test_each_alert_is_tried_where_it_fires_and_where_it_does_not() -> None:
    tried = yaml.safe_load((MONITORING / "rules_test.yaml").read_text("utf-8"))["tests"]
    found = {(one["alertname"], bool(one["exp_alerts"])) for test in tried for one in test["alert_rule_test"]}
    assert found == {(name, fires) for name in ALERTS for fires in (True, False)}


def test_what_is_said_of_clocks_is_when_sealing_stops() -> None:
    words = {2: "two", 5: "five", 10: "ten"}
    said = f"rom {words[int(MAX_CLOCK_DIFFERENCE.total_seconds() // 60)]} minutes on"
    assert said in ALERTS["TowpathClockOff"]["annotations"]["description"]
    assert said in SECTIONS["TowpathClockOff"]


def test_gauges_are_read_as_often_as_prometheus_scrapes() -> None:
    """Less often, an alert would end a scrape later than it could; more often costs queries that nobody sees."""
    scrapes = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))
    every = f"{operating_gauges.EVERY_S:.0f}s"
    assert every == f"{queue_gauges.EVERY_S:.0f}s" == scrapes["global"]["scrape_interval"]


@pytest.mark.parametrize(
    "said", ["check rules rules.yaml", "check config prometheus.yml", "test rules rules_test.yaml"]
)
def test_promtool_accepts(said: str) -> None:
    done = subprocess.run(["promtool", *said.split()], cwd=MONITORING, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

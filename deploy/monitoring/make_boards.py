"""Writes the boards for Grafana beside this file: `python deploy/monitoring/make_boards.py`.

Classic JSON, which every version imports. The data source is the variable DS_PROMETHEUS, and the address of the console
is one too, so that panels lead to its pages.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
WIDTH, HEIGHT, ACROSS = 8, 7, 3


class Panel(NamedTuple):
    """One chart: what it asks, in which unit, what a line is called, and the page of the console that has more."""

    title: str
    about: str
    expression: str
    unit: str = "short"
    legend: str = ""
    page: str = ""


BOARDS: dict[str, tuple[str, tuple[Panel, ...]]] = {
    "platform": (
        "Towpath: Platform",
        (
            Panel(
                "Processes that answer", "1 where Prometheus reached it.", 'up{job="towpath"}', "short", "{{instance}}"
            ),
            Panel(
                "Servers",
                "0 where a process can't use it.",
                "min by (server) (towpath_server_up)",
                "short",
                "{{server}}",
            ),
            Panel("Clocks", "How far from Postgres.", "towpath_clock_offset_seconds", "s", "{{instance}}"),
            Panel(
                "HTTP requests",
                "By status.",
                "sum by (status) (rate(towpath_gateway_requests_total[5m]))",
                "reqps",
                "{{status}}",
            ),
            Panel(
                "Time to answer, p95",
                "Streams excluded.",
                "histogram_quantile(0.95, sum by (le, route) (rate(towpath_gateway_request_seconds_bucket[5m])))",
                "s",
                "{{route}}",
            ),
            Panel(
                "5xx of the last hour", "The objective is 0.1 %.", "towpath:api_errors:ratio1h", "percentunit", "5xx"
            ),
            Panel(
                "Messages that wait",
                "For services, by queue.",
                "max by (stream, consumer) (towpath_queue_waiting)",
                "short",
                "{{stream}} {{consumer}}",
                "/queues",
            ),
            Panel(
                "Oldest message",
                "By stream.",
                "max by (stream) (towpath_stream_oldest_seconds)",
                "s",
                "{{stream}}",
                "/queues",
            ),
            Panel(
                "Streams",
                "A full queue refuses new messages.",
                "max by (stream) (towpath_stream_used_ratio)",
                "percentunit",
                "{{stream}}",
                "/queues",
            ),
            Panel(
                "Dead letters",
                "Open ones.",
                "max by (stream) (towpath_dead_letters_open)",
                "short",
                "{{stream}}",
                "/queues",
            ),
            Panel(
                "Commit, p95",
                "One transaction of many runs.",
                "histogram_quantile(0.95, sum by (le) (rate(towpath_commit_seconds_bucket[5m])))",
                "s",
                "commit",
            ),
            Panel(
                "Since housekeeping",
                "Partitions made, old rows removed.",
                "time() - max by (task) (towpath_housekeeping_success_timestamp_seconds)",
                "s",
                "{{task}}",
            ),
        ),
    ),
    "runs": (
        "Towpath: Runs & cost",
        (
            Panel(
                "Active", "Runs that hold room.", "max(towpath_runs_active)", "short", "active", "/runs?status=running"
            ),
            Panel(
                "Queued",
                "Runs that wait for room.",
                "max(towpath_runs_queued)",
                "short",
                "queued",
                "/runs?status=queued",
            ),
            Panel(
                "Waiting",
                "Runs that wait for people.",
                "max(towpath_runs_waiting)",
                "short",
                "waiting",
                "/runs?status=waiting",
            ),
            Panel(
                "Ends",
                "Runs that ended, by status.",
                "sum by (status) (rate(towpath_runs_finished_total[5m]))",
                "ops",
                "{{status}}",
                "/runs?status=${__field.labels.status}",
            ),
            Panel(
                "Failures",
                "Of half an hour.",
                "towpath:run_failures:ratio30m",
                "percentunit",
                "failed",
                "/runs?status=failed",
            ),
            Panel(
                "Quarantined",
                "They take no step.",
                "max(towpath_runs_quarantined)",
                "short",
                "quarantined",
                "/runs?status=quarantined",
            ),
            Panel(
                "Time of runs, p95",
                "Waits included.",
                "histogram_quantile(0.95, sum by (le, kind) (rate(towpath_run_seconds_bucket[30m])))",
                "s",
                "{{kind}}",
            ),
            Panel(
                "Time of a step, mean",
                "Time of ended runs by their steps, waits included.",
                "sum(rate(towpath_run_seconds_sum[30m])) / sum(rate(towpath_run_steps_sum[30m]))",
                "s",
                "step",
            ),
            Panel(
                "Decisions, p95",
                "From request to stored fact.",
                "histogram_quantile(0.95, sum by (le, provider) (rate(towpath_decision_seconds_bucket[5m])))",
                "s",
                "{{provider}}",
            ),
            Panel(
                "Tokens",
                "That models read and wrote.",
                "sum by (provider, kind) (rate(towpath_model_tokens_total[5m]))",
                "short",
                "{{provider}} {{kind}}",
                "/costs",
            ),
            Panel(
                "Money",
                "Of a day, where the price is known.",
                "sum by (provider) (increase(towpath_model_cost_usd_total[1d]))",
                "currencyUSD",
                "{{provider}}",
                "/costs",
            ),
            Panel(
                "Budgets",
                "The limit that is used most.",
                "towpath:budget_used:max",
                "percentunit",
                "{{unit}}",
                "/costs",
            ),
        ),
    ),
    "pools": (
        "Towpath: Tool pools",
        (
            Panel(
                "Workers",
                "That take calls.",
                "max by (project, toolset) (towpath_pool_workers)",
                "short",
                "{{project}} {{toolset}}",
                "/workers",
            ),
            Panel(
                "Calls that wait",
                "For a worker.",
                "max by (project, toolset) (towpath_pool_waiting)",
                "short",
                "{{project}} {{toolset}}",
                "/queues",
            ),
            Panel(
                "Oldest call",
                "That waits.",
                "max by (project, toolset) (towpath_pool_oldest_seconds)",
                "s",
                "{{project}} {{toolset}}",
                "/queues",
            ),
            Panel(
                "Under way",
                "Taken and not ended.",
                "max by (project, toolset) (towpath_pool_in_flight)",
                "short",
                "{{project}} {{toolset}}",
                "/workers",
            ),
            Panel(
                "Time of calls, p95",
                "By tool.",
                "histogram_quantile(0.95, sum by (le, tool) (rate(towpath_worker_call_seconds_bucket[5m])))",
                "s",
                "{{tool}}",
                "/tools/${__field.labels.tool}",
            ),
            Panel(
                "Outcomes",
                "By tool and status.",
                "sum by (tool, status) (rate(towpath_worker_outcomes_total[5m]))",
                "ops",
                "{{tool}} {{status}}",
                "/tools/${__field.labels.tool}",
            ),
            Panel(
                "Ends by effect class",
                "As the ledger has them.",
                "sum by (status, effect_class) (rate(towpath_tas_outcomes_total[5m]))",
                "ops",
                "{{effect_class}} {{status}}",
            ),
            Panel(
                "Slots held too long",
                "By calls whose time is over.",
                "sum by (instance) (towpath_worker_overrun)",
                "short",
                "{{instance}}",
                "/workers",
            ),
            Panel(
                "Sources",
                "0 where what tools come from is away.",
                "min by (toolset) (towpath_worker_source_up)",
                "short",
                "{{toolset}}",
                "/tools",
            ),
        ),
    ),
    "approvals": (
        "Towpath: Approvals & audit",
        (
            Panel(
                "Gates",
                "That wait for people.",
                "max by (type) (towpath_gates_pending)",
                "short",
                "{{type}}",
                "/approvals",
            ),
            Panel(
                "Oldest gate",
                "The objective is an hour.",
                "max by (type) (towpath_gates_oldest_seconds)",
                "s",
                "{{type}}",
                "/approvals",
            ),
            Panel(
                "Unknown effects",
                "Calls that may have happened.",
                'max(towpath_gates_pending{type="unknown_effect"})',
                "short",
                "unknown",
                "/approvals",
            ),
            Panel(
                "Decisions",
                "By verdict.",
                "sum by (verdict) (rate(towpath_tas_decisions_total[5m]))",
                "ops",
                "{{verdict}}",
                "/audit?verdict=${__field.labels.verdict}",
            ),
            Panel(
                "Denials",
                "A second, over ten minutes.",
                "towpath:denials:rate10m",
                "ops",
                "denied",
                "/audit?verdict=deny",
            ),
            Panel(
                "Policies refused",
                "Stored rules that are not those of their version.",
                "sum(increase(towpath_tas_policy_refusals_total[1h]))",
                "short",
                "refused",
                "/policy",
            ),
            Panel("Not sealed", "Entries of the audit.", "max(towpath_audit_unsealed)", "short", "entries", "/audit"),
            Panel(
                "Oldest not sealed",
                "A second is usual.",
                "max(towpath_audit_unsealed_oldest_seconds)",
                "s",
                "oldest",
                "/audit",
            ),
            Panel(
                "Sealed",
                "Entries a second.",
                "sum(rate(towpath_tas_audit_leaves_total[5m]))",
                "ops",
                "sealed",
                "/audit",
            ),
        ),
    ),
}


def board(name: str) -> dict[str, Any]:
    """Return the board *name* as Grafana imports it."""
    title, panels = BOARDS[name]
    variables = [
        {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {"name": "console", "label": "Console", "type": "textbox", "query": "http://127.0.0.1:8787"},
    ]
    return {
        "uid": f"towpath-{name}",
        "title": title,
        "tags": ["towpath"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    links = [{"title": "Console", "url": "${console}" + panel.page, "targetBlank": True}] if panel.page else []
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": number % ACROSS * WIDTH, "y": number // ACROSS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "links": links}, "overrides": []},
        "targets": [{"refId": "A", "datasource": SOURCE, "expr": panel.expression, "legendFormat": panel.legend}],
    }


def text(name: str) -> str:
    """Return the file of the board *name*."""
    return json.dumps(board(name), indent=1) + "\n"


if __name__ == "__main__":
    (HERE / "boards").mkdir(exist_ok=True)
    for each in BOARDS:
        (HERE / "boards" / f"{each}.json").write_text(text(each), "utf-8")

"""What callers of the SDK and of the command line get who say nothing: no switch is on, pages are those of HTTP."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.documented_limits import promise
from tests.support.wire_limits import FILE, written

import towpath
from towpath.cli.access.audit_commands import AuditFilterOptions
from towpath.cli.access.budgets_commands import set_budget
from towpath.cli.access.costs_command import costs
from towpath.cli.access.erasures_commands import list_erasures
from towpath.cli.access.policy_commands import log, versions
from towpath.cli.administration.chaos_command import chaos
from towpath.cli.administration.queues_commands import lag, list_letters
from towpath.cli.evaluation.eval_command import eval_suites
from towpath.cli.runs.runs_commands import events, list_runs, watch
from towpath.client.budgets import BudgetResource
from towpath.client.client import Client
from towpath.client.handles.sync_runs import SyncSubmittedRun
from towpath.client.policy import PolicyResource
from towpath.client.resources import GateResource
from towpath.client.submitted_run import RunClient, SubmittedRun
from towpath.tasks.mounts import HostMount
from towpath.tools.egress_rules import EgressLimits
from towpath.tools.sandbox import Sandbox
from towpath_contracts.budgets import Budget
from towpath_embedded.chaos.options import ChaosOptions, campaign_settings
from towpath_testing.evaluation.evaluator import EvaluationRequest

ON = {
    "Client.stream(detailed)": "the stream tells typed events unless plain ones are asked for",
    "SubmittedRun.stream(detailed)": "the same",
    "SyncClient.stream(detailed)": "the same",
    "SyncSubmittedRun.stream(detailed)": "the same",
    "GateResource.list(paused)": "calls that a switch holds are waiting, too",
    "GateResource.page(paused)": "the same",
    "traced_run(whole)": "entries are all that there are unless their reader says otherwise",
    "show_proposal(all_of_it)": "a short form is what is asked for",
}
"""Switches that are on where nobody says otherwise, and why."""


def switches() -> Iterator[tuple[str, bool]]:
    """Return each argument of a public function, method or class whose default is a switch."""
    for found in pkgutil.walk_packages(towpath.__path__, "towpath."):
        if found.name.endswith(".__main__"):
            continue
        module = importlib.import_module(found.name)
        for name, held in vars(module).items():
            if getattr(held, "__module__", None) == found.name and not name.startswith("_"):
                yield from _of(name, held)


def _of(name: str, held: object) -> Iterator[tuple[str, bool]]:
    if inspect.isclass(held):
        methods = {part: method for part, method in vars(held).items() if inspect.isfunction(method)}
        yield from (
            pair
            for part, method in methods.items()
            if not part.startswith("_") or part == "__init__"
            for pair in _arguments(name if part == "__init__" else f"{name}.{part}", method)
        )
    elif inspect.isfunction(held):
        yield from _arguments(name, held)


def _arguments(name: str, function: object) -> Iterator[tuple[str, bool]]:
    for argument in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if isinstance(argument.default, bool):
            yield f"{name}({argument.name})", argument.default


SWITCHES = dict(switches())


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_that_nobody_gave_is_off(name: str) -> None:
    assert SWITCHES[name] is (name in ON), ON.get(name)


def test_the_switches_that_are_on_are_there() -> None:
    assert ON.keys() - SWITCHES.keys() == set()
    assert len(SWITCHES) > 40


def default(function: object, argument: str) -> object:
    return inspect.signature(function).parameters[argument].default  # type: ignore[arg-type]


HTTP = written(FILE.read_text("utf-8"))
PAGES = [
    (AuditFilterOptions, "GET /v1/audit limit"),
    (list_letters, "GET /v1/dead-letters limit"),
    (list_erasures, "GET /v1/erasures limit"),
    (GateResource.list, "GET /v1/gates limit"),
    (GateResource.page, "GET /v1/gates limit"),
    (list_runs, "GET /v1/runs limit"),
    (PolicyResource.versions, "GET /v1/policy/versions limit"),
    (PolicyResource.changes, "GET /v1/policy/changes limit"),
    (versions, "GET /v1/policy/versions limit"),
    (log, "GET /v1/policy/changes limit"),
]


@pytest.mark.parametrize(("function", "operation"), PAGES, ids=lambda part: getattr(part, "__qualname__", ""))
def test_a_page_has_as_many_entries_as_over_http(function: object, operation: str) -> None:
    assert default(function, "limit") == int(HTTP[operation]["default"])


LOGS = [Client.events, RunClient.events, SubmittedRun.events, SyncSubmittedRun.events, events, watch]


@pytest.mark.parametrize("function", [costs, BudgetResource.costs], ids=lambda part: part.__qualname__)
def test_who_says_no_time_reads_the_costs_of_as_many_days_as_over_http(function: object) -> None:
    assert default(function, "since") == HTTP["GET /v1/costs since"]["default"]


@pytest.mark.parametrize("function", LOGS, ids=lambda part: part.__qualname__)
def test_who_names_no_place_reads_a_log_from_its_beginning(function: object) -> None:
    assert default(function, "after") == 0


def test_an_evaluation_without_options_runs_each_case_once_asks_whom_it_must_and_lets_none_fail() -> None:
    asked = EvaluationRequest(suite=Path("suite.yaml"))
    assert (asked.repeat, asked.offline) == (default(eval_suites, "repeat"), False) == (1, False)
    assert default(eval_suites, "min_pass") == 1


def test_a_queue_in_which_anything_waits_lags_unless_it_may() -> None:
    assert default(lag, "over") == 0


def test_towpath_chaos_without_options_is_that_of_its_programs() -> None:
    assert (default(chaos, "runs"), default(chaos, "seed")) == (ChaosOptions().runs, ChaosOptions().seed)
    assert campaign_settings(ChaosOptions()).seed == default(chaos, "seed")


def test_a_run_is_warned_at_the_share_of_a_budget_that_networks_have_too() -> None:
    assert default(set_budget, "soft") == Budget.model_fields["soft"].default
    assert promise("budgets.md", "At {} % of a limit (`soft`)", 100 * Budget.model_fields["soft"].default).holds


def test_programs_in_a_sandbox_have_the_limits_of_the_page() -> None:
    sandbox = Sandbox()
    kernel = f"{sandbox.max_processes}, {sandbox.max_open_files}, {sandbox.max_file_bytes / 1024**3:.3g} GiB"
    assert promise("tools.md", f"the rest of each | {kernel} |").holds
    assert promise("tools.md", f"| {sandbox.max_memory_bytes / 1024**3:.3g} GiB, {sandbox.max_cpu_s} |").holds
    assert promise(
        "tools.md",
        "the program does not run (`sandbox_unavailable`); `preferred`: it runs without; `none` | `required` |",
    ).holds
    assert sandbox.mode == "required"


def test_a_tunnel_of_a_sandbox_ends_when_the_page_says() -> None:
    limits = EgressLimits()
    assert promise("tools.md", "At once a program may have {} connections", limits.max_connections).holds
    assert promise("tools.md", "each ends after {} MiB, five minutes", limits.max_bytes / 1024**2).holds
    assert promise("tools.md", "five minutes in which nothing goes either way, or an hour").holds
    assert (limits.idle_s, limits.max_s) == (5 * 60, 60 * 60)


def test_a_mount_has_the_room_that_the_platform_takes() -> None:
    assert promise("runs.md", "{} KiB and 500 files in all", HostMount("/", "x").max_bytes / 1024).holds

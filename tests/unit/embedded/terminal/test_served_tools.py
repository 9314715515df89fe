"""What `towpath up` says of files and networks whose tools no worker has."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
import structlog

from towpath.toolbox import functions_without_tool, load_module
from towpath_contracts.base import JsonObject
from towpath_embedded.console import UpConsole
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.terminal.log_notices import LACKS_TOOL, WITHOUT_TOOL, read_at_start, show_log_line, tool_notice
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_fabric.clock import wall
from towpath_worker.wiring import note_files_without_tools

FORGOTTEN = "def find(order: str) -> str:\n    return order\n\n\ndef _rounded() -> None: ...\n"
TOOLS = {"orders.find": "default", "orders.refund": "default", "mail.send": "mail"}


def network(name: str, *tools: str) -> JsonObject:
    return {"name": name, "agents": [{"key": "clerk", "equipped_tools": list(tools)}, {"key": "boss"}]}


def listed(*toolsets: str, name: str = "by hand", state: str = "taking") -> JsonObject:
    """A worker as the gateway lists it."""
    started_at = wall().isoformat().replace("+00:00", "Z")
    return {"name": name, "toolsets": list(toolsets), "state": state, "started_at": started_at}


def offered(*tools: str, toolset: str = "default") -> ServedTools:
    served = ServedTools()
    for tool in tools:
        line = json.dumps({"event": "tool registered", "toolset": toolset, "tool": tool, "status": "unchanged"})
        served.read_log_line("worker-2", line)
    return served


def test_a_module_without_a_tool_names_its_own_public_functions(tmp_path: Path) -> None:
    file = tmp_path / "forgotten.py"
    file.write_text(f"from pathlib import Path\nfrom json import dumps\n{FORGOTTEN}")
    assert functions_without_tool(load_module(str(file))) == ("find",)
    for name, text in (("decorated", "@tool\n"), ("hooked", "@hook('start')\ndef begin(event): ...\n\n")):
        other = tmp_path / f"{name}_tools.py"
        other.write_text(f"from towpath import hook, tool\n\n\n{text}{FORGOTTEN}")
        assert functions_without_tool(load_module(str(other))) is None


def test_a_worker_warns_of_files_without_a_tool_and_up_names_them_with_their_functions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forgotten, served = tmp_path / "left.py", tmp_path / "right.py"
    forgotten.write_text(FORGOTTEN)
    served.write_text(f"from towpath import tool\n\n\n@tool\n{FORGOTTEN}")
    log = structlog.wrap_logger(logging.getLogger("worker"), wrapper_class=structlog.stdlib.BoundLogger)
    note_files_without_tools([str(forgotten), str(served)], log)
    (record,) = caplog.records
    assert WITHOUT_TOOL in record.getMessage() and str(forgotten) in record.getMessage()
    logged = json.dumps({"event": WITHOUT_TOOL, "file": "tools/left.py", "functions": ["find"]})
    told = tool_notice("worker", logged)
    assert told is not None and told.startswith("tools/left.py has no tool: ") and "(find)" in told
    assert "Write @tool there, and save it" in told
    assert tool_notice("tas", logged) is None
    assert tool_notice("worker", f"no JSON: {WITHOUT_TOOL}") is None


def test_many_functions_of_a_file_are_counted() -> None:
    many = [f"one_{number}" for number in range(7)]
    told = tool_notice("worker", json.dumps({"event": WITHOUT_TOOL, "file": "t.py", "functions": many}))
    assert told is not None and "one_4, 2 more)" in told and "one_5" not in told
    none = tool_notice("worker", json.dumps({"event": WITHOUT_TOOL, "file": "t.py", "functions": []}))
    assert none is not None and "it has no function with @tool above it" in none


@pytest.mark.parametrize("line", [{"event": WITHOUT_TOOL, "file": "t.py"}, {"event": LACKS_TOOL, "tool": "t.py"}])
def test_what_workers_lack_is_a_line_of_its_own_at_the_start_and_later(
    line: JsonObject, capsys: pytest.CaptureFixture[str]
) -> None:
    screen, told = UpConsole(as_json=False), {}
    refused = RefusedFiles(screen.refused, lambda _: None)
    read_at_start(screen, refused, ServedTools(), told, "worker", json.dumps(line))
    show_log_line(screen, refused, ServedTools(), (), "worker", json.dumps(line))
    assert capsys.readouterr().out.count("  t.py ") == 2
    (warning,) = told["warnings"]
    assert warning.startswith("t.py ")


def test_a_call_of_a_tool_that_the_worker_lacks_is_told_with_what_to_do() -> None:
    told = tool_notice("worker", json.dumps({"event": LACKS_TOOL, "tool": "orders.find", "toolset": "default"}))
    assert told is not None and told.startswith("orders.find is called, and the worker here has no such tool")
    assert "put @tool above its function again" in told


@pytest.mark.parametrize(
    ("served", "listeners", "lacking"),
    [
        (offered("orders.find", "orders.refund"), {"default": 1}, ()),
        (offered("orders.refund"), {"default": 1}, ("orders.find",)),  # its function lost @tool, or has another name
        (offered("echo", toolset="builtin"), {"default": 0}, ("orders.find", "orders.refund")),  # so did the file
        (offered("echo", toolset="builtin"), {"default": 1}, ()),  # a worker that was started by hand
        (offered("echo", toolset="builtin"), {}, ()),  # nothing is known of its queue
    ],
)
def test_equipped_tools_that_are_registered_and_that_no_worker_has_are_told(
    served: ServedTools, listeners: dict[str, int], lacking: Sequence[str]
) -> None:
    specs = [network("support", "orders.find", "orders.refund", "not.registered")]
    lines = served.untold_lines(specs, TOOLS, listeners)
    assert [line.partition(" ")[0] for line in lines] == list(lacking)
    assert all("is registered, but no worker here has it" in line and "network support" in line for line in lines)
    assert all(("towpath worker MODULE_OR_FILE" in line) is (listeners["default"] == 0) for line in lines)
    assert served.untold_lines(specs, TOOLS, listeners) == [], "it is told once"


def test_a_tool_that_a_worker_started_by_hand_may_have_is_not_told_until_that_worker_is_gone() -> None:
    served, specs = offered("orders.refund"), [network("support", "orders.find")]
    assert served.workers == {"worker-2"}
    assert served.untold_lines(specs, TOOLS, {"default": 2}, [listed("default"), listed("default", state="gone")]) == []
    (line,) = served.untold_lines(specs, TOOLS, {"default": 1}, [listed("builtin")])
    assert line.startswith("orders.find is registered, but no worker here has it")


@pytest.mark.parametrize("state", ["gone", "draining", "drained"])
def test_a_worker_that_takes_no_calls_counts_for_none(state: str) -> None:
    served, specs = offered("orders.refund"), [network("support", "orders.find")]
    assert len(served.untold_lines(specs, TOOLS, {"default": 1}, [listed("default", state=state)])) == 1


def test_a_tool_whose_own_workers_are_drained_is_told() -> None:
    served, specs = offered("orders.refund"), [network("support", "orders.refund")]
    own, other = listed("default", name="worker-2", state="drained"), listed("default")
    before = own | {"started_at": "2026-11-22T00:00:00Z"}
    for taken in ([own | {"state": "taking"}], [own, own | {"state": "taking"}], [own, other], [before], []):
        assert served.untold_lines(specs, TOOLS, {"default": 0}, taken) == []
    (line,) = served.untold_lines(specs, TOOLS, {"default": 0}, [own, other | {"state": "gone"}])
    assert line == (
        "orders.refund is registered, but the worker here that has it is drained, so calls of network support would "
        "wait: press r in the terminal of towpath up; or start the worker that has it: towpath worker MODULE_OR_FILE"
    )


def test_what_a_replaced_worker_offered_is_forgotten_and_taken_back_where_it_stays() -> None:
    served, specs = offered("orders.refund"), [network("support", "orders.refund")]
    offer = served.forget("worker-2")
    assert offer == {"default": {"orders.refund"}}
    assert len(served.untold_lines(specs, TOOLS, {"default": 0})) == 1
    served.recall("worker-2", offer)
    assert served.untold_lines(specs, TOOLS, {"default": 0}) == []
    assert served.forget("worker-3") == {}


def test_a_tool_of_no_network_is_not_told_and_one_that_is_lost_again_is() -> None:
    served = offered("orders.refund")
    assert served.untold_lines([network("support", "orders.refund")], TOOLS, {}) == []
    both = [network("desk", "orders.find"), network("support", "orders.find")]
    (line,) = served.untold_lines(both, TOOLS, {})
    assert "calls of networks desk, support would wait" in line
    assert served.untold_lines(both, {}, {}) == [], "it was withdrawn"
    assert len(served.untold_lines(both, TOOLS, {})) == 1


def test_the_start_counts_warnings_beside_refused_files(capsys: pytest.CaptureFixture[str]) -> None:
    state = dict.fromkeys(("gateway_url", "nats_url", "database_url", "data", "logs"), "x")
    loaded = {"networks": 1, "agents": 1, "tools": 2}
    for refused, warnings, shown in ((0, 1, "1 warning: see above"), (1, 2, "1 file refused, 2 warnings: see above")):
        counted = {**loaded, "refused": refused, "warnings": warnings}
        UpConsole(as_json=False).ready({**state, "loaded": counted, "processes": {}}, seconds=1, ephemeral=False)
        assert shown in capsys.readouterr().out


@pytest.mark.parametrize(
    ("networks", "stayed", "shown"),
    [
        (0, 1, "1 network as published before  "),
        (0, 2, "2 networks as published before  "),
        (1, 2, "1 network and 2 as published before · 1 agent · 2 tools"),
    ],
)
def test_the_start_does_not_say_that_there_is_no_network_where_an_earlier_one_goes_on(
    capsys: pytest.CaptureFixture[str], networks: int, stayed: int, shown: str
) -> None:
    state = dict.fromkeys(("gateway_url", "nats_url", "database_url", "data", "logs"), "x")
    counted = {"networks": networks, "agents": 1, "tools": 2, "stayed": stayed, "refused": stayed}
    UpConsole(as_json=False).ready({**state, "loaded": counted, "processes": {}}, seconds=1, ephemeral=False)
    assert shown in capsys.readouterr().out

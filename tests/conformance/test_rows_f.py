"""Features F2, F7 and F8: what the card names, and where it is."""

import ast
import importlib
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import ValidationError
from tests.support.places import ROOT

from towpath_contracts.canonical import digest
from towpath_contracts.decisions.decision import CallToolsInstruction, ToolCall, decision_adapter
from towpath_contracts.tools.calls import ToolRequest

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_f2_instruction_decision_and_tool_request_are_contracts() -> None:
    """Row F2: contracts library with Instruction, Decision, ToolRequest."""
    said = {"action": "USE_TOOL", "action_reasoning": "look", "action_details": {"tool_name": "echo"}}
    assert decision_adapter.validate_python(said).action == "USE_TOOL"
    with pytest.raises(ValidationError):
        decision_adapter.validate_python({**said, "mood": "good"})
    call = ToolCall(execution_id=uuid4(), call_index=0, tool="echo", args={"text": "a"}, system_params=())
    instruction = CallToolsInstruction(calls=(call,))
    assert CallToolsInstruction.model_validate_json(instruction.model_dump_json()) == instruction
    request: dict[str, Any] = {
        "execution_id": call.execution_id,
        "run_id": uuid4(),
        "project": "shop",
        "network": "support",
        "snapshot_digest": digest({}),
        "agent_key": "billing",
        "caller": "ann",
        "step": 1,
        "call_index": 0,
        "tool": "echo",
        "toolset": "sample",
        "args": call.args,
        "fence": 0,
        "deadline": datetime(2026, 11, 22, tzinfo=UTC),
    }
    sent = ToolRequest.model_validate(request)
    assert ToolRequest.model_validate_json(sent.model_dump_json()) == sent
    with pytest.raises(ValidationError):
        ToolRequest.model_validate({name: value for name, value in request.items() if name != "execution_id"})


def test_f7_the_libraries_of_the_card_are_used_for_what_they_are() -> None:
    """Row F7: each is listed, imported where it belongs, and loads; what it then does, tests of its own show.

    Those are test_a14_…, test_b2_…, tests/unit/repository/test_containers.py, and every scrape of /metrics.
    """
    project = PROJECT
    listed = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    listed += [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    names = {one.split(">")[0].split("[")[0].strip() for one in listed if isinstance(one, str)}
    instrumentation = {f"opentelemetry-instrumentation-{library}" for library in ("asyncpg", "fastapi", "httpx")}
    assert {"google-genai", "opentelemetry-sdk", "prometheus-client", "pytest", "testcontainers"} <= names
    assert instrumentation <= names
    for place, library in (
        ("services/towpath_decider", "google.genai"),
        ("libs/towpath_fabric", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
        ("libs/towpath_fabric", "opentelemetry.instrumentation.asyncpg"),
        ("libs/towpath_fabric", "opentelemetry.instrumentation.fastapi"),
        ("libs/towpath_fabric", "opentelemetry.instrumentation.httpx"),
        ("libs/towpath_fabric", "faststream.nats.opentelemetry"),
        ("libs/towpath_fabric", "prometheus_client"),
        ("tests/support/platform/containers.py", "testcontainers.community.postgres"),
        ("tests/support/platform/containers.py", "testcontainers.core.container"),
    ):
        assert library in imported(ROOT / place), place
        assert importlib.import_module(library).__name__ == library, "without a warning, which would be an error here"


def imported(place: Path) -> set[str]:
    """Return the names of the modules that a file, or any file of a folder, imports."""
    names = set()
    for path in [place] if place.is_file() else place.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Import():
                    names.update(alias.name for alias in node.names)
                case ast.ImportFrom(module=str(module)):
                    names.add(module)
                case ast.Call(
                    func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                    args=[ast.Constant(value=str(module))],
                ):
                    names.add(module)
    return names


def test_f8_the_repository_has_the_folders_of_the_card() -> None:
    """Row F8: services/, libs/, deploy/, tests/, pyproject.toml, Tiltfile, README.md."""
    assert all((ROOT / folder).is_dir() for folder in ("services", "libs", "deploy", "tests"))
    assert all((ROOT / file).is_file() for file in ("pyproject.toml", "Tiltfile", "README.md"))
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    services = {path.name.removeprefix("towpath_") for path in (ROOT / "services").glob("towpath_*") if path.is_dir()}
    assert services >= {"gateway", "orchestrator", "decider", "tas", "worker", "log_writer"}
    assert all((ROOT / "services" / f"towpath_{name}" / "__main__.py").is_file() for name in services)
    assert {f"services/towpath_{name}" for name in services} <= set(packages), "all of them are installed"

"""Reads a block of YAML or JSON as the product reads a file or a request of that kind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from pydantic import BaseModel, TypeAdapter
from tests.docs_site.code_blocks import CodeBlock
from tests.support.places import ROOT

from towpath.cli.definitions.plan_options import read_plan
from towpath.cli.shared.input_files import read_script
from towpath.networks.spec_files import load_network
from towpath.project.mcp_servers import load_servers
from towpath_contracts.events.cloud_events import read_task_event
from towpath_contracts.files.evaluation_suite import EvaluationSuite
from towpath_contracts.networks.child_tools import DelegatedTask
from towpath_contracts.problems.registry import Problem
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.prices.model_price_list import TokenPrice
from towpath_fabric.profiles.policy_profiles import profile_texts
from towpath_gateway.app.routes.budgets import SetBudgetBody
from towpath_gateway.app.routes.runs.threads import ReplyBody
from towpath_orchestrator.adapters.notice_targets import ApprovalNoticesFile
from towpath_orchestrator.adapters.webhooks import WebhookFile
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.expectations import read_expectations
from towpath_tas.core.policy.policy_file import read_policy
from towpath_tas.core.policy.profile_expansion import expand_profile

_MODEL = {"kind": "Network", "name": "page", "model": "scripted:page"}


def read_block(block: CodeBlock, folder: Path) -> None:
    """Read *block*; raises, where the product would refuse it, or where nothing knows what it is."""
    text = block.text
    if block.language == "http":
        request, _, text = text.partition("\n")
        _REQUESTS[request](json.loads(text))
    elif block.language == "json":
        _json(json.loads(text), folder)
    else:
        _yaml(yaml.safe_load(text), text, folder)


def _json(read: Any, folder: Path) -> None:
    if isinstance(read, list):
        read_script(_file(folder, json.dumps(read)))
    elif "specversion" in read:
        read_task_event(read, "/body/")
        SubmitTask.model_validate_json(json.dumps(read["data"]))
    elif "network" in read:
        SubmitTask.model_validate_json(json.dumps(read))
    elif "task" in read:
        DelegatedTask.model_validate_json(json.dumps(read))
    elif "code" in read:
        Problem.model_validate_json(json.dumps(read))
    else:
        raise_unknown(read)


def _yaml(read: Any, text: str, folder: Path) -> None:
    if isinstance(read, list):
        _policy("kind: Policy\nrules:\n" + text)
        return
    kind = next((key for key in _KINDS if key in (read.get("kind"), *read)), None)
    if kind is not None:
        _KINDS[kind](text, folder)
    elif all(isinstance(value, dict) and "input_usd" in value for value in read.values()):
        TypeAdapter(dict[str, TokenPrice]).validate_python(read)
    else:
        raise_unknown(read)


def raise_unknown(read: Any) -> None:
    """Say that a block has no reader here."""
    msg = f"no reader for {str(read)[:80]}: add one to tests/docs_site/block_readers.py"
    raise AssertionError(msg)


def _policy(text: str) -> None:
    whole = expand_profile(text, profile_texts())
    assert not whole.problems, whole.problems
    read = read_policy(whole.text, compile_condition)
    assert not read.problems, read.problems


def _network(text: str, folder: Path) -> None:
    read = {**_MODEL, **yaml.safe_load(text)}
    load_network(_file(folder, yaml.safe_dump(read)))


def _policy_test(text: str, _folder: Path) -> None:
    read = read_expectations(text)
    assert not read.problems, read.problems


def _parsed(kind: type[BaseModel]) -> Callable[[str, Path], None]:
    def read(text: str, _folder: Path) -> None:
        kind.model_validate(yaml.safe_load(text))

    return read


def _chart_values(text: str) -> None:
    chart = ROOT / "deploy" / "chart"
    defaults = yaml.safe_load((chart / "values.yaml").read_text("utf-8"))
    schema = json.loads((chart / "values.schema.json").read_text("utf-8"))
    Draft202012Validator(schema).validate({**defaults, **yaml.safe_load(text)})


def _file(folder: Path, text: str) -> Path:
    path = folder / "block.yaml"
    path.write_text(text, "utf-8")
    return path


_KINDS: dict[str, Callable[[str, Path], None]] = {
    "PolicyTest": _policy_test,
    "Evaluation": _parsed(EvaluationSuite),
    "Policy": lambda text, _: _policy(text),
    "Network": _network,
    "servers": lambda text, folder: _nothing(load_servers(_file(folder, text))),
    "rules": lambda text, _: _policy(text),
    "webhooks": _parsed(WebhookFile),
    "smtp": _parsed(ApprovalNoticesFile),
    "steps": lambda text, folder: _nothing(read_plan(_file(folder, text))),
    "agents": _network,
    "toolPools": lambda text, _: _chart_values(text),
}
"""What a file is known by: its `kind`, or a key at its top."""

_REQUESTS: dict[str, Callable[[Any], object]] = {
    "POST /v1/budgets": SetBudgetBody.model_validate,
    "POST /v1/runs/{id}/messages": ReplyBody.model_validate,
}


def _nothing(_read: object) -> None:
    """Drop what was read: that it could be read is all."""

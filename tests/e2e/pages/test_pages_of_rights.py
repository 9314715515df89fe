"""The blocks of the pages about approvals, policies, budgets, the audit and origins, run as they stand."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.e2e.pages.conftest import Play, World
from tests.support.places import EXAMPLES

from towpath.cli import main

CALL = ("orders.find", "--network", "support", "--as", "billing", "--args", '{"order_id": "8812"}')


def test_approvals(play: Play, world: World) -> None:
    page = play("docs/approvals.md")
    first, second = world.waiting(), world.waiting()
    Path("args.json").write_text(json.dumps({"order_id": "8812", "amount": 10, "reason": "broken"}), "utf-8")
    page.shell({"7c1e": [first[1], second[1]]})
    world.waiting()
    page.shell(read={"2026-11-28T09:30:12.481+00:00/3f9a12bc4d10e87a": lambda out: str(json.loads(out)["listed"])})
    world.ask("keys", "create", "--caller", "mia", "--role", "approver")
    page.shell({"7c1e": world.waiting()[1]})


def test_budgets(play: Play, world: World) -> None:
    page = play("docs/budgets.md")
    page.shell({"7c1e": world.ended()})
    page.python(world.platform.address)
    world.publish("desk", {"key": "teller"})
    assert page.python(world.platform.address)["run"].run_id
    page.request({})
    page.shell()
    world.ask("budgets", "lift", "caller", "ann")


def test_costs(play: Play, world: World) -> None:
    page = play("docs/guides/costs.md")
    page.shell()
    page.python()
    page.shell()
    world.ask("networks", "publish", str(page.file("yaml", "support.yaml")))
    ended = world.ended()
    world.publish_sample()
    page.shell({"7c1e": ended})


def test_policies(play: Play, world: World) -> None:
    page = play("docs/policies.md")
    policy = page.file("yaml", "policy.yaml")
    page.python(world.platform.address)
    page.shell()
    profiled = page.file("yaml", "profiled.yaml")
    assert world.ask("policy", "apply", str(profiled))
    Path("proposed.yaml").write_text(policy.read_text("utf-8"), "utf-8")
    Path("verdicts.yaml").write_text(page.ahead("yaml").text, "utf-8")
    granted = page.ahead("json")
    page.shell()
    page.left.insert(0, granted)
    world.publish("support", {"key": "clerk", "equipped_tools": ["orders.find", "mail.send"]})
    assert page.task()["status"] == "completed"
    world.publish_sample()


def test_audit(play: Play, world: World) -> None:
    page = play("docs/audit.md")
    run = world.ask("tools", "call", *CALL)
    (call,) = run["final"]["results"]
    asked = {"ID": lambda out: str(json.loads(out)["erasures"][0]["erasure_id"])}
    page.shell({"RUN": run["run_id"], "CALL": call["execution_id"]}, read=asked, confirmed="erasures confirm")


def test_securing(play: Play, world: World) -> None:
    page = play("docs/guides/securing.md")
    page.file("yaml", "policies.yaml")
    page.shell(codes={"policy check": 5})
    page.file("json", "grant.json")
    with world.approving():
        page.shell()
    page.shell()
    key = world.ask("keys", "create", "--caller", "ida", "--role", "approver")
    page.shell({"7c1e": world.waiting()[0], "3f9a": key["prefix"]}, confirmed="keys revoke")
    world.ask("switches", "resume", "tool", "orders.refund", "--reason", "it is right")


def test_provenance(play: Play, world: World) -> None:
    page = play("docs/provenance.md")
    Path("mail.txt").write_text("Hello, I am Kim.", "utf-8")
    world.publish("helpdesk", {"key": "clerk"})
    page.shell()
    assert page.task()["status"] == "completed"


def test_mcp(
    play: Play,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Packages of others start from this machine; the server that is called is the platform itself."""
    page = play("docs/mcp.md")
    shutil.copytree(EXAMPLES / "mcp", "examples/mcp")
    page.shell()
    installed(tmp_path / "bin", "uvx", f'exec {Path(sys.executable).parent}/"$1" --local-timezone UTC')
    notes = f"exec {sys.executable} {EXAMPLES / 'mcp' / 'notes.py'}"
    installed(
        tmp_path / "bin", "npx", f'test "$GITHUB_TOKEN" = a-token && test "$2" = @example/github-server && {notes}'
    )
    key = str(world.ask("keys", "create", "--caller", "sheets", "--scope", "runs:read")["key"])
    for name, value in {"GITHUB_TOKEN": "a-token", "SHEETS_TOKEN": key, "TZ_KEY": "a-key"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for folder in ("shown", "project"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "towpath.yaml").write_text("kind: Project\n", "utf-8")
    monkeypatch.chdir(tmp_path / "project")
    sheets, here = "https://sheets.example.com/mcp", f"{re.sub('//.*@', '//', world.platform.address)}/mcp"
    added = page.shell({sheets: here})
    shown = page.take("").text
    monkeypatch.chdir(tmp_path / "shown")
    capfd.readouterr()
    assert main([*added[0].words[1:], "-o", "table"]) == 0
    assert "".join(f"{line.rstrip()}\n" for line in capfd.readouterr().out.splitlines()) == shown
    Path("secrets").mkdir()
    Path("secrets", "sheets").write_text(key, "utf-8")
    file = page.file("yaml", "servers.yaml")
    file.write_text(file.read_text("utf-8").replace(sheets, here), "utf-8")
    assert main(["mcp", "inspect", "servers.yaml", "-o", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    offered = {one["tool"] for one in found["tools"]}
    assert {"time.get_current_time", "time.convert_time"} <= offered, found


def installed(folder: Path, name: str, script: str) -> None:
    """Write a program of this machine that stands for one that would fetch a package."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    (folder / name).chmod(0o700)

"""`policy diff` against brute force: random recorded decisions, evaluated by an oracle that reads the proposed YAML.

`python -m tests.oracles.policy_diff --calls 100000 [--seed 1]` starts a platform, fills its ledger and audit as the
tool-access service does, requests the diff as a client does, and compares every figure and example with the oracle,
which shares no code with the platform. It also prints how fast the diff was and how much it delayed other requests.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid5

import asyncpg
import nats
import yaml
from nats.aio.client import Client
from tests.oracles.matrix import _met, _names
from tests.oracles.policy_texts import DISCOVERED, OPERATIONS, TOOLS, Question, policy_text, question

from towpath_contracts import rpc
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.tools.calls import CallStatus, EffectClass, ToolSpec
from towpath_contracts.tools.policy import MAX_EXAMPLES, MAX_EXAMPLES_AT_ONCE, PolicyImpact, merge_diffs
from towpath_embedded.platform import Platform
from towpath_fabric.ids import new_run_id
from towpath_tas.adapters.ledger_tables import QUERIES, open_calls
from towpath_tas.core.call import CallAuditEntry, LedgerCall, LedgerChange
from towpath_tas.core.tools.registry import spec_digest

LIMITS = ("max_calls_per_run", "rate", "max_cost_per_run_usd")
CHANGES = {"deny": "newly_denied", "allow": "newly_allowed", "require_approval": "newly_gated"}
THEN = (*("allow",) * 5, *("require_approval",) * 2, *("deny",) * 3)
VIOLATIONS = (*("permission_denied",) * 4, "limit_exceeded", "tool_unknown", "invalid_arguments", "not_granted")
BATCH = 500
CALLS_PER_RUN = 7
GATEWAY = b"_INBOX_gateway"

Key = tuple[str, str, str, str, str]


@dataclass(slots=True)
class PolicyClient:
    """Sends requests to the tool-access service of a whole platform, as the gateway does."""

    nc: Client
    project: str

    async def ask(self, method: rpc.RpcMethod, **values: Any) -> Any:
        """Ask; raises RuntimeError for a problem."""
        request = method.request.model_validate(values)
        reply = await self.nc.request(method.subject, request.model_dump_json().encode(), timeout=30)
        if reply.headers and rpc.PROBLEM_HEADER in reply.headers:
            raise RuntimeError(reply.data.decode())
        return method.answer.model_validate_json(reply.data)


@dataclass(slots=True)
class Expected:
    """What the oracle expects for a set of recorded decisions; `rules` are the new rules, by execution."""

    calls: int = 0
    groups: Counter[Key] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    of: dict[UUID, Key] = field(default_factory=dict)
    rules: dict[UUID, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class RecordedCase:
    """One recorded call: the question, the decision, and the rows that the platform would have written."""

    asked: Question
    then: str
    violation: str
    edited: bool
    step: LedgerChange


def without_limits(text: str) -> str:
    """Return the policy as JSON, which is YAML too, without what is never replayed."""
    loaded = yaml.load(text, Loader=yaml.BaseLoader)
    rules = [{key: value for key, value in rule.items() if key not in LIMITS} for rule in loaded["rules"]]
    return json.dumps({"kind": "Policy", "rules": rules})


def new_verdict(text: str, asked: Question) -> tuple[str, str | None]:
    """Return the verdict of the policy about *asked*, and the rule named for it."""
    met = _met(text, asked)
    if met["deny"]:
        return "deny", met["deny"][0]["name"]
    if asked.tool in DISCOVERED:
        met["allow"] = [rule for rule in met["allow"] if _names(rule)]
        if not any(map(_names, met["require_approval"] + met["allow"])):
            return "deny", None
    for effect in ("require_approval", "allow"):
        if met[effect]:
            return effect, met[effect][0]["name"]
    return "deny", None


def evaluate(text: str, made: Sequence[RecordedCase]) -> Expected:
    """Evaluate every recorded call by brute force."""
    found = Expected()
    for one in made:
        why = "edited" if one.edited else one.violation if one.then == "deny" else ""
        if why not in {"", "permission_denied"}:
            found.left_out[why] += 1
            continue
        found.calls += 1
        now, rule = new_verdict(text, one.asked)
        if now != one.then:
            key = (CHANGES[now], one.then, one.asked.network, one.asked.agent, one.asked.tool)
            call = one.step.call
            assert call is not None
            found.groups[key] += 1
            found.of[call.execution_id] = key
            found.rules[call.execution_id] = rule
    return found


def make(dice: random.Random, project: str, run_id: UUID, index: int) -> RecordedCase:
    """Make one recorded call: decided once, or again after its approval drifted or a person said no."""
    asked = question(dice)
    asked.project = project
    then = dice.choice(THEN)
    violation = dice.choice(VIOLATIONS) if then == "deny" else ""
    if asked.tool not in TOOLS:
        then, violation = "deny", "tool_unknown"
    edited = then == "require_approval" and dice.random() < 0.1
    call = recorded_call(asked, run_id, index, then, violation)
    notes = [CallAuditEntry(phase="decision", verdict=then, call=call)]
    if then == "require_approval" and dice.random() < 0.5:
        drifted = dice.random() < 0.5
        again = CallAuditEntry(phase="decision", verdict=dice.choice(("deny", "require_approval")), call=call)
        refused = CallAuditEntry(phase="decision", verdict="deny", call=call, actor="ben")
        notes.append(again if drifted else refused)
    notes.append(CallAuditEntry(phase="outcome", verdict="succeeded", call=call))
    return RecordedCase(
        asked=asked, then=then, violation=violation, edited=edited, step=LedgerChange(call=call, notes=tuple(notes))
    )


def recorded_call(asked: Question, run_id: UUID, index: int, then: str, violation: str) -> LedgerCall:
    """Return the ledger row of a call that was decided like that."""
    text = canonical_json(asked.args)
    status = {"allow": CallStatus.SUCCEEDED, "deny": CallStatus.DENIED}.get(then, CallStatus.AWAITING_APPROVAL)
    return LedgerCall(
        run_id=run_id,
        execution_id=uuid5(run_id, f"call:{index}"),
        project=asked.project,
        network=asked.network,
        snapshot_digest="sha256:snapshot",
        agent_key=asked.agent,
        agent_type=asked.agent_type,
        caller=asked.caller,
        step=asked.step,
        call_index=index,
        tool=asked.tool,
        operation=OPERATIONS.get(asked.tool, "call"),
        toolset=asked.tool.partition(".")[0],
        tool_version=1,
        effect_class=EffectClass.PURE,
        timeout_ms=1_000,
        args=text,
        args_digest=digest_text(text),
        context=json.dumps({"labels": asked.labels} if asked.labels else {}),
        status=status,
        fence=0,
        attempt=1,
        deadline=datetime.now(UTC) + timedelta(minutes=1),
        policy_version=3,
        rule="then",
        approvals=int(then == "require_approval"),
        fact=json.dumps({"denial": {"violation_type": violation}}) if violation else None,
    )


def recorded_cases(count: int, seed: int, project: str) -> list[RecordedCase]:
    """Make *count* recorded calls, some to a run."""
    dice = random.Random(seed)
    calls = []
    for number in range(count):
        if number % CALLS_PER_RUN == 0:
            run_id = new_run_id()
        calls.append(make(dice, project, run_id, number))
    return calls


async def register(connection: Any, project: str) -> None:
    """Register the tools that a server offered by itself: only a rule that names one may open it."""
    await connection.fetchrow(QUERIES.lock_project, project)
    for name in DISCOVERED:
        toolset = name.partition(".")[0]
        spec = ToolSpec(name=name, toolset=toolset, operation=OPERATIONS[name], discovered=True)
        values = (project, name, 1, spec_digest(spec), spec.model_dump_json(), "accepted", "", toolset, "team", "w")
        await connection.execute(QUERIES.add_tool, *values)
    await connection.execute(QUERIES.move_registry, project)


async def write(connection: Any, calls: Sequence[RecordedCase]) -> None:
    """Write recorded calls as the tool-access service writes its batches; some are edited later on."""
    for place in range(0, len(calls), BATCH):
        await open_calls(connection, [one.step for one in calls[place : place + BATCH]], [], [])
    edited = [one.step.call.execution_id for one in calls if one.edited and one.step.call is not None]
    await connection.execute("UPDATE tas.tool_call SET edited_by = 'ben' WHERE execution_id = ANY ($1)", edited)


async def ask(caller: Any, text: str, **more: Any) -> AsyncIterator[PolicyImpact]:
    """Ask for a diff piece by piece."""
    cursor: dict[str, Any] = {}
    while True:
        said = {"project": caller.project, "text": text, "limit": 5_000, **cursor, **more}
        piece = await caller.ask(rpc.DIFF_POLICY, **said)
        yield piece
        if piece.next_after is None:
            return
        cursor = {"after": piece.next_after, "last": piece.last}


def differences(got: PolicyImpact, expected: Expected) -> list[str]:
    """Return what is wrong in *got*."""
    wrong = []
    groups = {group.key: group.calls for group in got.groups}
    if groups != dict(expected.groups):
        wrong.append(f"groups: {set(groups.items()) ^ set(expected.groups.items())}")
    if (got.calls, got.left_out) != (expected.calls, dict(expected.left_out)):
        wrong.append(f"weighed {got.calls}, left out {got.left_out}; not {expected.calls}, {expected.left_out}")
    if got.groups and sum(len(group.examples) for group in got.groups) < min(len(got.groups), MAX_EXAMPLES_AT_ONCE) / 2:
        wrong.append("most differences have no example")
    for group in got.groups:
        if len(group.examples) > min(MAX_EXAMPLES, group.calls):
            wrong.append(f"{group.key}: {len(group.examples)} examples")
        for one in group.examples:
            said = (expected.of.get(one.execution_id), expected.rules.get(one.execution_id), one.rule_then)
            if said != (group.key, one.rule_now, "then"):
                wrong.append(f"example {one.execution_id}: {said}")
    return wrong


def proposed(seed: int, project: str) -> str:
    """Return a random policy that says all three things about random calls."""
    dice = random.Random(seed)
    while True:
        text = policy_text(dice)
        probes = [question(dice) for _ in range(200)]
        for probe in probes:
            probe.project = project
        bare = without_limits(text)
        said = Counter(new_verdict(bare, probe)[0] for probe in probes if probe.tool in TOOLS)
        if len(said) == len(CHANGES) and min(said.values()) > 20:
            return text


async def _probe(url: str) -> list[float]:
    """Ask a small question now and then until stdin ends; returns how long each answer took, in ms."""
    caller = PolicyClient(await nats.connect(url, inbox_prefix=GATEWAY), "nobody")
    took = []
    end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not end.done():
        began = time.perf_counter()
        await caller.ask(rpc.GET_POLICY, project="nobody")
        took.append((time.perf_counter() - began) * 1_000)
        await asyncio.sleep(0.02)
    await caller.nc.close()
    return took


async def _probed(url: str, work: Any) -> tuple[Any, list[float]]:
    """Await *work* while another process asks small questions; returns what came of both."""
    words = (sys.executable, "-m", "tests.oracles.policy_diff", "--probe", url)
    pipe = asyncio.subprocess.PIPE
    probe = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
    await asyncio.sleep(3)  # it has to start, which would disturb what is measured
    result = await work
    told, _ = await probe.communicate(b"")  # ends its stdin
    return result, json.loads(told)


async def _whole(caller: PolicyClient, text: str) -> tuple[PolicyImpact, float]:
    began = time.perf_counter()
    whole = merge_diffs([piece async for piece in ask(caller, text)])
    return whole, time.perf_counter() - began


async def _run(calls: int, seed: int, folder: Path) -> int:
    project = "shop"
    text = proposed(seed, project)
    made = recorded_cases(calls, seed, project)
    noise = recorded_cases(calls // 10, seed + 1, "sales")
    async with Platform(folder, workers=(), starts="fork") as platform:
        connection = await asyncpg.connect(platform.dsn("tas"))
        await register(connection, project)
        await write(connection, noise)
        await write(connection, made)
        await connection.close()
        url = platform.nats_url_of("gateway")
        caller = PolicyClient(await nats.connect(url, inbox_prefix=GATEWAY), project)
        try:
            _, quiet = await _probed(url, asyncio.sleep(5))
            (got, took), busy = await _probed(url, _whole(caller, text))
        finally:
            await caller.nc.close()
    began = time.perf_counter()
    expected = evaluate(without_limits(text), made)
    brute = time.perf_counter() - began
    wrong = differences(got, expected)
    said = {
        "calls": calls,
        "weighed": got.calls,
        "left_out": got.left_out,
        "differences_found": sum(group.calls for group in got.groups),
        "groups": len(got.groups),
        "wrong": wrong[:5],
        "seconds": round(took, 1),
        "calls_per_s": round(calls / took),
        "oracle_seconds": round(brute, 1),
        "other_questions_ms": {
            name: {"p50": round(statistics.median(times), 1), "max": round(max(times), 1), "n": len(times)}
            for name, times in (("before", quiet), ("during", busy))
        },
    }
    sys.stdout.write(json.dumps(said) + "\n")
    return 1 if wrong else 0


def main() -> int:
    """Compare; print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe is not None:
        sys.stdout.write(json.dumps(asyncio.run(_probe(options.probe))))
        return 0
    with TemporaryDirectory(prefix="towpath-diff-") as folder:
        return asyncio.run(_run(options.calls, options.seed, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())

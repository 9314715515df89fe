"""A policy file that a platform follows: which starts apply it, and what of people's changes stays."""

from pathlib import Path

import asyncpg
import structlog
from prometheus_client import CollectorRegistry
from tests.support.tas.tas_caller import OPEN
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_fabric.profiles.policy_profiles import profile_file
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_tas.app.policy.policies import PolicyFileWatcher, PolicyStore
from towpath_tas.app.policy.policy_threads import PolicyThreads
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.metrics import TasMetrics

__all__ = ["shared_tas", "tas"]

CAREFUL = """kind: Policy
rules:
  - {name: small, tool: orders.refund, effect: allow, when: args.amount <= 100}
  - {name: large, tool: orders.refund, effect: require_approval, when: args.amount > 100}
"""


async def test_a_restart_leaves_what_was_changed_since_the_file_was_applied(tas: Running, tmp_path: Path) -> None:
    """A changed file counts, also one that was changed while nobody looked."""
    file, log = tmp_path / "policy.yaml", structlog.get_logger()
    file.write_text(CAREFUL)
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        policies = PolicyStore(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads())

        async def begin() -> int:
            await PolicyFileWatcher(policies, file, tas.caller.project, log).check()
            version: int = (await tas.caller.ask(rpc.GET_POLICY, project=tas.caller.project)).version
            return version

        assert await begin() == 2
        view = await tas.caller.ask(rpc.GET_POLICY, project=tas.caller.project)
        assert [rule["at"] for rule in view.rules] == ["policy.yaml:3", "policy.yaml:4"]
        rule = {"name": "small", "tool": "orders.refund", "effect": "deny"}
        await tas.caller.ask(rpc.CHANGE_RULE, project=tas.caller.project, actor="ann", name="small", rule=rule)
        assert await begin() == 3
        file.write_text(OPEN)
        assert await begin() == 4
        assert (await tas.caller.ask(rpc.GET_POLICY, project=tas.caller.project)).text == OPEN
        file.write_text(CAREFUL)
        assert await begin() == 5


async def test_a_start_with_another_file_or_profile_applies_it_though_its_text_was_applied_before(
    tas: Running, tmp_path: Path
) -> None:
    """What was followed last decides: also where a person had applied the very text, and no new one is needed."""
    log = structlog.get_logger()
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(CAREFUL)
    second.write_text(OPEN)
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        policies = PolicyStore(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads())

        async def begin(file: Path) -> tuple[int, str]:
            await PolicyFileWatcher(policies, file, tas.caller.project, log).check()
            view = await tas.caller.ask(rpc.GET_POLICY, project=tas.caller.project)
            return view.version, view.text

        assert await begin(first) == (2, CAREFUL)
        assert (await begin(profile_file("open")))[0] == 3
        assert await begin(first) == (4, CAREFUL)
        assert await begin(second) == (5, OPEN)
        assert await begin(first) == (6, CAREFUL)
        await tas.caller.apply(OPEN)
        assert await begin(first) == (7, OPEN)  # the same file as before: what a person applied stays
        assert await begin(second) == (8, OPEN)  # the text is in force already; that it is followed now is recorded
        assert await begin(second) == (8, OPEN)
        assert await begin(first) == (9, CAREFUL)
        sources = [
            one.source
            for one in (await tas.caller.ask(rpc.POLICY_VERSIONS, project=tas.caller.project, limit=7)).versions
        ]
        assert sources == [str(first), str(second), "", str(first), str(second), str(first), "profile open"]


async def test_a_file_that_finds_no_turn_is_applied_at_its_next_try(tas: Running, tmp_path: Path) -> None:
    """Whoever has many texts of the project read must not keep its file out until somebody changes it."""
    file, log = tmp_path / "policy.yaml", structlog.get_logger()
    file.write_text(CAREFUL)
    threads = FairThreads(max_wait_s=0.05)
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        policies = PolicyStore(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads(texts=threads))
        watcher = PolicyFileWatcher(policies, file, tas.caller.project, log)
        async with threads.turn(tas.caller.project):
            await watcher.check()
            assert (await tas.caller.ask(rpc.GET_POLICY, project=tas.caller.project)).version == 1
        await watcher.check()
        assert (await tas.caller.ask(rpc.GET_POLICY, project=tas.caller.project)).text == CAREFUL


async def test_a_file_that_was_refused_is_told_of_by_its_name_and_so_is_the_text_in_force(
    tas: Running, tmp_path: Path
) -> None:
    """Whoever shows what was refused goes by the name: it has to hear of it again once the file is as it was."""
    file = tmp_path / "policy.yaml"
    file.write_text(CAREFUL)
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        policies = PolicyStore(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads())
        logs = structlog.testing.LogCapture()
        log = structlog.wrap_logger(None, processors=[logs], wrapper_class=structlog.stdlib.BoundLogger)
        watcher = PolicyFileWatcher(policies, file, tas.caller.project, log)
        for content in (CAREFUL.encode(), b"kind: Policy # \xff", CAREFUL.encode(), b"rules: []", OPEN.encode()):
            file.write_bytes(content)
            await watcher.check()
    told = [(one["event"], one["file"]) for one in logs.entries if one["event"].startswith("policy ") and "file" in one]
    assert [event for event, _ in told if event not in {"policy problem", "policy warning"}] == [
        *("policy applied", "policy refused", "policy unchanged", "policy refused", "policy applied"),
    ]
    assert {name for _, name in told} == {"policy.yaml"}
    assert all(one["kept"] > 0 for one in logs.entries if one["event"] == "policy refused")


async def test_a_first_file_that_is_refused_is_told_to_leave_no_policy_in_force(tas: Running, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        policies = PolicyStore(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads())
        watcher = PolicyFileWatcher(policies, file, "without-a-policy", structlog.get_logger())
        for content in (b"kind: Policy # \xff", b"kind: Policy\nrules: [{name: a, tool: x, efect: allow}]\n"):
            file.write_bytes(content)
            with structlog.testing.capture_logs() as logged:
                await watcher.check()
            assert [one["kept"] for one in logged if one["event"] == "policy refused"] == [0]


async def test_an_empty_file_is_refused_only_where_it_is_still_empty_at_the_next_look(
    tas: Running, tmp_path: Path
) -> None:
    """An editor empties a file before it writes it: what is read in between is no fault of anybody's."""
    file = tmp_path / "policy.yaml"
    file.write_text("")
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        policies = PolicyStore(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads())
        watcher = PolicyFileWatcher(policies, file, tas.caller.project, structlog.get_logger())

        async def refusals() -> list[str]:
            with structlog.testing.capture_logs() as logged:
                await watcher.check()
            return [str(one.get("problem")) for one in logged if one["event"] in {"policy refused", "policy problem"}]

        assert await refusals() == []
        file.write_text(CAREFUL)
        assert await refusals() == []
        assert (await tas.caller.ask(rpc.GET_POLICY, project=tas.caller.project)).text == CAREFUL
        file.write_text("\n")
        assert await refusals() == []
        told = await refusals()
        assert any("the policy is empty" in one for one in told), told
        assert await refusals() == []

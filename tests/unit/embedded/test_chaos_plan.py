"""Plans of strikes, and what an order for them says."""

from collections import Counter
from pathlib import Path

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.chaos.faults import FAULTS, KILLS, named_faults
from towpath_embedded.chaos.options import FULL_KILLS, FULL_RARE, QUICK_KILLS, ChaosOptions, campaign_settings
from towpath_embedded.chaos.plan import LONGEST_DELAY_S, StrikeTrigger, boundaries_of, make_plan
from towpath_embedded.chaos.workload import builtin_workload, default_workloads

PLACES = boundaries_of("net", ["run_created", "call", "call", "run_finished"])


def test_boundaries_are_events_by_type_and_occurrence_without_resends() -> None:
    found = boundaries_of("net", ["call", "effect_resent", "call", "end"])
    assert [(place.event, place.nth) for place in found] == [("call", 1), ("call", 2), ("end", 1)]
    assert found[1] == StrikeTrigger(network="net", event="call", nth=2)
    assert found[1].label == "net call#2"


def test_the_same_seed_gives_the_same_plan_and_another_one_another() -> None:
    first = make_plan(PLACES, KILLS, 40, 7, rare=("wipe.nats",))
    assert first == make_plan(PLACES, KILLS, 40, 7, rare=("wipe.nats",))
    assert first != make_plan(PLACES, KILLS, 40, 8, rare=("wipe.nats",))


def test_a_plan_as_long_as_the_matrix_strikes_with_every_fault_at_every_boundary_once() -> None:
    plan = make_plan(PLACES, KILLS, len(PLACES) * len(KILLS), 1)
    assert Counter((cell.fault, cell.boundary) for cell in plan) == Counter(
        (fault, place) for fault in KILLS for place in PLACES
    )
    assert [cell.number for cell in plan] == list(range(1, len(plan) + 1))
    delays = [cell.delay_s for cell in plan]
    assert not any(delays[1::2])
    assert all(0 < delay < LONGEST_DELAY_S for delay in delays[::2])


def test_a_short_plan_is_spread_over_all_faults_and_a_long_one_goes_on() -> None:
    wide = boundaries_of("net", ["call"] * 30)
    short = Counter(cell.fault for cell in make_plan(wide, KILLS, 3 * len(KILLS), 3))
    assert set(short.values()) == {3}
    long = make_plan(PLACES, KILLS, 100, 3, rare=("wipe.nats", "wipe.nats"))
    assert len(long) == 102
    assert Counter(cell.fault for cell in long)["wipe.nats"] == 2


def test_without_boundaries_or_faults_there_is_nothing_to_strike() -> None:
    assert make_plan((), KILLS, 5, 1, rare=("wipe.nats",)) == ()
    assert make_plan(PLACES, (), 5, 1) == ()


def test_faults_are_named_whole_by_action_or_by_part() -> None:
    names = lambda *words: {fault.name for fault in named_faults(words)[0]}  # noqa: E731 - three uses in three lines
    assert names("kill.tas") == {"kill.tas"}
    assert names("nats", "stop.tas") == {"kill.nats", "wipe.nats", "stop.tas"}
    assert names("kill") == set(KILLS)
    assert names("all") == set(FAULTS)
    assert named_faults(["kill", "mill"])[1] == ["mill"]


def test_an_order_is_quick_full_or_as_large_as_it_says() -> None:
    quick, full = campaign_settings(ChaosOptions(quick=True)), campaign_settings(ChaosOptions())
    assert (quick.strikes, full.strikes) == (QUICK_KILLS, FULL_KILLS)
    assert (set(quick.faults), set(quick.rare)) == (set(KILLS), set(FAULTS) - set(KILLS))
    assert len(full.rare) == FULL_RARE * len(set(full.rare))
    named = campaign_settings(ChaosOptions(kills=5, faults=("stop",), runs=9))
    assert (named.strikes, named.rare, named.bystanders) == (5, (), 9)
    assert all(name.startswith("stop.") for name in named.faults)


def test_every_problem_of_an_order_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "platform").mkdir()
    broken = tmp_path / "net.yaml"
    broken.write_text("name: Bad Name\nagents: 3\n")
    with pytest.raises(ProblemError) as caught:
        campaign_settings(
            ChaosOptions(
                network=broken,
                tools=tmp_path / "none.py",
                faults=("kill", "frob"),
                kills=0,
                runs=-1,
                quick=True,
                long=True,
                data=tmp_path,
            )
        )
    found = Counter(entry.pointer for entry in caught.value.problem.errors)
    assert set(found) == {
        *("/decisions", "/tools", "/faults", "/kills", "/runs", "/long", "/data"),
    }


def test_files_of_a_network_are_checked_together(tmp_path: Path) -> None:
    network, decisions, policy = tmp_path / "net.yaml", tmp_path / "decisions.json", tmp_path / "policy.yaml"
    network.write_text("name: mine\nagents: 3\n")
    decisions.write_text("{")
    policy.write_text("rules: 7\n")
    with pytest.raises(ProblemError) as caught:
        campaign_settings(ChaosOptions(network=network, decisions=decisions, policy=policy))
    listed = [entry.pointer for entry in caught.value.problem.errors]
    assert listed == ["/network", "/decisions", "/policy"]


def test_the_default_networks_pass_every_effect_class_an_approval_and_a_transfer() -> None:
    classes = {str(tool.effect_class) for tool in builtin_workload().tools}
    assert classes == {"pure", "idempotent", "reconcilable", "irreversible"}
    assert {entry["action"] for entry in builtin_workload().script} == {"USE_TOOL", "ROUTE_TO_AGENT", "RESPOND"}
    assert max(len(entry["action_details"].get("calls", ())) for entry in builtin_workload().script) == 3
    assert [workload.name for workload in default_workloads()] == ["crossing", "support"]
    refund = {tool.name: tool for tool in default_workloads()[1].tools}["orders.refund"]
    assert (str(refund.effect_class), refund.toolset) == ("irreversible", "support")
    assert refund.parameters["required"] == ["order_id", "amount"]

"""What has just begun has counted nothing, seen nothing and allowed nothing, unless it is named here with its reason.

A field of a dataclass that a caller may leave out says what holds before anything has happened: a count is 0, a flag is
off. Where something else holds it has to be meant.
"""

import dataclasses
import importlib
import math
import pkgutil
from collections.abc import Iterator

import pytest

from towpath_engine.state.run import RunState, Status
from towpath_worker.app.call import CallStage, WorkerCall

PACKAGES = (
    *("towpath", "towpath_audit", "towpath_contracts", "towpath_readings", "towpath_engine", "towpath_fabric"),
    *("towpath_gateway", "towpath_orchestrator", "towpath_decider", "towpath_tas", "towpath_worker", "towpath_agent"),
    *("towpath_log_writer", "towpath_watchdog", "towpath_embedded"),
)


def beginnings() -> Iterator[tuple[str, int | float | bool]]:
    """Return each field with a number or a switch as its default, by class and name."""
    for package in PACKAGES:
        root = importlib.import_module(package)
        for found in pkgutil.walk_packages(root.__path__, f"{package}."):
            if found.name.rpartition(".")[2] == "__main__":
                continue
            module = importlib.import_module(found.name)
            for held in vars(module).values():
                if isinstance(held, type) and held.__module__ == found.name and dataclasses.is_dataclass(held):
                    yield from (
                        (f"{held.__name__}.{field.name}", field.default)
                        for field in dataclasses.fields(held)
                        if isinstance(field.default, bool | int | float)
                    )


MEANT: dict[str, tuple[int | float | bool, str]] = {
    "AuditFilterOptions.limit": (100, "as over HTTP"),
    "ToolContext.attempt": (1, "the first start of a call is its first attempt"),
    "_CallEntries.last": (-1, "before the first entry, which is number 0"),
    "_CallEntries.leaf": (-1, "before the first leaf, which is number 0"),
    "SealedErasures.confirmations": (True, "an export tells confirmations unless it says that it does not"),
    "SealedPersons.sealed": (True, "nothing unsealed was found yet"),
    "RemoteSpan.sampled": (True, "a caller that does not say otherwise is recorded"),
    "_ModelCall.whole": (True, "no piece is missing yet"),
    "GoalState.attempt": (1, "the first action of a step is its first attempt"),
    "GoalState.succeeded": (True, "no step has failed yet"),
    "PlanRunState.at": (-1, "before the first step, which is number 0"),
    "PendingEffect.call_index": (-1, "no call, the first of which is number 0"),
    "AcceptedWatchdogReport.times": (1, "a report that was taken was taken once"),
    "WorkspaceFile.version": (1, "the first version of a file"),
    "UndeliverableMessage.failures": (1, "what can't be delivered has failed once"),
    "_LetterRow.failures": (1, "the same, as it is stored"),
    "QueueOwner.priority": (5, "that of a task that names none"),
    "RunCounts.whole": (True, "nothing was left uncounted yet"),
    "EarlierRun.own": (True, "a run of the thread itself"),
    "DroppableOption.lasting": (True, "what a provider refused once it refuses again"),
    "RunAncestors.whole": (True, "no ancestor is missing yet"),
    "AuthorizationDecision.quorum": (1, "one person, unless a rule wants more"),
    "LedgerCall.revision": (1, "as it was asked for"),
    "Approval.quorum": (1, "one person, unless a rule wants more"),
    "ConditionWork.listed": (1, "one value is a list of one"),
    "PolicyRule.quorum": (1, "the same, as it is written"),
    "PolicyRule.expires_s": (86_400, "as in a policy file"),
    "Rule.quorum": (1, "one person, unless the rule says more"),
    "CallProvenance.whole": (True, "nothing was left out yet"),
    "CallProvenance.looked": (True, "it was looked"),
    "CallProvenance.writes": (True, "a tool that does not say otherwise writes"),
    "CarriedReaders.whole": (True, "nothing was left out yet"),
    "ReaderSearch.whole": (True, "nothing was left out yet"),
    "RunProvenance.whole": (True, "nothing was left out yet"),
    "WorkerLaunch.count": (1, "who is started is started once"),
    "AgentLaunch.count": (1, "the same"),
    "ToolEffectRecord.attempt": (1, "the first start of a call is its first attempt"),
    "WatchedRun.score": (-1.0, "not measured, which is less than any progress"),
}
LIMITS = {
    *("EgressClient", "EgressLimits", "Sandbox", "HostMount", "StreamSpec", "ConnectionLimits", "RunTimes", "Rule"),
    *("ConditionBudget", "RunFollower", "WorkerOptions", "AgentServerOptions", "UndeliverableMessage", "_LetterRow"),
    *("CampaignSettings", "ChaosOptions", "Nats", "Postgres"),
}
"""Classes whose numbers are limits; those that users meet are held by the other tests of this folder."""

BEGINNINGS = {name: value for name, value in beginnings() if not isinstance(value, float) or math.isfinite(value)}
NAMES = [
    name for name, value in BEGINNINGS.items() if not value or name in MEANT or name.partition(".")[0] not in LIMITS
]


@pytest.mark.parametrize("name", NAMES)
def test_what_has_just_begun_has_counted_and_seen_nothing_unless_it_is_meant(name: str) -> None:
    value, reason = MEANT.get(name, (0, "a count begins at 0, and a flag is off"))
    assert BEGINNINGS[name] == value, reason


def test_what_is_meant_is_there() -> None:
    assert MEANT.keys() - BEGINNINGS.keys() == set()
    assert len(NAMES) > 200


def test_a_run_begins_as_new_and_a_call_by_being_checked() -> None:
    assert RunState.__dataclass_fields__["status"].default is Status.NEW
    assert WorkerCall.__dataclass_fields__["stage"].default is CallStage.CHECKING

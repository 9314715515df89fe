"""Names that only the platform bears, as a person reads them, and entries of the audit that only one service writes."""

import pytest
from pydantic import ValidationError

from towpath_contracts.tools.access import RecordAction
from towpath_contracts.tools.reserved_names import is_platform_actor, is_platform_network, is_platform_tool_name

WIDE = "".join(chr(ord(letter) + 0xFEE0) for letter in "towpath")
"""The same word in full-width letters, which NFKC makes plain."""


@pytest.mark.parametrize("name", ["towpath.grant_proposal", "towpath.later", "TowPath.x", "towpath.", f"{WIDE}.x"])
def test_every_network_below_the_platforms_name_is_the_platforms(name: str) -> None:
    assert is_platform_network(name)


@pytest.mark.parametrize("name", ["towpath", "towpaths.x", "my.towpath.x", "towpath_demo", "desk"])
def test_other_networks_are_the_users(name: str) -> None:
    assert not is_platform_network(name)


@pytest.mark.parametrize("name", ["towpath", "Towpath.read", "towpath_x", "PLATFORM", "platform.read", f"{WIDE}-x"])
def test_a_tool_that_begins_as_the_platforms_reads_as_one(name: str) -> None:
    assert is_platform_tool_name(name)


@pytest.mark.parametrize("name", ["platform-ops", "platforms", "mail.platform", "http.request"])
def test_a_tool_that_only_has_the_word_in_it_is_the_users(name: str) -> None:
    assert not is_platform_tool_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "create-key",
            "Create_Key",
            "towpath",
            "TOWPATH-tas",
            "towpath_tas",
            "local",
            "Anonymous",
            "platform",
            "file",
        ),
        *("gateway", "orchestrator", "decider", "tas", "worker", "agent", "log_writer", "watchdog", WIDE),
    ],
)
def test_a_caller_that_reads_as_who_the_platform_names_in_records_is_an_actor_of_it(name: str) -> None:
    assert is_platform_actor(name)


@pytest.mark.parametrize("name", ["mia", "locals", "my-worker", "agents", "towpathfan", "platform-ops"])
def test_other_callers_are_people_and_applications(name: str) -> None:
    assert not is_platform_actor(name)


@pytest.mark.parametrize(
    "action",
    ["run.forked", "gate.resolved", "budget.set", "budget.lifted", "dead_letter.requeued", "network.published"],
)
def test_what_the_orchestrator_does_is_recorded(action: str) -> None:
    assert RecordAction(project="p", action=action, actor="ann").action == action


@pytest.mark.parametrize(
    "action",
    [
        *("key.created", "policy.applied", "tool.accepted", "switch.resumed", "audit.dropped", "audit.erase_confirmed"),
        *("decision", "outcome", "approval.approved", "audit.erased", "run", "run.", "x.run.forked", "run.forked\n"),
    ],
)
def test_entries_of_others_are_not_recorded_for_a_service(action: str) -> None:
    with pytest.raises(ValidationError, match="action"):
        RecordAction(project="p", action=action, actor="ann")

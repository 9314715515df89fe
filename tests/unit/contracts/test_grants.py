"""Rights only narrow, from a task to its child runs, handoffs and forks; and a discovered tool is opened by name."""

from collections import Counter
from typing import Any

import pytest
from tests.oracles import delegation
from tests.support.engine.machine import START, Machine, respond, route, snapshot, use

from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.problems.registry import REGISTRY
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.grants import (
    MAX_CHAIN,
    GrantChainTooLongError,
    chain_covers,
    grant_chain,
    narrow,
)
from towpath_engine.requests.network_context import build_context
from towpath_engine.state.run import EffectKind
from towpath_orchestrator.core.tasks import check_task, created_event
from towpath_orchestrator.settings import OrchestratorSettings

READ = ({"tool": "echo", "operation": "*", "when": None},)
ANY = ({"tool": "*", "operation": "*", "when": None},)
NONE: tuple[dict[str, Any], ...] = ()
VERSION = NetworkVersion(project="p", name="desk", version=1, digest="sha256:n", published_at=START, published_by="ann")


def task(grant: Any = None) -> SubmitTask:
    return SubmitTask.model_validate({"network": "desk", "user_message": "go", "grant": grant})


def run(grant: Any = None, parent: RunCreated | None = None) -> RunCreated:
    return created_event(task(grant), VERSION, snapshot(), "alice", None, parent)


def test_random_trees_of_delegation_give_nobody_more_than_a_brute_force_oracle() -> None:
    found: Counter[str] = Counter()
    for tree, faults in delegation.trees(40, 7, found):
        assert faults == [], f"{tree.rules}\n{tree.nodes}"
    assert set(found) == {"allow", "deny", "require_approval"}


def test_a_chain_grows_by_every_grant_and_repeats_none() -> None:
    assert narrow((), None) == ()
    assert narrow((ANY,), READ) == (ANY, READ)
    assert narrow((ANY, READ), ANY) == (ANY, READ)
    assert narrow((ANY,), NONE) == (ANY, NONE), "a grant of nothing is one"
    assert grant_chain((), None) == ()
    assert grant_chain((ANY,), READ) == (ANY, READ) == grant_chain((ANY, READ), READ)
    assert grant_chain([[*ANY]], [*READ]) == (ANY, READ)
    long = tuple(({"tool": f"t{number}"},) for number in range(MAX_CHAIN))
    with pytest.raises(GrantChainTooLongError):
        narrow(long, READ)


def test_the_grants_of_a_chain_have_so_many_entries_together_and_no_more() -> None:
    """Each call carries them all: sixteen grants of 256 entries would be 700 KB."""
    one, two = (tuple({"tool": f"{name}{number}"} for number in range(256)) for name in "ab")
    full = narrow((one,), two)
    assert narrow(full, two) == full == (one, two), "what stands there already is not counted again"
    with pytest.raises(GrantChainTooLongError, match="513 entries together"):
        narrow(full, READ)


@pytest.mark.parametrize(
    ("grants", "open_"),
    [((), True), ((ANY,), True), ((NONE,), False), ((ANY, READ), False), ((READ, NONE), False), ((READ,), False)],
)
def test_every_grant_of_a_chain_must_speak_of_a_tool(grants: Any, open_: bool) -> None:
    assert chain_covers(grants, "lookup", "call") is open_


def test_a_child_run_stands_under_every_grant_above_it() -> None:
    root = run([{"tool": "*"}])
    child = run([{"tool": "echo"}], root)
    free = run(None, child)
    tools = [[entry["tool"] for entry in grant] for grant in grant_chain(free.grants, free.grant)]
    assert (root.grants, free.grant, tools) == ((), None, [["*"], ["echo"]])
    assert RunCreated.model_validate_json(free.model_dump_json()) == free


def test_a_handoff_keeps_the_chain_and_a_model_is_shown_no_more_than_it_opens() -> None:
    machine = Machine(grants=(({"tool": "[el]*"},),), grant=({"tool": "echo"}, {"tool": "pay"}))
    shown = []
    for decision in (route("expert"), use("echo", text="a")):
        shown.append([tool.name for tool in build_context(machine.state).tools])
        machine.decide(decision)
    assert shown == [["echo"], ["echo"]], "triage has pay too, which the chain bars"
    (request,) = [one.message for one in machine.sent if one.effect.kind is EffectKind.TOOL]
    assert isinstance(request, ToolRequest)
    assert [[entry["tool"] for entry in grant] for grant in request.grants] == [["[el]*"], ["echo", "pay"]]
    assert request.grant == ({"tool": "echo"}, {"tool": "pay"})
    machine.finish(result="a")
    machine.decide(respond())


def test_a_grant_that_names_nothing_is_refused_with_everything_that_is_wrong() -> None:
    wrong = [{"tool": "ehco"}, {"tool": "pay", "operation": "delete"}, {"tool": "nothing.*"}, {"tool": "echo"}]
    refused = check_task(task(wrong), snapshot(), OrchestratorSettings(embedded=True))
    assert refused is not None
    assert [(one.pointer, one.code) for one in refused.errors] == [
        ("/grant/0/tool", "tool_unknown"),
        ("/grant/1/operation", "operation_unknown"),
    ]
    assert "did you mean 'echo'?" in refused.errors[0].detail
    assert check_task(task([{"tool": "pay", "operation": "c*"}]), snapshot(), OrchestratorSettings()) is None


def test_a_script_that_no_model_plays_is_refused() -> None:
    settings = OrchestratorSettings(embedded=True)
    for model, code in ((None, None), ("scripted:mine", None), ("gemini:flash", "script_unplayed")):
        given = task(None).model_copy(update={"script": ({"action": "RESPOND"},), "model": model})
        refused = check_task(given, snapshot(), settings)
        assert (refused and refused.code) == code
    assert REGISTRY["script_unplayed"].status == 422

"""What callers send again without an answer: questions, and commands that do the same when they are handled twice."""

from towpath_contracts import rpc

READS = (
    "get",
    "list",
    "show",
    "describe",
    "check",
    "preview",
    "render",
    "events",
    "sweep",
    "idle",
    "run_tree",
    "record",
)

REPEATED_COMMANDS = {
    "cancel_run",  # the run is asked to stop, stops once, and has one entry of the audit
    "wake_paused",  # its facts have the same ids
    "serve_agent",
    "raise_fence",  # effects of a run, which it sends again until they are answered
    "record_outcome",
    "register_tools",
    "blob_put",  # stored under its digest
}


def test_commands_are_sent_again_only_where_twice_is_once() -> None:
    repeated = {one.method for one in (*rpc.METHODS, *rpc.AGENT_METHODS) if one.repeatable}
    queries = {name for name in repeated if name.startswith(READS) and name != "record_outcome"}
    others = {"blob_get", "audit_query", "policy_versions", "policy_changes"}
    assert repeated - queries - others == REPEATED_COMMANDS


def test_what_is_audited_or_set_is_sent_once() -> None:
    for method in (
        *(rpc.RECORD_ACTION, rpc.RESOLVE_GATE, rpc.RESOLVE_APPROVAL, rpc.SETTLE_CALL, rpc.FORK_RUN),
        *(rpc.PUBLISH_NETWORK, rpc.SET_BUDGET, rpc.SET_QUOTA, rpc.SET_SWITCH, rpc.APPLY_POLICY, rpc.CHANGE_RULE),
        *(rpc.ROLL_BACK_POLICY, rpc.SET_SHADOW, rpc.REQUEST_ERASURE, rpc.SETTLE_DEAD_LETTER, rpc.REPUBLISH),
        *(rpc.DECIDE_PROPOSAL, rpc.RETRY_NOTICE, rpc.DECIDE_ERASURE),
    ):
        assert not method.repeatable, method.subject

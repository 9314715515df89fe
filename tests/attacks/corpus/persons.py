"""Attacks by who wants to be somebody else: keys for other callers, approvals of one's own requests."""

from tests.attacks.attack import AttackWorkedError, Position, attack, refused_as
from tests.attacks.target import Target, pending_gates

from towpath_fabric.clock import wall
from towpath_gateway.core.api_keys import ALL_SCOPES


@attack(Position.KEY_HOLDER)
async def key_for_a_caller_with_roles(target: Target) -> str:
    """Make a key for a caller who may approve, and approve one's own refund with it."""
    await target.key("mia", roles=["approver"])
    async with target.client("kadmin") as admin:
        run = await target.run(admin, [("desk.refund", {"order": "1", "amount": 9999})], "Refund order 1.")
        made = await admin.post("/v1/keys", json={"caller": "mia", "scopes": ["gates:read", "gates:resolve"]})
        if made.is_success:
            raise AttackWorkedError(f"a key of mia: {made.json()['roles']}; the refund of {run['run_id']} waits")
        return refused_as(made, "forbidden")


@attack(Position.KEY_HOLDER)
async def key_made_before_the_roles(target: Target) -> str:
    """Make a key for somebody new, wait until that person may approve, and approve one's own refund with it."""
    async with target.client("kadmin2") as admin:
        made = await admin.post("/v1/keys", json={"caller": "noa", "scopes": ["gates:read", "gates:resolve"]})
        made.raise_for_status()
        await target.key("noa", roles=["approver"])
        run = await target.run(admin, [("desk.refund", {"order": "2", "amount": 9999})], "Refund order 2.")
        (gate,) = await pending_gates(admin, run["run_id"])
        early = {"Authorization": f"Bearer {made.json()['key']}"}
        vote = {"verdict": "approved", "reason": "fine"}
        answer = await admin.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote, headers=early)
        if answer.is_success:
            raise AttackWorkedError(f"approved as noa: {run['run_id']}")
        return refused_as(answer, "role_missing")


@attack(Position.KEY_HOLDER, lasting=True)
async def key_without_a_trace(target: Target) -> str:
    """Make a key, revoke it while the tool-access service is down, and have the audit's details erased."""
    await target.platform.hold("tas")
    try:
        async with target.client("kadmin3", scopes=ALL_SCOPES) as admin:
            made = (await admin.post("/v1/keys", json={"caller": "ghost", "scopes": ["runs:read"]})).json()
            (await admin.delete(f"/v1/keys/{made['prefix']}")).raise_for_status()
            target.platform.release("tas")
            await target.platform.wait_ready()
            erase = {"reason": "tidy", "before": wall().isoformat()}
            asked = (await admin.post("/v1/erasures", json=erase)).json()
            async with target.client("kadmin4", scopes=["audit:erase"], as_caller=True) as other:
                (await other.post(f"/v1/erasures/{asked['erasure_id']}/confirm")).raise_for_status()
            phases = []
            for phase in ("key.created", "key.revoked"):
                page = (await admin.get(f"/v1/audit?actor=kadmin3&phase={phase}")).json()
                phases += [entry["phase"] for entry in page["entries"] if entry["detail"].get("key") == made["prefix"]]
    finally:
        target.platform.release("tas")
    if phases != ["key.created", "key.revoked"]:
        raise AttackWorkedError(f"the audit has {phases}")
    return f"the audit has {' and '.join(phases)}"

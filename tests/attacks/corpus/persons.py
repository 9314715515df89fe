"""Attacks by who wants to be somebody else: keys for other callers, approvals of one's own requests."""

from tests.attacks.attack import AttackWorkedError, Position, attack
from tests.attacks.target import Target


@attack(Position.KEY_HOLDER)
async def key_for_a_caller_with_roles(target: Target) -> str:
    """Make a key for a caller who may approve, and approve one's own refund with it."""
    await target.key("mia", roles=["approver"])
    async with target.client("kadmin") as admin:
        run = await target.run(admin, [("desk.refund", {"order": "1", "amount": 9999})], "Refund order 1.")
        made = await admin.post("/v1/keys", json={"caller": "mia", "scopes": ["gates:read", "gates:resolve"]})
        if made.is_success:
            raise AttackWorkedError(f"a key of mia: {made.json()['roles']}; the refund of {run['run_id']} waits")
        return str(made.json()["code"])
